"""Counts of a grouped stream by time window, the most used of the windowed aggregations and the leanest.

Bound on the polling thread when a task is created; pushed on a processing thread. A window that was counted before in
the running epoch is counted up in place: it costs one look-up by the bytes of the record's key.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from streamsapp import native
from streamsapp.dsl.operators.forward_updates import Update
from streamsapp.dsl.operators.short_cut import NO_SHORT_CUT
from streamsapp.dsl.operators.window_aggregate import WindowAggregate
from streamsapp.dsl.operators.windowed import EXPIRED_WINDOW, NULL_KEY
from streamsapp.dsl.windows import EmitStrategy, TimeWindows, UnlimitedWindows
from streamsapp.processor.operator import NodeContext, Push
from streamsapp.record import Headers
from streamsapp.serdes.serdes import require_bytes
from streamsapp.serdes.windowed import windowed
from streamsapp.state.kinds.counted_windows import WINDOWS_AT_HAND, CountedWindows, Window
from streamsapp.state.kinds.window import HIDDEN_OF_WINDOWS, WindowStoreImpl


class WindowCount(WindowAggregate):
    """Counts a record in every window that its time belongs to."""

    _windows: TimeWindows | UnlimitedWindows

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update) -> Push:
        asked_more = self._send_old_values or context.record_is_read
        if store.cells is None or (self._emit_at_commit and asked_more):
            return super()._add(context, store, update)
        cut, noted, at_once = NO_SHORT_CUT, None, None
        if self._emit is not EmitStrategy.WINDOW_CLOSE:  # which sends them itself
            cut, noted, at_once = self._counts_to(context, store, windowed, HIDDEN_OF_WINDOWS)
        send_old_values, counted = self._send_old_values, store.counted_windows()

        def tell(key: Any, start: int, end: int, count: int, changed_at: int, headers: Headers | None) -> None:
            forward = push.forward  # a probe may be there
            assert forward is not None
            forward(windowed(key, start, end), (count, count - 1 if send_old_values else None), changed_at, headers)

        def forgotten() -> None:
            forget_steps()
            push.forget()

        push = native.WindowPush(
            cells=store.cells,
            segments=counted.segments,
            windows_of=windows_by_step(self._windows, counted),
            step_ms=self._windows.step_ms,
            grace_ms=self._windows.grace_ms,
            serialize_key=store.key_bytes,
            keeps_bytes=store.key_bytes is require_bytes,
            on_error=context.on_error,
            dropped=partial(context.dropped, NULL_KEY),
            late=partial(context.dropped, EXPIRED_WINDOW),
            instead_of=cut.instead_of,
            topic=cut.topic,
            emit=cut.emit,
            noted=noted and noted.cells,
            noted_headers=noted and noted.headers,
            forward=at_once,
            tell=tell,
        )
        push.stream_time = self._stream_time(context, store, lambda: push.stream_time)
        forget_steps, counted.forgotten = counted.forgotten, forgotten
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
