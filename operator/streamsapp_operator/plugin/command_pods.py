"""A pod beside an application in which commands of a user run: made, waited for, and deleted however they end.

Called by ``produce``, ``consume``, ``reset`` and ``preview``, on the main thread, with the user's own rights.
"""

from __future__ import annotations

import secrets
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, BinaryIO

from streamsapp_operator.children.command_pod import command_pod, template_of
from streamsapp_operator.children.names import Owner
from streamsapp_operator.children.pod_template import MANIFEST_PATH
from streamsapp_operator.model.waiting_reasons import CANNOT_RUN_ONCE
from streamsapp_operator.observe.pods import container_status, waiting
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.session import CommandSession, Document, Streams, warn
from streamsapp_operator.plugin.text import clean

#: Seconds that a pod may take to run: an image that is new to a node has to be fetched.
_START_SECONDS = 120.0
_POLL_SECONDS = 0.2


#: A pipe cannot be read as a file in a pod: its owner is another user.
_WRITE = """
import pathlib, sys
path = pathlib.Path(sys.argv[1])
path.parent.mkdir(parents=True, exist_ok=True)
path.write_bytes(sys.stdin.buffer.read())
"""


class CommandPod:
    """A pod that runs."""

    def __init__(self, session: CommandSession, name: str) -> None:
        self._session = session
        self._name = name

    def put(self, content: BinaryIO, path: str) -> None:
        """Writes a file into the pod."""
        words = ["python3", "-c", _WRITE, path]
        code = self._session.cluster.execute(self._name, words, Streams(self._session.out, sys.stderr, content))
        if code != 0:
            raise PluginError(f"{self._name}: {path} could not be written there")

    def run(
        self, command: str, arguments: Sequence[str], given: BinaryIO | None = None, manifest: str = MANIFEST_PATH
    ) -> int:
        """Runs a command of ``streamsapp``, on the application's manifest or another one in the pod; returns its exit
        code."""
        words = ["streamsapp", "--log-level", "warning", "--log-format", "text", command, "-f", manifest]
        streams = Streams(self._session.out, sys.stderr, given)
        return self._session.cluster.execute(self._name, [*words, *arguments], streams)


@contextmanager
def command_pod_of(
    session: CommandSession, app: Document, command: str, changes: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[CommandPod]:
    """Makes a pod beside the application, and deletes it at the end; ``changes`` are fields of its container."""
    metadata = app["metadata"]
    owner = Owner(metadata["name"], session.cluster.namespace, metadata["uid"])
    name = f"{owner.name}-{command}-{secrets.token_hex(3)}"
    document = command_pod(owner, template_of(session.cluster.stateful_set(owner.name)), name, changes)
    with _interrupted_by_any_signal():
        try:
            session.cluster.create_pod(document)
            _wait_until_it_runs(session, name)
            yield CommandPod(session, name)
        finally:
            _delete(session, name)


def _wait_until_it_runs(session: CommandSession, name: str) -> None:
    give_up = session.clock.monotonic() + _START_SECONDS
    session.overwrite(f"{name}: starting")
    while not _runs(found := session.cluster.pod(name)):
        reason, _ = waiting(found or {})
        ended = found is None or (found.get("status") or {}).get("phase") in ("Failed", "Succeeded")
        if ended or reason in CANNOT_RUN_ONCE or session.clock.monotonic() >= give_up:
            session.overwrite("")
            raise PluginError(f"{name} does not run: {_why(session, name, found)}")
        session.wait(_POLL_SECONDS)
    session.overwrite("")


def _runs(pod: Document | None) -> bool:
    return "running" in (container_status((pod or {}).get("status") or {}).get("state") or {})


def _why(session: CommandSession, name: str, pod: Document | None) -> str:
    """Says what holds a pod up, in the words of the scheduler, of the node, or of an event."""
    if pod is None:
        return "it was deleted"
    reason, message = waiting(pod)
    status = pod.get("status") or {}
    said = [f"{reason}: {message}" if message else reason, *session.cluster.warnings(name)[-1:], status.get("message")]
    return clean("; ".join(filter(None, said)) or f"nothing is known after {_START_SECONDS:.0f} s")


def _delete(session: CommandSession, name: str) -> None:
    try:
        session.cluster.delete_pod(name)
    except PluginError as error:
        warn(f"{name} is left, and ends by itself within an hour: {error}")


@contextmanager
def _interrupted_by_any_signal() -> Iterator[None]:
    """A terminal that is closed, and a request to end, are as Ctrl-C: the pod is deleted. A signal that is ignored, as
    under ``nohup``, stays so."""
    others = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, signal.default_int_handler) for number in others}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
