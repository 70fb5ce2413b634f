"""Holds the commit that a task's stores stand at, and the moments in which they stand at none.

The polling thread moves the stores from one commit to the next in several steps, and does other things between them.
The snapshot thread copies the stores between two moves. Neither may fall into the other: the copy holds the lock until
the waiting entries are written to RocksDB and linked. The polling thread does not wait for it but comes back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeAlias

from streamsapp.record import TopicPartition

#: Committed input offsets with their metadata, as the group has them.
Inputs: TypeAlias = Mapping[TopicPartition, tuple[int, str]]


@dataclass(frozen=True)
class CommitPoint:
    """The commit that a task's stores stand for: offsets of the inputs and of the changelogs."""

    #: The next changelog offset of each store: perhaps lower than it could be, never higher.
    offsets: Mapping[str, int] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=dict)

    def moved(self, offsets: Mapping[str, int], inputs: Inputs) -> CommitPoint:
        """Returns the point that is one commit further."""
        return CommitPoint({**self.offsets, **offsets}, {**self.inputs, **inputs})


class Standing:
    """Keeps the commit point of a task's stores, and lets one thread move or copy them at a time."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: ``None`` while they stand at no commit: they are being moved or restored, or a move broke off.
        self.point: CommitPoint | None = None

    def try_to_leave(self) -> CommitPoint | None:
        """Begins a move, and returns the point that it starts from; returns ``None`` if the stores are being copied:
        try again soon.

        ``rest`` must follow. The polling thread calls this; it does not wait.
        """
        if not self._lock.acquire(blocking=False):
            return None
        left, self.point = self.point, None
        return left or CommitPoint()

    def rest(self) -> None:
        """Ends a move, whether it went well or not. It is the only place in which ``point`` is set again."""
        self._lock.release()

    @contextmanager
    def still(self) -> Iterator[CommitPoint | None]:
        """Keeps the stores from moving meanwhile."""
        with self._lock:
            yield self.point

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """Notes that the stores are being restored: their entries are no longer those of a commit."""
        with self._lock:
            self.point = None
            yield
