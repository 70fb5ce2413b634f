"""Keeps the records of a left or outer join of two streams that found no partner until their windows close, then sends
them.

Called by both sides' operators of a join, on the processing thread that holds the task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamsapp.dsl.windows import JoinWindows
from streamsapp.processor.operator import NodeContext, Push
from streamsapp.record import Headers
from streamsapp.state.engine.segments import NO_TIME
from streamsapp.state.kinds.outer_join import OuterJoinStore

_NEVER = (1 << 63) - 1


@dataclass(frozen=True)
class Outer:
    """The store of records without a partner, and the sides whose records are results then."""

    store: str
    windows: JoinWindows
    left: bool
    right: bool

    def sends(self, is_left: bool) -> bool:
        """Says whether a record of this side is a result when it finds no partner."""
        return self.left if is_left else self.right

    def closed(self, timestamp: int, is_left: bool, stream_time: int) -> bool:
        """Says whether no partner can come any more."""
        after = self.windows.after_ms if is_left else self.windows.before_ms
        return timestamp + after + self.windows.grace_ms < stream_time


@dataclass
class JoinProgress:
    """The state that both sides of a join share in a task."""

    #: The highest timestamp of either side.
    stream_time: int
    #: No record that waits is older.
    oldest: int
    #: Kafka Streams' guess of when to look next: the time of the last record that it looked at, and lower times that
    #: came since. It may be later than that of the oldest record, whose result then comes with a later one.
    min_time: int
    next_emit: int = 0


class Unjoined:
    """Sends the records that found no partner, once stream time has passed their window and grace."""

    def __init__(
        self,
        context: NodeContext,
        outer: Outer,
        joined: Callable[[Any, Any, bool], Any],
        after_ms: int,
        stream_time: int,
    ) -> None:
        """Takes ``joined(key, value, is_left)``, which makes a result; ``after_ms``, how far this side looks ahead; and
        ``stream_time``, that of the other side's store."""
        self._context = context
        self._time = context.processor_context
        self._interval_ms = context.emit_interval_ms
        self._outer = outer
        self._joined = joined
        self._wait_ms = after_ms + outer.windows.grace_ms
        self._store: OuterJoinStore = context.store(outer.store)
        self.progress = _shared(self._store, stream_time)

    def found(self, timestamp: int, is_left: bool, key: bytes, now: int) -> None:
        """Notes that records which may have waited have found a partner, of the time ``now``."""
        if timestamp >= self.progress.oldest:
            self._store.remove(timestamp, is_left, key, now)

    def wait(self, timestamp: int, is_left: bool, key: bytes, value: Any) -> None:
        """Keeps a record that has no partner yet. Raises ``ValueError`` for a value that the store cannot have."""
        progress = self.progress
        progress.min_time = min(progress.min_time, timestamp)
        self._store.add(timestamp, is_left, key, value)
        progress.oldest = min(progress.oldest, timestamp)

    def emit(self, forward: Push, headers: Headers | None) -> None:
        """Pushes the records whose windows are closed to ``forward``, if it is time to look; with the headers of the
        record that moved stream time."""
        if self._due():
            self._send(forward, headers)

    def close(self, forward: Push, now: int) -> None:
        """Follows a time that came without a record, and pushes the records whose windows it closes."""
        self.progress.stream_time = max(self.progress.stream_time, now)
        self.progress.next_emit = 0
        self.emit(forward, None)

    def _send(self, forward: Push, headers: Headers | None) -> None:
        store, on_error, joined, now = self._store, self._context.on_error, self._joined, self.progress.stream_time
        for timestamp, is_left, physical, stored in self._closed():
            key, values = store.records(physical, stored)
            store.delete(physical, now)
            for value in values:
                try:
                    result = joined(key, value, is_left)
                except Exception as error:
                    on_error(error, key, value, timestamp, headers)
                    continue
                forward(key, result, timestamp, headers)

    def _due(self) -> bool:
        progress = self.progress
        # As in Java: with nothing known to wait the sum overflows, and is always due.
        earliest = progress.min_time + self._wait_ms
        if progress.stream_time <= earliest <= _NEVER:
            return False
        now = self._time.current_system_time_ms
        if now < progress.next_emit:
            return False
        progress.next_emit = now + self._interval_ms
        return True

    def _closed(self) -> list[tuple[int, bool, bytes, Any]]:
        """Returns all records that are to be sent, the oldest first, and notes what is left."""
        progress, outer, stream_time = self.progress, self._outer, self.progress.stream_time
        closed = []
        #: Sides where a met record has an open window; the windows of all later records are open too.
        open_sides: set[bool] = set()
        oldest = progress.min_time = _NEVER
        for timestamp, is_left, physical, stored in self._store.waiting(progress.oldest):
            progress.min_time = timestamp
            if len(open_sides) == 2:
                break
            if outer.closed(timestamp, is_left, stream_time):
                closed.append((timestamp, is_left, physical, stored))
                continue
            oldest = min(oldest, timestamp)
            open_sides.add(is_left)
            if len(open_sides) == 2 and self._store.count(stored) > 1:
                break
            if not outer.right:
                # All that follow are open; Kafka Streams looks at each of them.
                progress.min_time = self._store.newest(timestamp)
                break
        progress.oldest = oldest
        return closed


def _shared(store: OuterJoinStore, stream_time: int) -> JoinProgress:
    """Returns the progress that both sides share. After a restart it is derived from the records that wait and the
    stores' stream time."""
    if store.shared.progress is None:
        first = next(store.waiting(0), None)
        oldest = _NEVER if first is None else first[0]
        store.shared.progress = JoinProgress(NO_TIME, oldest, oldest)
    progress: JoinProgress = store.shared.progress
    progress.stream_time = max(progress.stream_time, stream_time)
    return progress
