"""The progress of a snapshot's download, and the object store's outages: they decide how long a restore keeps trying.

Used on the threads that prepare directories; a download reports from threads of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from streamsapp.clock import Clock
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.snapshot import Snapshot, SnapshotFile
from streamsapp.runtime.remote_state.priority_thread_pool import WorkItem
from streamsapp.runtime.remote_state.restore_time import RestoreTiming

T = TypeVar("T")

#: How long a restore that makes no progress waits for the object store, in seconds.
STALL_TIMEOUT = 30.0
#: Between two tries, in seconds.
PAUSE = 1.0
#: A fault does not belong to an outage that no restore has met for so long, in seconds: its end is unknown.
FORGOTTEN = 300.0


class StoreOutage:
    """The object store is away for all tasks of an instance at once: the first that wait find out, and the others need
    not wait as long again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: The times at which it was found away first and last, and the error.
        self._found: tuple[float, float, ObjectStoreError] | None = None

    @property
    def lasts(self) -> ObjectStoreError | None:
        """The fault that has lasted for as long as a restore waits, and was seen a moment ago; ``None`` without one."""
        found = self._recent
        return found[2] if found is not None and self._clock.monotonic() - found[0] > STALL_TIMEOUT else None

    @property
    def seen(self) -> ObjectStoreError | None:
        """The fault of a request a moment ago, for callers that can go on without an answer; ``None`` without one."""
        found = self._recent
        return None if found is None else found[2]

    @property
    def current(self) -> tuple[float, str] | None:
        """The time since which restores find the store away, in monotonic seconds, and the reason; ``None`` if they do
        not, or have not asked for a while."""
        found = self._recent
        return None if found is None else (found[0], str(found[2]))

    @property
    def _recent(self) -> tuple[float, float, ObjectStoreError] | None:
        """The outage, if it was met a moment ago."""
        found = self._found
        return found if found is not None and self._clock.monotonic() - found[1] <= STALL_TIMEOUT else None

    def observed(self, request: Callable[[], T]) -> T:
        """The result of ``request``; raises ``ObjectStoreError`` as it does, and at once while the outage lasts."""
        if (error := self.lasts) is not None:
            raise error
        try:
            result = request()
        except ObjectStoreError as failure:
            with self._lock:
                found, now = self._found, self._clock.monotonic()
                since = now if found is None or now - found[1] > FORGOTTEN else found[0]
                self._found = (since, now, failure)
            raise
        self._found = None
        return result


class RestoreProgress:
    """A fetch under way. New bytes keep it going, but not bytes that an earlier try had moved already: a file that is
    cut off at the same place every time is no progress."""

    def __init__(self, timing: RestoreTiming, clock: Clock, item: WorkItem) -> None:
        self.timing = timing
        self._clock = clock
        self._item = item
        self._last = timing.began
        self._lock = threading.Lock()
        #: Bytes of this try, and the most that any try had since the last file was complete.
        self._moved = self._most = 0
        self._complete = 0
        #: Says whether the object store was away and came back.
        self._was_back = False
        self._current: Snapshot | None = None
        #: Files of snapshots that did not come within the time.
        self._given_up: set[tuple[SnapshotFile, ...]] = set()

    def expect(self, total: int, predicted: float | None) -> None:
        """The current snapshot has ``total`` bytes, for which so many seconds are predicted."""
        self.timing.total_bytes, self.timing.predicted = total, predicted

    def moved(self, count: int) -> None:
        """So many more bytes have come, none at the beginning of a file; raises ``ObjectStoreError`` when no thread
        waits for them any more."""
        if self._item.cancelled.is_set():
            raise ObjectStoreError("nothing waits for this snapshot any more")
        with self._lock:
            self.timing.moved_bytes += count
            self._moved += count
            if self._moved > self._most:
                self._most, self._last = self._moved, self._clock.monotonic()
            if count == 0 and self._stalled:
                raise ObjectStoreError(f"nothing has come for {STALL_TIMEOUT:.0f} s")

    def back(self) -> None:
        """The object store was away and answers: there is as much time again, though not each time."""
        with self._lock:
            if not self._was_back:
                self._was_back, self._last = True, self._clock.monotonic()

    def begin_try(self, complete: int) -> None:
        """``complete`` files need not be fetched any more."""
        with self._lock:
            self._moved = 0
            self._current = None
            if complete > self._complete:
                self._complete, self._most = complete, 0

    def objection(self, snapshot: Snapshot) -> str | None:
        """The reason not to take a snapshot that was given up before; any other becomes the current one."""
        if snapshot.files in self._given_up:
            return f"its files did not come within {STALL_TIMEOUT:.0f} s"
        self._current = snapshot
        return None

    def give_up(self) -> bool:
        """The current snapshot; whether there was one, so that the one before may be tried."""
        if self._current is None:
            return False
        self._given_up.add(self._current.files)
        self._most, self._last = 0, self._clock.monotonic()
        return True

    def ended(self) -> bool:
        """Return whether this try is to end: it was cancelled, or makes no progress."""
        return self._item.cancelled.is_set() or self._stalled

    @property
    def _stalled(self) -> bool:
        return self._clock.monotonic() - self._last > STALL_TIMEOUT

    def pause(self) -> None:
        """Wait before the next try, or until it is cancelled."""
        self._item.cancelled.wait(PAUSE)
