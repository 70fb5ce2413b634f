"""Counts of a grouped stream by time window, the most used of the windowed aggregations and the leanest.

Bound on the polling thread when a task is created; pushed on a processing thread. A window that was counted before in
the running epoch is counted up in place: it costs one look-up by the bytes of the record's key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from streamsapp.dsl.operators.forward_updates import HeldCells, Update
from streamsapp.dsl.operators.short_cut import NO_SHORT_CUT, short_cut
from streamsapp.dsl.operators.window_aggregate import WindowAggregate
from streamsapp.dsl.operators.windowed import EXPIRED_WINDOW, NULL_KEY
from streamsapp.dsl.windows import EmitStrategy, TimeWindows, UnlimitedWindows
from streamsapp.processor.operator import NodeContext, Push, nowhere
from streamsapp.record import Headers
from streamsapp.serdes.windowed import windowed
from streamsapp.state.counted_windows import WINDOWS_AT_HAND, CountedWindows, Window
from streamsapp.state.window import HIDDEN_OF_WINDOWS, WindowStoreImpl


class WindowCount(WindowAggregate):
    """Counts a record in every window that its time belongs to."""

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update) -> Push:
        asked_more = self._send_old_values or context.record_is_read
        if not store.counts_in_place or (self._emit_at_commit and asked_more):
            return super()._add(context, store, update)
        counted, forward = store.counted_windows(), context.forward
        forwards = forward is not nowhere and self._emit is not EmitStrategy.WINDOW_CLOSE
        if forwards and self._emit_at_commit:
            self._held = HeldCells(
                forward,
                short_cut(forward, store.writes_as),
                counted.library,
                store.deleted_at,
                windowed,
                HIDDEN_OF_WINDOWS,
            )
            forwards = False
        return self._count(context, store, counted, forwards)

    def _count(self, context: NodeContext, store: WindowStoreImpl, counted: CountedWindows, forwards: bool) -> Push:
        """Forwards each count, or notes its window to be sent at the commit, or neither; by one call for all windows of
        a record."""
        key_bytes_of, on_error, dropped = store.key_bytes, context.on_error, context.dropped
        step_ms, grace_ms = self._windows.step_ms, self._windows.grace_ms
        windows_of, send_old_values = windows_by_step(self._windows, counted), self._send_old_values
        #: The highest timestamp that came here.
        stream_time = self._stream_time(context, store, lambda: stream_time)
        forward = context.forward
        natively = counted.library is not None
        cut = short_cut(forward, store.writes_as) if forwards and natively else NO_SHORT_CUT
        instead_of, sink = cut.instead_of, cut[1:]

        def tell(key: Any, start: int, end: int, count: int, changed_at: int, headers: Headers | None) -> None:
            forward(windowed(key, start, end), (count, count - 1 if send_old_values else None), changed_at, headers)

        held = self._held if isinstance(self._held, HeldCells) else None
        count = counted.counter(
            lambda: dropped(EXPIRED_WINDOW),
            None if held is None else held.cells,
            None if held is None else held.headers,
            tell if forwards else None,
        )

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            nonlocal stream_time
            if key is None:
                dropped(NULL_KEY)
                return
            if timestamp > stream_time:
                stream_time = timestamp
            try:
                key_bytes = key_bytes_of(key)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            if key_bytes.__class__ is not bytes:
                key_bytes = b"" + key_bytes  # a serde may give what is like them
            windows, closed_until = windows_of(timestamp // step_ms), stream_time - grace_ms
            straight = sink if headers is None and id(forward) == instead_of else None
            count(windows, key, key_bytes, timestamp, closed_until, headers, straight)

        return push


def windows_by_step(
    windows: TimeWindows | UnlimitedWindows, counted: CountedWindows
) -> Callable[[int], tuple[Window, ...]]:
    """Returns a function that finds the windows of a step, which are those of all of its records, whatever their keys.
    Steps share their windows. Steps of 1 ms are too many to remember: there all timestamps of the same windows count as
    one."""
    step_ms, first_alike, end_of = windows.step_ms, windows.first_alike, windows.end_of
    most = max(WINDOWS_AT_HAND, windows.size_ms // windows.advance_ms)

    @lru_cache(max(1, WINDOWS_AT_HAND * windows.advance_ms // windows.size_ms))
    def found(step: int) -> tuple[Window, ...]:
        counted.bound(most)
        each = ((start, counted.at(start)) for start in windows.starts_for(step * step_ms))
        return tuple((start, end_of(start), around) for start, around in each)

    counted.forgotten = found.cache_clear
    return found if step_ms > 1 else lambda timestamp: found(first_alike(timestamp))
