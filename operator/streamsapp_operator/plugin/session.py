"""The session of a command: its cluster, terminal and clock. Made once by ``main``; tests make their own."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TextIO

from streamsapp.clock import Clock
from streamsapp_operator.plugin.documents import PodAnswer
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


class ClusterAccess(Protocol):
    """One namespace of a cluster, with the rights of the user. Everything raises ``PluginError``."""

    @property
    def namespace(self) -> str: ...

    def app(self, name: str) -> Document:
        """The StreamsApp; an error that helps if there is none."""
        ...

    def pods(self, name: str) -> list[Document]:
        """Its pods, by number."""
        ...

    def reports(self, name: str, pods: Sequence[Document]) -> dict[str, PodAnswer]:
        """What the pods say of themselves, by name; asked at the same time."""
        ...

    def topology(self, name: str, pods: Sequence[Document], form: str) -> str:
        """As the first of these pods tells it that answers."""
        ...

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> Document:
        """Set annotations of the StreamsApp, or remove them (``None``); it, as it is then."""
        ...

    def scale(self, name: str, replicas: int) -> None:
        """Through the scale subresource."""
        ...

    def operators(self) -> list[OperatorSeen] | None:
        """Every operator of the cluster; ``None`` if the user may not see that."""
        ...


@dataclass(frozen=True, slots=True)
class Session:
    """What there is to work with."""

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
        """A line that the next one replaces; none where lines stay."""
        if self.live:
            self.out.write(f"\r\x1b[K{line}")
            self.out.flush()

    def clear(self) -> None:
        """Begin at the top of an empty terminal."""
        if self.live:
            self.out.write("\x1b[H\x1b[2J")


def warn(message: str) -> None:
    """To whoever types, beside the result."""
    print(message, file=sys.stderr)
