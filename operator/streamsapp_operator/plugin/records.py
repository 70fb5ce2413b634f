"""``kubectl streamsapp produce NAME TOPIC`` and ``consume NAME TOPIC``: records in, records out, with the application's
own serdes and rights. Runs on the main thread; the work is done by ``streamsapp`` in a pod beside the application."""

from __future__ import annotations

import argparse
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from streamsapp_operator.plugin.arguments import add_command, add_forwarded, forwarded_arguments
from streamsapp_operator.plugin.command_pods import command_pod_of
from streamsapp_operator.plugin.errors import WRONG_INPUT, PluginError
from streamsapp_operator.plugin.session import CommandSession

_POD = (
    "A pod beside the application does it, in its image, with its manifest, code and secrets. It is deleted at the\n"
    "end, also after Ctrl-C, and ends by itself within an hour. The options are those of `streamsapp {}`."
)
_SERDES = {
    "--key-serde": "the serde of the keys; default: the application's",
    "--value-serde": "the serde of the values; default: the application's",
}
_PRODUCE = _SERDES
_CONSUME = _SERDES | {
    "--from": "beginning (default), latest (follows), an offset, --from=-N for the last N, or a time in ISO 8601",
    "--partition": "read this partition only",
    "--max": "end after so many records",
    "--follow": "go on with new records until Ctrl-C",
}


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    producer = add_command(
        commands, "produce", "write records to a topic, from lines of JSON", _POD.format("produce"), produce
    )
    producer.add_argument("topic", metavar="TOPIC")
    producer.add_argument(
        "input", nargs="?", type=Path, metavar="FILE", help="a file of lines; default: standard input"
    )
    add_forwarded(producer, _PRODUCE)
    consumer = add_command(
        commands, "consume", "print the records of a topic as lines of JSON", _POD.format("consume"), consume
    )
    consumer.add_argument("topic", metavar="TOPIC")
    add_forwarded(consumer, _CONSUME, flags=("--follow",))


def produce(options: argparse.Namespace, session: CommandSession) -> int:
    app = session.cluster.app(options.name)
    arguments = [*forwarded_arguments(options, _PRODUCE), "--output", options.output, "--", options.topic]
    with _opened(options.input) as lines, command_pod_of(session, app, "produce") as pod:
        return pod.run("produce", arguments, lines)


def consume(options: argparse.Namespace, session: CommandSession) -> int:
    app = session.cluster.app(options.name)
    arguments = [*forwarded_arguments(options, _CONSUME), "--", options.topic]
    try:
        with command_pod_of(session, app, "consume") as pod:
            return pod.run("consume", arguments)
    except KeyboardInterrupt:
        if options.follow or getattr(options, "from") == "latest":  # nothing else ends it
            return 0
        raise


def _opened(path: Path | None) -> AbstractContextManager[BinaryIO]:
    if path is None:
        return nullcontext(sys.stdin.buffer)
    try:
        return path.open("rb")
    except OSError as error:
        raise PluginError(f"{path}: cannot be read: {error.strerror}", WRONG_INPUT) from error
