"""Counts of a grouped stream by time window, the most used of the windowed aggregations and the leanest.

Bound on the polling thread when a task is created; pushed on a processing thread. A window that was counted before in
the running epoch is counted up in place: it costs one look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from streamsapp.dsl.operators.forward_updates import HeldKeys, Update
from streamsapp.dsl.operators.window_aggregate import WindowAggregate
from streamsapp.dsl.operators.windowed import EXPIRED_WINDOW, NULL_KEY
from streamsapp.dsl.windows import EmitStrategy, TimeWindows, UnlimitedWindows
from streamsapp.processor.operator import NodeContext, Push, nowhere
from streamsapp.record import Headers
from streamsapp.serdes.windowed import windowed
from streamsapp.state.entries import Cell
from streamsapp.state.window import WindowStoreImpl

#: So many windows are remembered, a few hundred bytes each, with the steps that they make up. The windows of one step
#: are remembered even if they are more.
_WINDOWS_AT_HAND = 1024


#: A start, an end, and the bytes around the key in the physical keys of all windows that start then.
_Window: TypeAlias = tuple[int, int, bytes, bytes]


class WindowCount(WindowAggregate):
    """Counts a record in every window that its time belongs to."""

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update) -> Push:
        asked_more = self._send_old_values or context.record_is_read
        if not store.counts_in_place or (self._emit_at_commit and asked_more):
            return super()._add(context, store, update)
        if context.forward is nowhere or self._emit is EmitStrategy.WINDOW_CLOSE:
            return self._count(context, store, None)
        if not self._emit_at_commit:
            return self._count(context, store, context.forward)
        held = self._held = HeldKeys(context.forward, store.read_physical)
        return self._count(context, store, None, held)

    def _count(
        self, context: NodeContext, store: WindowStoreImpl, forward: Push | None, held: HeldKeys | None = None
    ) -> Push:
        """Forwards each count, or notes its window in ``held``, or neither."""
        key_bytes_of, on_error, dropped = store.key_bytes, context.on_error, context.dropped
        read, count_anew, layers = store.read_physical, store.count_anew, store.layers
        send_old_values = self._send_old_values
        step_ms, grace_ms = self._windows.step_ms, self._windows.grace_ms
        windows_of = windows_by_step(self._windows, store.around)
        #: The highest timestamp that came here.
        stream_time = self._stream_time(context, store.stream_time, lambda: stream_time)

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            nonlocal stream_time
            if key is None:
                dropped(NULL_KEY)
                return
            if timestamp > stream_time:
                stream_time = timestamp
            closed_until = stream_time - grace_ms
            try:
                key_bytes = key_bytes_of(key)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            for start, end, before_key, after_key in windows_of(timestamp // step_ms):
                if end <= closed_until:
                    dropped(EXPIRED_WINDOW)
                    continue
                physical = before_key + key_bytes + after_key
                cell: Any = read(physical)
                if cell.__class__ is Cell and cell.epoch == layers.epoch:
                    cell[0] += 1
                    if timestamp > cell[1]:
                        cell[1] = timestamp
                else:
                    cell = count_anew(physical, cell, start, timestamp)
                if forward is not None:
                    count, changed_at = cell
                    change = count, count - 1 if send_old_values else None
                    forward(windowed(key, start, end), change, changed_at, headers)
                elif held is not None:
                    if not cell.held:
                        cell.held = True
                        held.keys[physical] = windowed(key, start, end)
                    if headers is not None:
                        held.headers[physical] = headers
                    elif held.headers:
                        held.headers.pop(physical, None)

        return push


def windows_by_step(
    windows: TimeWindows | UnlimitedWindows, around: Callable[[int], tuple[bytes, bytes]]
) -> Callable[[int], tuple[_Window, ...]]:
    """Returns a function that finds the windows of a step, which are those of all of its records, whatever their keys.
    Steps share their windows. Steps of 1 ms are too many to remember: there all timestamps of the same windows count as
    one."""
    step_ms, first_alike = windows.step_ms, windows.first_alike
    window = lru_cache(_WINDOWS_AT_HAND)(lambda start: (start, windows.end_of(start), *around(start)))
    steps = max(1, _WINDOWS_AT_HAND * windows.advance_ms // windows.size_ms)
    found = lru_cache(steps)(lambda step: tuple(map(window, windows.starts_for(step * step_ms))))
    return found if step_ms > 1 else lambda timestamp: found(first_alike(timestamp))
