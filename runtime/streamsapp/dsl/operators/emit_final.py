"""Sends the final results of windows once they have closed (KIP-825).

Called on a processing thread, once per record of a windowed aggregation whose results are sent on window close.
"""

from __future__ import annotations

from streamsapp.processor.operator import NodeContext
from streamsapp.record import Headers
from streamsapp.state.window import WindowStoreImpl

#: Windows are looked for at most once in so many milliseconds of wall-clock time, as in Kafka Streams
#: (``__emit.interval.ms.kstreams.windowed.aggregation__``).
EMIT_INTERVAL_MS = 1000


class EmitFinal:
    """Follows stream time, and sends every window of a store once, after it has closed.

    Results are sent before the store expires them, whatever the interval: Kafka Streams 4.3 loses those.
    """

    def __init__(self, context: NodeContext, store: WindowStoreImpl, size_ms: int, grace_ms: int) -> None:
        self._forward = context.forward
        self._time = context.processor_context
        self._metadata = context.processor_metadata
        self._store = store
        self._size = size_ms
        self._grace = grace_ms
        self._next_emit = 0
        #: Windows that ended by then were sent; kept with the committed offsets, as Kafka Streams keeps it.
        self._sent_until = self._metadata.get(store.name)
        self._stream_time = store.stream_time

    def advance(self, timestamp: int, headers: Headers | None) -> None:
        """A record is about to be added: send what its time closes."""
        if timestamp > self._stream_time:
            self._stream_time = timestamp
        closed_until = self._stream_time - self._grace
        last = closed_until - self._size
        first = 0 if self._sent_until is None else self._sent_until - self._size + 1
        if last < 0 or last < first or not (self._store.expired_at(timestamp) > first or self._due()):
            return
        forward, from_stored = self._forward, self._store.from_stored
        for windowed, (stored, at) in self._store.starting_between(first, last):
            forward(windowed, (from_stored(stored), None), at, headers)
        self._sent_until = self._metadata[self._store.name] = closed_until

    def _due(self) -> bool:
        now = self._time.current_system_time_ms
        if now < self._next_emit:
            return False
        self._next_emit = (self._next_emit or now) + EMIT_INTERVAL_MS
        return True
