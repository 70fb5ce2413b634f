"""``kubectl streamsapp scale NAME N``: says how many pods there shall be. Runs on the main thread."""

from __future__ import annotations

import argparse

from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import read_app
from streamsapp_operator.plugin.errors import WRONG_INPUT, PluginError
from streamsapp_operator.plugin.session import CommandSession


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "scale",
        "change the number of pods; 0 suspends",
        "Up at once; down one pod at a time, each only when that is safe.",
        run,
    )
    parser.add_argument("replicas", metavar="N", type=_replicas, help="how many pods there shall be")


def run(options: argparse.Namespace, session: CommandSession) -> int:
    app = read_app(session.cluster.app(options.name))
    if app.autoscaled:
        raise PluginError(
            f"{app.name} scales itself (spec.autoscaling): change its minReplicas and maxReplicas, or remove it first",
            WRONG_INPUT,
        )
    wanted: int = options.replicas
    if wanted != app.replicas:
        session.cluster.scale(app.name, wanted)
    if options.output == "json":
        document = {"name": app.name, "namespace": app.namespace, "from": app.replicas, "replicas": wanted}
        session.print_json(document)
    else:
        session.print([f"{session.style.title(app.name)}: {_said(app.replicas, wanted, app.status.tasks.active)}"])
    return 0


def _said(before: int, wanted: int, tasks: int) -> str:
    if wanted == before:
        return f"has {wanted} replicas already"
    if wanted == 0:
        return f"from {before} to 0 replicas: all pods take final snapshots and stop; scale it up to go on"
    if wanted < before:
        return f"from {before} to {wanted} replicas, one pod at a time, each when that is safe"
    idle = f"; only {tasks} of them will have work, as there are {tasks} tasks" if 0 < tasks < wanted else ""
    return f"from {before} to {wanted} replicas{idle}"


def _replicas(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number, 0 or more, got {text!r}")
    return int(text)
