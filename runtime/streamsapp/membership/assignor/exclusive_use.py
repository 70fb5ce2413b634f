"""Keeps apart what one running task at a time may use, whatever its id: a partition that it reads, a changelog that it
writes.

Two versions of a topology may give the same topic or store to sub-topologies of different numbers. Their tasks differ
by id, and would read every record twice.

Used by the assignor and by the leader, for one assignment, on the membership's thread; pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from streamsapp.membership.api import TaskInfo
from streamsapp.record import TaskId, TopicPartition

H = TypeVar("H", bound=Hashable)


@dataclass(frozen=True)
class _Changelog:
    """The partition of a store's changelog that one task writes."""

    store: str
    partition: int

    def __str__(self) -> str:
        return f"store {self.store} of partition {self.partition}"


@dataclass(frozen=True)
class Rival(Generic[H]):
    """The holder of something that another one needs."""

    holder: H
    #: The partition, changelog or task id that both need, in words.
    what: str


class ExclusiveUse(Generic[H]):
    """One dictionary: what tasks need for themselves, with the holder of each."""

    def __init__(self) -> None:
        self._holders: dict[TaskId | TopicPartition | _Changelog, H] = {}

    def hold(self, holder: H, task: TaskId, info: TaskInfo) -> None:
        """Gives the holder what its task needs, as far as no other has it."""
        for need in _needs(task, info):
            self._holders.setdefault(need, holder)

    def rival(self, holder: H, task: TaskId, info: TaskInfo) -> Rival[H] | None:
        """Returns the holder of something that this task needs; ``None`` if it may run at ``holder``."""
        for need in _needs(task, info):
            other = self._holders.get(need, holder)
            if other != holder:
                return Rival(other, str(need))
        return None


def _needs(task: TaskId, info: TaskInfo) -> Iterator[TaskId | TopicPartition | _Changelog]:
    yield task
    yield from info.partitions
    for name, _ in info.stores or ():
        yield _Changelog(name, task.partition)
