"""The schedule of snapshots: the time at which each active task has its next.

The polling thread adds and removes tasks, snapshot threads take the one that is due and give it back, anybody may ask
for all of them at once. Under one lock that nobody holds for longer than it takes to look.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streamsapp.clock import Clock
from streamsapp.record import TaskId

T = TypeVar("T")

#: Seconds until somebody who waits for a task to be due looks at the clock again.
_LOOK = 0.5


@dataclass(eq=False)
class Entry(Generic[T]):
    """One task's turn."""

    work: T
    #: Monotonic seconds.
    due: float
    busy: bool = False
    removed: bool = False
    #: How often it was asked for, how often when the turn under way began, and how often when the last one ended.
    asked: int = 0
    serving: int = 0
    served: int = 0
    #: Whether the last turn that was asked for ended well.
    well: bool = field(default=True)


class SnapshotSchedule(Generic[T]):
    """Tasks by id, each with its next turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._entries: dict[TaskId, Entry[T]] = {}
        self._closed = False

    def add(self, task_id: TaskId, work: T) -> None:
        """Due at once; replaces what was there."""
        with self._changed:
            self._entries[task_id] = Entry(work, self._clock.monotonic())
            self._changed.notify_all()

    def remove(self, task_id: TaskId) -> T | None:
        """Remove a task; returns its entry, which a thread may still be working on."""
        with self._changed:
            entry = self._entries.pop(task_id, None)
            self._changed.notify_all()
            if entry is None:
                return None
            entry.removed = True
            return entry.work

    def get(self, task_id: TaskId) -> T | None:
        """The value of a task; ``None`` if it is not scheduled."""
        entry = self._entries.get(task_id)
        return None if entry is None else entry.work

    @property
    def all(self) -> dict[TaskId, T]:
        """All values by task."""
        with self._changed:
            return {task_id: entry.work for task_id, entry in self._entries.items()}

    def close(self) -> None:
        """Nobody gets a turn any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # ---- turns -------------------------------------------------------------------------------------------------

    def take(self) -> Entry[T] | None:
        """Wait for the next task that is due, the longest first; ``None`` when closed."""
        with self._changed:
            while not self._closed:
                now = self._clock.monotonic()
                idle = [entry for entry in self._entries.values() if not entry.busy]
                first = min(idle, key=lambda entry: entry.due, default=None)
                if first is not None and first.due <= now:
                    first.busy, first.serving = True, first.asked
                    return first
                self._changed.wait(_LOOK if first is None else min(_LOOK, first.due - now))
            return None

    def give_back(self, entry: Entry[T], *, pause: float, well: bool | None) -> None:
        """The turn has ended, ``well`` or not; ``None`` is for one that was none, and is due again all the same. The
        next is due in ``pause`` seconds unless it is asked for already."""
        with self._changed:
            entry.busy = False
            if well is not None:
                entry.served, entry.well = entry.serving, well
            now = self._clock.monotonic()
            entry.due = now if entry.asked > entry.serving else now + pause
            self._changed.notify_all()

    # ---- asked for ---------------------------------------------------------------------------------------------

    def ask(self) -> Collection[Entry[T]]:
        """Everybody's turn is now, and once more for those that are in theirs."""
        with self._changed:
            for entry in self._entries.values():
                entry.asked += 1
                entry.due = self._clock.monotonic()
            self._changed.notify_all()
            return list(self._entries.values())

    def wait(self, entries: Collection[Entry[T]], timeout: float) -> bool:
        """Return whether all had the turn that they were asked for, and well, within ``timeout`` seconds. A task that
        moved away meanwhile is somebody else's."""
        wanted = [(entry, entry.asked) for entry in entries]
        with self._changed:
            ended = self._changed.wait_for(
                lambda: self._closed or all(entry.removed or entry.served >= asked for entry, asked in wanted), timeout
            )
            return ended and not self._closed and all(entry.well for entry, _ in wanted)
