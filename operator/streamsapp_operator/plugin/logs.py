"""``kubectl streamsapp logs NAME``: the logs of an application's pods, each line with its pod.

The main thread prints; with ``--follow`` each pod is read on a thread of its own, which ends with the command.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.errors import WRONG_INPUT, PluginError
from streamsapp_operator.plugin.session import CommandSession, Document, warn
from streamsapp_operator.plugin.text import clean

_Line = tuple[str, str]
_Read = Callable[[str], Iterable[str]]


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "logs",
        "the logs of its pods",
        "Pod after pod; with --follow lines of all pods as they come, until Ctrl-C. -o json: one object a line.",
        run,
    )
    parser.add_argument("--pod", metavar="POD", help="the lines of this pod only")
    parser.add_argument("--tail", type=int, default=100, metavar="N", help="the last lines of each; default: 100")
    parser.add_argument("--follow", "-f", action="store_true", help="go on with lines that come")
    parser.add_argument(
        "--previous", "-p", action="store_true", help="the lines of the container that ran before a restart"
    )


def run(options: argparse.Namespace, session: CommandSession) -> int:
    if options.tail < 0:
        raise PluginError(f"--tail: expected an integer ≥ 0, got {options.tail}", WRONG_INPUT)
    session.cluster.app(options.name)
    pods = _chosen(session.cluster.pods(options.name), options.name, options.pod)
    read = partial(session.cluster.logs, tail=options.tail, follow=options.follow, previous=options.previous)
    width = max(len(each) for each in pods)
    for pod, line in _as_they_come(pods, read) if options.follow else _one_by_one(pods, read):
        if options.output == "json":
            session.print([json.dumps({"pod": pod, "log": _parsed(line)}, ensure_ascii=not session.style.unicode)])
        else:
            session.print([f"{pod:<{width}}  {clean(line)}"])
    return 0


def _chosen(pods: Sequence[Document], name: str, wanted: str | None) -> list[str]:
    names = [each["metadata"]["name"] for each in pods]
    if not names:
        raise PluginError(f"{name} has no pods now")
    if wanted is not None and wanted not in names:
        raise PluginError(f"--pod: {name} has no pod {wanted!r}; there are: {', '.join(names)}", WRONG_INPUT)
    return names if wanted is None else [wanted]


def _one_by_one(pods: Sequence[str], read: _Read) -> Iterator[_Line]:
    """A pod that has no log is reported, and the others are read; where none has one the command fails."""
    failed = []
    for pod in pods:
        try:
            yield from ((pod, line) for line in read(pod))
        except PluginError as error:
            failed.append(f"{pod}: {error}")
    _tell(failed, len(pods))


def _as_they_come(pods: Sequence[str], read: _Read) -> Iterator[_Line]:
    """Lines of all pods, until the last of them has no more."""
    lines: SimpleQueue[_Line | PluginError | None] = SimpleQueue()

    def follow(pod: str) -> None:
        try:
            for line in read(pod):
                lines.put((pod, line))
            lines.put(None)
        except PluginError as error:
            lines.put(PluginError(f"{pod}: {error}"))

    for pod in pods:
        threading.Thread(target=follow, args=(pod,), daemon=True).start()
    failed, ended = [], 0
    while ended < len(pods):
        found = lines.get()
        if isinstance(found, tuple):
            yield found
        else:
            ended += 1
            failed += [] if found is None else [str(found)]
    _tell(failed, len(pods))


def _tell(failed: Sequence[str], pods: int) -> None:
    if len(failed) == pods:
        raise PluginError("\n".join(failed))
    for each in failed:
        warn(each)


def _parsed(line: str) -> Any:
    """The runtime writes JSON; other programs of the pod write text."""
    try:
        return json.loads(line)
    except ValueError:
        return line
