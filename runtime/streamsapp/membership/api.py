"""Membership: which tasks this instance runs, and the right to commit for them.

The polling thread is the only caller. An implementation that talks to a group coordinator does so on a thread of its
own and hands its news over in ``poll``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from streamsapp.record import TaskId, TopicPartition


@dataclass(frozen=True)
class Assignment:
    """The tasks of this instance in one generation."""

    active: frozenset[TaskId]
    standby: frozenset[TaskId] = field(default_factory=frozenset)
    generation: int = 0


class Membership(Protocol):
    """One instance's place in the group of instances that run an application."""

    @property
    def transactional_id(self) -> str:
        """Under which this instance's producer writes; whoever uses it next fences this instance."""
        ...

    def start(self, tasks: frozenset[TaskId]) -> None:
        """Join; ``tasks`` is everything the application consists of."""
        ...

    def poll(self) -> Assignment | None:
        """The new assignment when there is one."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit input offsets with their metadata, fenced by this membership; raises ``KafkaException``."""
        ...

    def metadata(self) -> Any:
        """What a transaction that sends offsets is fenced by."""
        ...

    def leave(self) -> None:
        """Give everything up."""
        ...
