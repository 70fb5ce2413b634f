"""Aggregations of a grouped stream by session (Kafka Streams' ``KStreamSessionWindowAggregate``).

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one serialisation of
its key, a range read of the sessions it may belong to, and a write for each of those and the one that comes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsapp.dsl.operators.aggregate import StoredTableOperator
from streamsapp.dsl.operators.emit_final import EmitFinal, later
from streamsapp.dsl.operators.output import Update
from streamsapp.dsl.operators.window_aggregate import EXPIRED_WINDOW, NULL_KEY
from streamsapp.dsl.windows import EmitStrategy, SessionWindows
from streamsapp.processor.operator import NodeContext, Push
from streamsapp.record import Headers
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.session import SessionStoreImpl


class SessionAggregate(StoredTableOperator):
    """Folds a record into the one session that comes of all those it is near to."""

    def __init__(
        self,
        windows: SessionWindows,
        emit: EmitStrategy,
        initializer: Callable[[], Any],
        fold: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any],
        store_name: str,
        emit_at_commit: bool,
        send_old_values: bool,
    ) -> None:
        super().__init__(store_name, emit_at_commit, send_old_values)
        self._windows = windows
        self._emit = emit
        self._initializer = initializer
        self._fold = fold
        self._merger = merger

    def bind_to_store(self, context: NodeContext, store: SessionStoreImpl, update: Update) -> Push:
        if self._emit is EmitStrategy.WINDOW_UPDATE:
            return self._add(context, store, update)
        windows = self._windows
        # A session is in its store under its end, which still belongs to it.
        final = EmitFinal(context, store, 1, windows.gap_ms + windows.grace_ms)
        return final.before(self._add(context, store, later))

    def _add(self, context: NodeContext, store: SessionStoreImpl, update: Update) -> Push:
        initializer, fold, merger = self._initializer, self._fold, self._merger
        key_bytes_of, scan, write = store.key_bytes, store.scan, store.write
        from_stored, to_stored = store.from_stored, store.to_stored
        on_error, dropped = context.on_error, context.dropped
        gap_ms, open_ms = self._windows.gap_ms, self._windows.gap_ms + self._windows.grace_ms
        #: The highest timestamp that came here; after a restart at least that of what the store has.
        stream_time = store.stream_time

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            nonlocal stream_time
            if key is None:
                dropped(NULL_KEY)
                return
            if timestamp > stream_time:
                stream_time = timestamp
            start = end = timestamp
            merged = []
            try:
                key_bytes = key_bytes_of(key)
                new = initializer()
                for other_start, other_end, stored in scan(key_bytes, timestamp - gap_ms):
                    if other_start > timestamp + gap_ms:
                        break  # sessions of a key do not overlap: later ones start later
                    other = from_stored(stored)
                    new = merger(key, new, other)
                    merged.append((other_start, other_end, other))
                    start, end = min(start, other_start), max(end, other_end)
                if end < stream_time - open_ms:
                    dropped(EXPIRED_WINDOW)
                    return
                new = fold(key, value, new)
                new_stored = None if new is None else to_stored(key, new)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            if start != end or end != timestamp:
                for other_start, other_end, other in merged:
                    write(key_bytes, other_start, other_end, None, timestamp)
                    gone = Windowed(key, other_start, other_end)
                    update(gone, (key_bytes, other_start, other_end), None, other, other_end, None)
            write(key_bytes, start, end, new_stored, timestamp)
            update(Windowed(key, start, end), (key_bytes, start, end), new, None, end, None)

        return push
