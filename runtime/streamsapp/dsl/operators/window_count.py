"""Counts of a grouped stream by time window, the most used of the windowed aggregations and the leanest.

Bound on the polling thread when a task is created; pushed on a processing thread. A window that was counted before in
the running epoch is counted up in place: it costs one look-up by the bytes of the record's key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from streamsapp import native
from streamsapp.dsl.operators.aggregate import CountingOperator
from streamsapp.dsl.operators.forward_updates import Update
from streamsapp.dsl.operators.stream_time import StreamTime
from streamsapp.dsl.operators.window_aggregate import WindowAggregate
from streamsapp.dsl.operators.windowed import NULL_KEY
from streamsapp.dsl.windows import TimeWindows, UnlimitedWindows
from streamsapp.processor.operator import NodeContext, Push, handed_on_to, nowhere
from streamsapp.record import Headers
from streamsapp.serdes.windowed import windowed
from streamsapp.state.kinds.counted_windows import WINDOWS_AT_HAND, CountedWindows, Window
from streamsapp.state.kinds.window import HIDDEN_OF_WINDOWS, WindowStoreImpl


class WindowCount(CountingOperator, WindowAggregate):
    """Counts a record in every window that its time belongs to."""

    _windows: TimeWindows | UnlimitedWindows
    _counted: CountedWindows
    _windows_of: Callable[[int], tuple[Window, ...]]
    _time: native.StreamTime

    def _told_as(self) -> tuple[Callable[..., Any], tuple[int, int]]:
        return windowed, HIDDEN_OF_WINDOWS

    def _made_time(self, context: NodeContext, store: WindowStoreImpl) -> StreamTime:
        if self._cells(context, store) is None:
            return super()._made_time(context, store)
        self._counted = store.counted_windows()
        self._windows_of = windows_by_step(self._windows, self._counted)
        return native.StreamTime()

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update, expired: Callable[[], object]) -> Push:
        cells = self._cells(context, store)
        if cells is None:
            return super()._add(context, store, update, expired)
        forward, send_old_values, windows = context.forward, self._send_old_values, self._windows
        first_old = None if self._true_old(context) else 0
        # The others are sent when their windows close, or at the commit.
        at_once = self._final is None and not self._emit_at_commit and forward is not nowhere
        cut = self._short_cut(context, store) if at_once else None

        handed_on = handed_on_to(forward)
        stream = handed_on or nowhere

        def tell(key: Any, start: int, end: int, count: int, changed_at: int, headers: Headers | None) -> None:
            old = (count - 1 or first_old) if send_old_values else None
            forward(windowed(key, start, end), (count, old), changed_at, headers)

        def hand_on(key: Any, start: int, end: int, count: int, changed_at: int, headers: Headers | None) -> None:
            stream(windowed(key, start, end), count, changed_at, headers)

        push = native.WindowPush(
            cells=cells,
            segments=self._counted.segments,
            stream_time=self._time,
            windows_of=self._windows_of,
            step_ms=windows.step_ms,
            grace_ms=windows.grace_ms,
            serialize_key=store.key_bytes,
            keeps_bytes=store.key_bytes is native.require_bytes,
            on_error=context.on_error,
            dropped=partial(context.dropped, NULL_KEY),
            late=expired,
            topic=cut and cut.topic,
            emit=cut and cut.emit,
            noted=self._noted and self._noted.cells,
            noted_headers=self._noted and self._noted.headers,
            tell=None if not at_once else tell if handed_on is None else hand_on,
        )
        self._counted.on_forgotten.append(push.forget)
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

    counted.on_forgotten.append(found.cache_clear)
    return found if step_ms > 1 else lambda timestamp: found(first_alike(timestamp))
