"""The schedule of snapshots: the time at which each active task has its next.

The polling thread adds and removes tasks. Snapshot threads take the due task and give it back. Any thread may ask for
all of them at once. All run under one lock, which a thread holds only for as long as it takes to look.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from streamsapp.clock import Clock
from streamsapp.record import TaskId

T = TypeVar("T")

#: Seconds until a thread that waits for a task to be due looks at the clock again; no thread waits longer.
_LOOK = 0.5


@dataclass(eq=False)
class ScheduledSnapshot(Generic[T]):
    """A task with the time of its next snapshot."""

    work: T
    #: Monotonic seconds.
    due: float
    busy: bool = False
    removed: bool = False
    #: How many requests there were: in all, when the attempt under way began, and when the last one ended.
    requested: int = 0
    serving: int = 0
    served: int = 0
    #: True if the last attempt succeeded.
    succeeded: bool = field(default=True)


class SnapshotSchedule(Generic[T]):
    """Tasks by id, each with the time of its next snapshot."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._entries: dict[TaskId, ScheduledSnapshot[T]] = {}
        self._closed = False

    def add(self, task_id: TaskId, work: T) -> None:
        """Schedule a task at once; it replaces an earlier one with this id."""
        with self._changed:
            self._entries[task_id] = ScheduledSnapshot(work, self._clock.monotonic())
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

    @property
    def closed(self) -> bool:
        """True if no task is given out any more."""
        return self._closed

    def close(self) -> None:
        """Give out no task any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # ---- snapshot threads --------------------------------------------------------------------------------------------

    def take(self) -> ScheduledSnapshot[T] | None:
        """Wait for the next task that is due, the longest first; ``None`` when closed, and if none was for a while."""
        with self._changed:
            give_up = self._clock.monotonic() + _LOOK
            while not self._closed:
                now = self._clock.monotonic()
                idle = [entry for entry in self._entries.values() if not entry.busy]
                first = min(idle, key=lambda entry: entry.due, default=None)
                if first is not None and first.due <= now:
                    first.busy, first.serving = True, first.requested
                    return first
                if now >= give_up:
                    break
                self._changed.wait(_LOOK if first is None else min(_LOOK, first.due - now))
            return None

    def give_back(self, entry: ScheduledSnapshot[T], *, pause: float, succeeded: bool | None) -> None:
        """The attempt has ended and ``succeeded`` or not; ``None``: there was nothing to do yet, and requests still
        wait. The next is due in ``pause`` seconds, or at once if there was a request meanwhile."""
        with self._changed:
            entry.busy = False
            if succeeded is not None:
                entry.served, entry.succeeded = entry.serving, succeeded
            now = self._clock.monotonic()
            entry.due = now if entry.requested > entry.serving else now + pause
            self._changed.notify_all()

    @property
    def failed(self) -> bool:
        """True if the last attempt with any task failed."""
        with self._changed:
            return not all(entry.succeeded for entry in self._entries.values())

    def hurry(self) -> None:
        """The tasks whose last attempt failed are due now."""
        with self._changed:
            for entry in self._entries.values():
                if not entry.succeeded:
                    entry.due = self._clock.monotonic()
            self._changed.notify_all()

    # ---- requests ----------------------------------------------------------------------------------------------

    def request_all(self) -> Collection[ScheduledSnapshot[T]]:
        """Have a snapshot of every task taken now, and once more of each task whose snapshot is under way."""
        return self.request(self._entries)

    def request(self, tasks: Collection[TaskId]) -> Collection[ScheduledSnapshot[T]]:
        """The same of some tasks; tasks that are not scheduled are left out."""
        with self._changed:
            entries = [self._entries[task_id] for task_id in tasks if task_id in self._entries]
            for entry in entries:
                entry.requested += 1
                entry.due = self._clock.monotonic()
            self._changed.notify_all()
            return entries

    def wait(self, entries: Collection[ScheduledSnapshot[T]], timeout: float) -> bool:
        """Return whether all requested snapshots were taken within ``timeout`` seconds. A task that moved away
        meanwhile does not count."""
        wanted = [(entry, entry.requested) for entry in entries]
        with self._changed:
            ended = self._changed.wait_for(
                lambda: self._closed or all(entry.removed or entry.served >= requested for entry, requested in wanted),
                timeout,
            )
            return ended and not self._closed and all(entry.succeeded for entry, _ in wanted)

    def taken(self, entries: Collection[ScheduledSnapshot[T]], timeout: float) -> bool:
        """Return whether all requested snapshots were taken within ``timeout`` seconds, including the ones that failed
        at first. A task that moved away meanwhile does not count."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(each.removed or (each.served >= each.requested and each.succeeded) for each in entries),
                timeout,
            )

    def under_way(self, entries: Collection[ScheduledSnapshot[T]]) -> bool:
        """Return whether one of them is being taken whose last attempt did not fail."""
        with self._changed:
            return any(each.busy and each.succeeded for each in entries)
