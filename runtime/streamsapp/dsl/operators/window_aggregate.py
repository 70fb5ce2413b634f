"""Aggregations of a grouped stream by time window (Kafka Streams' ``KStreamWindowAggregate``).

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one serialisation of
its key, and one read and one write of the store for each of its windows. Unlike without windows, a record without value
counts, as in Kafka Streams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

from streamsapp.dsl.operators.forward_updates import Update
from streamsapp.dsl.operators.windowed import NULL_KEY, WindowedAggregate, WindowInProcess
from streamsapp.dsl.windows import TimeWindows, UnlimitedWindows, Windows
from streamsapp.processor.operator import NodeContext, Push
from streamsapp.record import Headers
from streamsapp.serdes.windowed import windowed
from streamsapp.state.kinds.counted_windows import WINDOWS_AT_HAND
from streamsapp.state.kinds.window import WindowStoreImpl

#: The start and end of a window, and the bytes before and after a record's key in the store.
_Window: TypeAlias = "tuple[int, int, bytes, bytes]"


class WindowAggregate(WindowedAggregate[Windows]):
    """Folds a record into every window that its time belongs to."""

    def _closes_after(self) -> tuple[int, int]:
        return self._windows.size_ms, self._windows.grace_ms

    def _end_of(self) -> Callable[[int], int] | None:
        # The user's own windows differ in length, which the store does not know.
        return None if isinstance(self._windows, TimeWindows | UnlimitedWindows) else self._windows.end_of

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update, expired: Callable[[], object]) -> Push:
        (initializer, fold, _, takes_window), grace_ms = self._aggregation, self._windows.grace_ms
        key_bytes_of, read, write = store.key_bytes, store.read_physical, store.write_physical
        from_stored, to_stored = store.from_stored, store.to_stored
        on_error, dropped = context.on_error, context.dropped
        windows_at = self._windows_at(store)
        if takes_window:
            knowing = WindowInProcess(fold, itemgetter(1))
            fold, windows_at = knowing.fold, knowing.each(windows_at)
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
                key_bytes, windows = key_bytes_of(key), windows_at(timestamp)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            for start, end, before, after in windows:
                if end <= closed_until:
                    expired()
                    continue
                physical = before + key_bytes + after
                stored, stored_at = read(physical, start)
                try:
                    old = initializer() if stored is None else from_stored(stored)
                    new = fold(key, value, old)
                    new_stored = None if new is None else to_stored(key, new, stored if new is old else None)
                    if rereads:
                        old = initializer() if stored is None else from_stored(stored)
                except Exception as error:
                    on_error(error, key, value, timestamp, headers)
                    return
                changed_at = max(timestamp, stored_at)
                write(physical, start, new_stored, timestamp if new is None else changed_at)
                # Held, a window that comes and goes within a commit is not sent; a deletion has its record's time.
                if true_old and stored is None:
                    old = None
                if at_commit and new is None:
                    changed_at = timestamp
                update(windowed(key, start, end), (key_bytes, start), new, old, changed_at, headers)

        return push

    def _windows_at(self, store: WindowStoreImpl) -> Callable[[int], Iterable[_Window]]:
        """Returns a function that finds the windows of a time. Those of the last steps of time are remembered."""
        windows, around = self._windows, store.around

        def found(timestamp: int) -> tuple[_Window, ...]:
            end_of = windows.end_of
            return tuple((start, end_of(start), *around(start)) for start in windows.starts_for(timestamp))

        if not isinstance(windows, TimeWindows | UnlimitedWindows):
            return found
        steps = max(1, WINDOWS_AT_HAND * windows.advance_ms // windows.size_ms)
        remembered, first_alike, step_ms = lru_cache(steps)(found), windows.first_alike, windows.step_ms
        if step_ms == 1:
            return lambda timestamp: remembered(first_alike(timestamp))
        return lambda timestamp: remembered(timestamp - timestamp % step_ms)
