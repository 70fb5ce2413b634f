"""Sends the final results of windows once they have closed (KIP-825).

Called on a processing thread, once per record of a windowed aggregation whose results are sent on window close.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Protocol

from streamsapp.processor.operator import NodeContext, Push
from streamsapp.record import Headers
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.engine.entries import Entry


class TimedStore(Protocol):
    """A store of windows, each with the time that decides when it expires: its start, or a session's end."""

    from_stored: Callable[[Any], Any]

    @property
    def name(self) -> str: ...

    @property
    def stream_time(self) -> int:
        """The latest time of all windows that were ever written, in milliseconds; -1 if none was."""
        ...

    def expired_at(self, stream_time: int) -> int:
        """The earliest time that is still kept once a window of ``stream_time`` was written."""
        ...

    def between(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed[Any], Entry]]:
        """Iterates over all windows of these times, both inclusive, by time and key; with the timestamp of each
        result."""
        ...


def later(key: Any, identity: Hashable, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
    """Takes an update and sends nothing: its result is sent when its window closes."""


class EmitFinal:
    """Follows stream time, and sends every window of a store once, after it has closed.

    A window closes when stream time has passed its time in the store by ``size_ms`` and ``grace_ms``. Results are sent
    before the store expires them, whatever the interval: Kafka Streams 4.3 loses those (docs/departures.md).
    """

    def __init__(
        self,
        context: NodeContext,
        store: TimedStore,
        size_ms: int,
        grace_ms: int,
        end_of: Callable[[int], int] | None = None,
    ) -> None:
        self._clock = context.processor_context
        self._interval = context.emit_interval_ms
        self._metadata = context.processor_metadata
        self._store = store
        self._size = size_ms
        self._grace = grace_ms
        self._end_of = end_of
        self._emitted = context.counter("emit-final-records")
        self._next_emit = 0
        #: Windows that ended by then were sent; kept with the committed offsets, as Kafka Streams keeps it.
        self._sent_until = self._metadata.get(store.name)
        self._stream_time = store.stream_time

    def before(self, forward: Push, add: Push, *, takes_null: bool = True) -> Push:
        """Wraps ``add`` so that the windows which a record closes go to ``forward`` first: results go out before the
        record expires them. A record that is skipped closes nothing: one without key, and unless ``takes_null`` one
        without value."""
        advance = self._advance

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is not None and (takes_null or value is not None):
                advance(forward, timestamp, headers)
            add(key, value, timestamp, headers)

        return push

    def close(self, forward: Push, now: int) -> None:
        """Follows a time that came without a record, and sends at once what it closes."""
        self._next_emit = 0
        self._advance(forward, now, None)

    def _advance(self, forward: Push, timestamp: int, headers: Headers | None) -> None:
        """Follows the time of a record that is about to be added, and sends the windows that it closes."""
        if timestamp > self._stream_time:
            self._stream_time = timestamp
        closed_until = self._stream_time - self._grace
        last = closed_until - self._size
        first = 0 if self._sent_until is None else self._sent_until - self._size + 1
        if last < 0 or last < first or not (self._store.expired_at(timestamp) > first or self._due()):
            return
        from_stored, end_of = self._store.from_stored, self._end_of
        for windowed, (stored, at) in self._store.between(first, last):
            key = windowed if end_of is None else windowed._replace(end_ms=end_of(windowed.start_ms))
            forward(key, (from_stored(stored), None), at, headers)
            self._emitted.value += 1
        self._sent_until = self._metadata[self._store.name] = closed_until

    def _due(self) -> bool:
        now = self._clock.current_system_time_ms
        if now < self._next_emit:
            return False
        self._next_emit = now + self._interval
        return True
