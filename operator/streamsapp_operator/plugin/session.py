"""The session of a command: its cluster, terminal and clock. Made once by ``main`` on the main thread; tests make their
own."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, BinaryIO, Protocol, TextIO

from streamsapp.clock import Clock
from streamsapp_operator.plugin.documents import PodAnswer
from streamsapp_operator.plugin.gathering import ReportPart
from streamsapp_operator.plugin.style import Style

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OperatorSeen:
    """An operator somewhere in the cluster."""

    namespace: str
    name: str
    #: ``None``: all namespaces.
    watched: tuple[str, ...] | None
    #: A pod of it is ready.
    running: bool = True


@dataclass(frozen=True, slots=True)
class Streams:
    """The files that a program in a pod reads and writes."""

    out: TextIO
    errors: TextIO
    #: ``None``: it has no standard input.
    input: BinaryIO | None = None


@dataclass(frozen=True, slots=True)
class PageServer:
    """A pod that serves a page."""

    namespace: str
    pod: str
    port: int
    #: The token that the page asks for, if it is to be given to it.
    token: str | None


class ClusterAccess(Protocol):
    """Reads and changes one namespace of a cluster, with the rights of the user. Every method raises
    ``PluginError``."""

    @property
    def namespace(self) -> str: ...

    def app(self, name: str) -> Document:
        """Returns the StreamsApp; raises an error that helps if there is none."""
        ...

    def pods(self, name: str) -> list[Document]:
        """Returns its pods, by number."""
        ...

    def reports(self, name: str, pods: Sequence[Document]) -> dict[str, PodAnswer]:
        """Returns the pods' own reports, by name; all pods are asked at the same time."""
        ...

    def take_snapshots(self, name: str, pods: Sequence[Document], seconds: float) -> dict[str, str | None]:
        """Has each pod take a snapshot of every task that it runs, at the same time, within so many seconds. Returns by
        name why a pod did not; ``None``: it did."""
        ...

    def gather(self, name: str, *, tail: int) -> Iterator[ReportPart]:
        """Yields the parts of a report, with so many lines of each log."""
        ...

    def secrets(self, name: str) -> Sequence[str]:
        """Returns the values of the Secrets that the application refers to, as far as the user may read them."""
        ...

    def topology(self, name: str, pods: Sequence[Document], form: str) -> str:
        """Returns the topology, from the first of these pods that answers."""
        ...

    def logs(self, pod: str, *, tail: int, follow: bool, previous: bool) -> Iterator[str]:
        """Returns the last lines that a pod has written, and with ``follow`` the lines that come."""
        ...

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> Document:
        """Sets annotations of the StreamsApp, or removes them (``None``); returns the StreamsApp as it is then."""
        ...

    def scale(self, name: str, replicas: int) -> None:
        """Sets the number of pods through the scale subresource."""
        ...

    def stateful_set(self, name: str) -> Document:
        """Returns the StatefulSet of its pods; raises an error that helps if there is none."""
        ...

    def create_pod(self, document: Document) -> None:
        """Creates a pod."""
        ...

    def pod(self, name: str) -> Document | None:
        """Returns a pod of this name, if there is one."""
        ...

    def warnings(self, pod: str) -> list[str]:
        """Returns what the cluster warned of about a pod; nothing if the user may not see that."""
        ...

    def delete_pod(self, name: str) -> None:
        """Deletes a pod, if it is there."""
        ...

    def execute(self, pod: str, command: Sequence[str], streams: Streams) -> int:
        """Runs a program in a pod to its end; returns its exit code."""
        ...

    def page_of(self, name: str, pod: str) -> PageServer:
        """Returns the page of an application, served by one of its pods, with the token that these take."""
        ...

    def operators_page(self) -> PageServer:
        """Returns the page of all applications. It is given no token: the user's own is good for more than that."""
        ...

    def forwarded(self, page: PageServer) -> AbstractContextManager[socket.socket]:
        """Connects to the port of a page; raises ``PodUnreachableError``."""
        ...

    def operators(self) -> list[OperatorSeen] | None:
        """Returns every operator of the cluster; ``None`` if the user may not see that."""
        ...


@dataclass(frozen=True, slots=True)
class CommandSession:
    """The cluster, the terminal and the clock that a command works with."""

    cluster: ClusterAccess
    out: TextIO
    style: Style
    clock: Clock
    #: Waits so many seconds.
    wait: Callable[[float], None]
    #: Lines may be overwritten.
    live: bool = False

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC)

    def print(self, lines: Iterable[str]) -> None:
        self.out.write("".join(f"{line}\n" for line in lines))
        self.out.flush()

    def print_json(self, document: object) -> None:
        self.print([json.dumps(document, indent=2, ensure_ascii=not self.style.unicode)])

    def overwrite(self, line: str) -> None:
        """Writes a line that the next one replaces; it writes none where lines stay."""
        if self.live:
            self.out.write(f"\r\x1b[K{line}")
            self.out.flush()

    def clear(self) -> None:
        """Clears the terminal, so that the next line is at its top."""
        if self.live:
            self.out.write("\x1b[H\x1b[2J")


def warn(message: str) -> None:
    """Warns the user on stderr, beside the result."""
    print(message, file=sys.stderr)
