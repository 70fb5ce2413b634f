"""``kubectl streamsapp topology NAME``: shows the parts of an application, as its pods run it. Runs on the main
thread."""

from __future__ import annotations

import argparse

from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.session import CommandSession


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "topology",
        "the topology that is running",
        "The text is byte for byte that of Kafka Streams.",
        run,
    )
    parser.add_argument("--format", choices=["text", "mermaid"], default="text", help="default: text")


def run(options: argparse.Namespace, session: CommandSession) -> int:
    session.cluster.app(options.name)
    pods = session.cluster.pods(options.name)
    if not pods:
        raise PluginError(
            f"{options.name} has no pods now that could show the topology; "
            "without a cluster: streamsapp describe -f app.yaml"
        )
    form = "json" if options.output == "json" else options.format
    lines = session.cluster.topology(options.name, pods, form).rstrip("\n").split("\n")
    # The topology is a user's program: it is shown, and steers no terminal.
    session.print(
        "".join(letter if letter.isprintable() or letter == "\t" else " " for letter in line) for line in lines
    )
    return 0
