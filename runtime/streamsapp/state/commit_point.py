"""The commit that a task's stores stand at, and the moments in which they stand at none.

The polling thread moves the stores from one commit to the next in several steps and does other things between them; the
snapshot thread copies the stores between two moves. Neither may fall into the other: the copy holds the lock until
what waits for RocksDB is written and linked, and the polling thread does not wait for it but comes back.
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
    """What a task's stores stand for."""

    #: The next changelog offset of each store: perhaps lower than it could be, never higher.
    offsets: Mapping[str, int] = field(default_factory=dict)
    inputs: Inputs = field(default_factory=dict)

    def moved(self, offsets: Mapping[str, int], inputs: Inputs) -> CommitPoint:
        """One commit further."""
        return CommitPoint({**self.offsets, **offsets}, {**self.inputs, **inputs})


class Standing:
    """Where the stores stand."""

    def __init__(self) -> None:
        self._lock = Lock()
        #: ``None`` while they stand at no commit: they are being moved or restored, or a move broke off.
        self.point: CommitPoint | None = None

    def try_to_leave(self) -> CommitPoint | None:
        """Begin a move, from the point that is returned; ``None`` if the stores are being copied: try again soon.

        ``rest`` must follow. Polling thread; it does not wait.
        """
        if not self._lock.acquire(blocking=False):
            return None
        left, self.point = self.point, None
        return left or CommitPoint()

    def rest(self) -> None:
        """The move is over, well or not; only then has ``point`` been set again."""
        self._lock.release()

    @contextmanager
    def still(self) -> Iterator[CommitPoint | None]:
        """The stores do not move meanwhile."""
        with self._lock:
            yield self.point

    @contextmanager
    def restoring(self) -> Iterator[None]:
        """What the stores had is no longer what a commit left."""
        with self._lock:
            self.point = None
            yield
