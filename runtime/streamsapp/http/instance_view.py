"""The interface through which the HTTP server sees an instance; the runtime implements it.

Called on the server's threads, at any time between construction and after close: no method may wait for work to be
done, and none may raise because the instance is starting or gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from streamsapp.metrics import Sample
from streamsapp.topology.description import TopologyDescription
from streamsapp.web.history import MomentHistory


class EngineView(Protocol):
    """The outside of a process that runs an application."""

    def status(self) -> dict[str, Any]:
        """The document of ``/status``; an offset that is not known is ``None``."""
        ...

    def healthy(self) -> tuple[bool, str]:
        """Says whether every thread lives and none hangs, and if not why: unhealthy instances are killed."""
        ...

    def ready(self) -> tuple[bool, str]:
        """Says whether the instance has come back since it started, and if not which task it waits for."""
        ...

    def describe(self) -> TopologyDescription:
        """Returns the parts that the topology consists of."""
        ...

    def samples(self) -> Iterable[Sample]:
        """Everything that is measured."""
        ...


class InstanceView(EngineView, Protocol):
    """An instance from outside."""

    def snapshot(self, timeout: float) -> bool:
        """Take a snapshot of every active task; whether remote state has them within ``timeout`` seconds. Waits so
        long."""
        ...

    def pause(self, sub_topology: int | str | None = None) -> None:
        """Stop processing of a sub-topology; raises ``UserInputError`` if there is none of this name, and
        ``StreamsError`` if the instance is not started."""
        ...

    def resume(self, sub_topology: int | str | None = None) -> None:
        """Go on with it; raises as ``pause`` does."""
        ...

    def take_out(self, member_id: str) -> None:
        """Take a member whose process has ended out of the group. Waits for the coordinator; raises ``StreamsError`` if
        that does not do it."""
        ...

    @property
    def history(self) -> MomentHistory:
        """The figures of the last hour."""
        ...

    def figures(self, tapped: str | None) -> dict[str, Any]:
        """The figures that the console shows, and the last records at the node ``tapped``."""
        ...
