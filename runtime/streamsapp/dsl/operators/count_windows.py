"""Aggregations of a grouped stream by windows that hold a number of records.

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one read and one write
of the windows of its key that are not full yet.
"""

from __future__ import annotations

from typing import Any

from streamsapp.dsl.operators.aggregate import NULL_KEY_OR_VALUE
from streamsapp.dsl.operators.windowed import Aggregation
from streamsapp.dsl.windows import CountWindows, EmitStrategy
from streamsapp.processor.operator import NodeContext, Operator, Push
from streamsapp.record import Headers
from streamsapp.serdes.open_windows import OpenWindow
from streamsapp.serdes.windowed import windowed
from streamsapp.state.kinds.key_value import KeyValueStoreImpl


class CountWindowAggregate(Operator):
    """Folds a record into the windows of its key that are not full, and sends a window that it fills."""

    def __init__(self, windows: CountWindows, emit: EmitStrategy, aggregation: Aggregation, store_name: str) -> None:
        self._windows = windows
        self._emit = emit
        self._aggregation = aggregation
        self._store_name = store_name

    def bind(self, context: NodeContext) -> Push:
        store: KeyValueStoreImpl = context.store(self._store_name)
        key_bytes_of, read, write = store.key_bytes, store.read, store.write
        from_stored, to_stored = store.from_stored, store.to_stored
        forward, on_error, dropped, added = context.forward, context.on_error, context.dropped, self._added
        size, sends_updates = self._windows.size, self._emit is EmitStrategy.WINDOW_UPDATE

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                dropped(NULL_KEY_OR_VALUE)
                return
            try:
                key_bytes = key_bytes_of(key)
                stored = read(key_bytes)[0]
                windows = added([] if stored is None else from_stored(stored), key, value, timestamp)
                # Only the oldest can be full.
                left = windows[1:] if windows[0].records == size else windows
                new_stored = to_stored(key, left) if left else None
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            write(key_bytes, new_stored, timestamp)
            for records, start_ms, end_ms, aggregate in windows:
                if aggregate is not None and (sends_updates or records == size):
                    forward(windowed(key, start_ms, end_ms), aggregate, end_ms, headers)

        return push

    def _added(self, windows: list[OpenWindow], key: Any, value: Any, timestamp: int) -> list[OpenWindow]:
        """Returns the windows with one record more, the oldest first; a window begins where it is due."""
        initializer, fold, _, _ = self._aggregation
        if not windows or windows[-1].records == self._windows.advance:
            windows = [*windows, OpenWindow(0, timestamp, timestamp, None)]
        return [
            OpenWindow(
                records + 1,
                min(start_ms, timestamp),
                max(end_ms, timestamp),
                fold(key, value, initializer() if aggregate is None else aggregate),
            )
            for records, start_ms, end_ms, aggregate in windows
        ]
