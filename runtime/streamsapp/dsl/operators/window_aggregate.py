"""Aggregations of a grouped stream by time window (Kafka Streams' ``KStreamWindowAggregate``).

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one serialisation of
its key, and one read and one write of the store for each of its windows. Unlike without windows, a record without value
counts, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsapp.dsl.operators.forward_updates import Update
from streamsapp.dsl.operators.windowed import EXPIRED_WINDOW, NULL_KEY, WindowedAggregate
from streamsapp.dsl.windows import TimeWindows, UnlimitedWindows, Windows
from streamsapp.processor.operator import NodeContext, Push
from streamsapp.record import Headers
from streamsapp.serdes.windowed import windowed
from streamsapp.state.kinds.window import WindowStoreImpl


class WindowAggregate(WindowedAggregate[Windows]):
    """Folds a record into every window that its time belongs to."""

    def _closes_after(self) -> tuple[int, int]:
        return self._windows.size_ms, self._windows.grace_ms

    def _end_of(self) -> Callable[[int], int] | None:
        # The user's own windows differ in length, which the store does not know.
        return None if isinstance(self._windows, TimeWindows | UnlimitedWindows) else self._windows.end_of

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update) -> Push:
        (initializer, fold, _), windows = self._aggregation, self._windows
        key_bytes_of, read, write = store.key_bytes, store.read, store.write
        from_stored, to_stored = store.from_stored, store.to_stored
        on_error, dropped = context.on_error, context.dropped
        starts_for, end_of, grace_ms = windows.starts_for, windows.end_of, windows.grace_ms
        at_commit, rereads, true_old = self._emit_at_commit, self._rereads(store), self._true_old(context)
        time = self._time

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                dropped(NULL_KEY)
                return
            if timestamp > (stream_time := time.latest):
                time.latest = stream_time = timestamp
            closed_until = stream_time - grace_ms
            try:
                key_bytes, starts = key_bytes_of(key), starts_for(timestamp)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            for start in starts:
                end = end_of(start)
                if end <= closed_until:
                    dropped(EXPIRED_WINDOW)
                    continue
                stored, stored_at = read(key_bytes, start)
                try:
                    old = initializer() if stored is None else from_stored(stored)
                    new = fold(key, value, old)
                    new_stored = None if new is None else to_stored(key, new)
                    if rereads:
                        old = initializer() if stored is None else from_stored(stored)
                except Exception as error:
                    on_error(error, key, value, timestamp, headers)
                    return
                changed_at = max(timestamp, stored_at)
                write(key_bytes, start, new_stored, timestamp if new is None else changed_at)
                # Held, a window that comes and goes within a commit is not sent; a deletion has its record's time.
                if true_old and stored is None:
                    old = None
                if at_commit and new is None:
                    changed_at = timestamp
                update(windowed(key, start, end), (key_bytes, start), new, old, changed_at, headers)

        return push
