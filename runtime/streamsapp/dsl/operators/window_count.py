"""Counts of a grouped stream by time window, the most used of the windowed aggregations and the leanest.

Bound on the polling thread when a task is created; pushed on a processing thread. A window that was counted before in
the running epoch is counted up in place: it costs one look-up by the bytes of the record's key.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from streamsapp import native
from streamsapp.dsl.operators.forward_updates import HeldCells, Update
from streamsapp.dsl.operators.short_cut import NO_SHORT_CUT, short_cut
from streamsapp.dsl.operators.window_aggregate import WindowAggregate
from streamsapp.dsl.operators.windowed import EXPIRED_WINDOW, NULL_KEY
from streamsapp.dsl.windows import EmitStrategy, TimeWindows, UnlimitedWindows
from streamsapp.processor.operator import NodeContext, Push, nowhere
from streamsapp.record import Headers
from streamsapp.serdes.serdes import require_bytes
from streamsapp.serdes.windowed import windowed
from streamsapp.state.counted_windows import WINDOWS_AT_HAND, CountedWindows, Window
from streamsapp.state.entries import ABSENT, Cell
from streamsapp.state.segments import Segments
from streamsapp.state.store_type import Layers
from streamsapp.state.window import HIDDEN_OF_WINDOWS, WindowStoreImpl


class WindowCount(WindowAggregate):
    """Counts a record in every window that its time belongs to."""

    _windows: TimeWindows | UnlimitedWindows

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update) -> Push:
        asked_more = self._send_old_values or context.record_is_read
        if not store.counts_in_place or (self._emit_at_commit and asked_more):
            return super()._add(context, store, update)
        counted, forward = store.counted_windows(), context.forward
        forwards = forward is not nowhere and self._emit is not EmitStrategy.WINDOW_CLOSE
        if forwards and self._emit_at_commit:
            cut = short_cut(forward, store.writes_as)
            self._held = HeldCells(forward, cut, counted.library, store.deleted_at, windowed, HIDDEN_OF_WINDOWS)
            forwards = False
        library, cells = counted.library, store.layers.cells
        if library is not None and cells is not None:
            return self._native_count(library, cells, context, store, counted, forwards)
        return self._count(context, store, counted, forwards)

    @property
    def _noted(self) -> tuple[list[Any], dict[int, Headers]] | None:
        """The list in which windows are noted that are sent at the commit, and their headers."""
        return self._held.noted if isinstance(self._held, HeldCells) else None

    def _native_count(
        self,
        library: Any,
        cells: native.Cells,
        context: NodeContext,
        store: WindowStoreImpl,
        counted: CountedWindows,
        forwards: bool,
    ) -> Push:
        send_old_values = self._send_old_values
        at_once = context.forward if forwards else None
        cut = NO_SHORT_CUT if at_once is None else short_cut(at_once, store.writes_as)
        windows = windows_by_step(self._windows, counted), self._windows.step_ms, self._windows.grace_ms
        told = context.on_error, partial(context.dropped, NULL_KEY), partial(context.dropped, EXPIRED_WINDOW)

        def tell(key: Any, start: int, end: int, count: int, changed_at: int, headers: Headers | None) -> None:
            forward = push.forward  # a probe may be there
            assert forward is not None
            forward(windowed(key, start, end), (count, count - 1 if send_old_values else None), changed_at, headers)

        def forgotten() -> None:
            forget_steps()
            push.forget()

        push = native.WindowPush(
            (cells, counted.segments), windows, store.key_bytes, told, cut, self._noted, (at_once, tell)
        )
        push.keeps_bytes = store.key_bytes is require_bytes
        push.stream_time = self._stream_time(context, store, lambda: push.stream_time)
        forget_steps, counted.forgotten = counted.forgotten, forgotten
        return push

    def _count(self, context: NodeContext, store: WindowStoreImpl, counted: CountedWindows, forwards: bool) -> Push:
        """Forwards each count, or notes its window to be sent at the commit, or neither."""
        key_bytes_of, on_error, dropped = store.key_bytes, context.on_error, context.dropped
        step_ms, grace_ms = self._windows.step_ms, self._windows.grace_ms
        windows_of, send_old_values = windows_by_step(self._windows, counted), self._send_old_values
        #: The highest timestamp that came here.
        stream_time = self._stream_time(context, store, lambda: stream_time)
        forward = context.forward

        def tell(key: Any, start: int, end: int, count: int, changed_at: int, headers: Headers | None) -> None:
            forward(windowed(key, start, end), (count, count - 1 if send_old_values else None), changed_at, headers)

        late = partial(dropped, EXPIRED_WINDOW)
        count = _Counting(store.layers, counted.segments, late, self._noted, tell if forwards else None).count

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
            count(windows_of(timestamp // step_ms), key, key_bytes, timestamp, stream_time - grace_ms, headers)

        return push


#: Numbers the updates of windows that are held.
_updates = itertools.count(1)


class _Counting:
    """Counts the windows of records in cells of Python's."""

    def __init__(
        self,
        layers: Layers,
        segments: Segments,
        late: Callable[[], None],
        held: tuple[list[Any], dict[int, Headers]] | None,
        forward: Callable[..., None] | None,
    ) -> None:
        """Takes a function that is called for each window that has closed; a list of windows that are held for the
        commit, and their headers by the cells' ``id``; and the function to forward by."""
        self._layers = layers
        self._segments = segments
        self._late = late
        self._held = held
        self._forward = forward

    def count(
        self,
        windows: tuple[Window, ...],
        key: Any,
        key_bytes: bytes,
        timestamp: int,
        closed_until: int,
        headers: Headers | None,
    ) -> None:
        """Counts a record in its windows, unless they end at ``closed_until`` or before."""
        for start, end, around in windows:
            if end <= closed_until:
                self._late()
                continue
            cell = self._counted(around.before + key_bytes + around.after, around, timestamp)
            if start > self._segments.stream_time:
                self._segments.observe(start)
            if self._forward is not None:
                self._forward(key, start, end, *cell, headers)
            if self._held is not None:
                _hold(*self._held, cell, (key, start, end), headers)

    def _counted(self, physical: bytes, around: native.Window, timestamp: int) -> Cell:
        """Counts one more, in place if the window was counted in the running epoch before."""
        layers = self._layers
        cell: Any = layers.at_hand(physical) or ABSENT if around.whole else layers.read(physical)
        if type(cell) is not Cell or cell.epoch != layers.epoch:
            # The cache may have forgotten it, or have it as one that is not there, as it was deleted.
            running = layers.running(physical)
            cell = running if type(running) is Cell else tuple(cell)
        count, changed_at = cell
        if count is None:
            count, changed_at = 0, -1
        if timestamp > changed_at:
            changed_at = timestamp
        if type(cell) is not Cell:
            return layers.write_cell(physical, count + 1, changed_at)
        cell[0], cell[1] = count + 1, changed_at
        return cell


def _hold(
    held: list[Any], all_headers: dict[int, Headers], cell: Cell, window: tuple[Any, int, int], headers: Headers | None
) -> None:
    if not cell.held:
        held.append((cell, *window))
    cell.held = next(_updates)
    if headers is not None:
        all_headers[id(cell)] = headers
    elif all_headers:
        all_headers.pop(id(cell), None)


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
