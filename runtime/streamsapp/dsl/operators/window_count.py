"""Counts of a grouped stream by time window, the most used of the windowed aggregations and the leanest.

Bound on the polling thread when a task is created; pushed on a processing thread. A window that was counted before in
the running epoch is counted up in place: it costs one look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, TypeAlias

from streamsapp.dsl.operators.forward_updates import HeldKeys, Update
from streamsapp.dsl.operators.window_aggregate import WindowAggregate
from streamsapp.dsl.operators.windowed import EXPIRED_WINDOW, NULL_KEY
from streamsapp.dsl.windows import EmitStrategy
from streamsapp.processor.operator import NodeContext, Push, nowhere
from streamsapp.record import Headers
from streamsapp.serdes.windowed import Windowed, windowed
from streamsapp.state.entries import Cell
from streamsapp.state.window import WindowStoreImpl

#: Windows whose ends and parts of keys are remembered; more are open at a time only where they hop in small steps.
_WINDOWS_AT_HAND = 256

#: ``(window, physical key, count and timestamp, headers)``: a window was counted up.
_Changed: TypeAlias = Callable[[Windowed[Any], bytes, Cell, Headers | None], None]


class WindowCount(WindowAggregate):
    """Counts a record in every window that its time belongs to."""

    def _add(self, context: NodeContext, store: WindowStoreImpl, update: Update) -> Push:
        if not store.counts_in_place or (self._emit_at_commit and self._send_old_values):
            return super()._add(context, store, update)
        if context.forward is nowhere or self._emit is EmitStrategy.WINDOW_CLOSE:
            return self._count(context, store, None)
        if not self._emit_at_commit:
            return self._count(context, store, self._forwarding(context))
        held = self._held = HeldKeys(context.forward, store.read_physical)
        return self._count(context, store, partial(_hold, held))

    def _forwarding(self, context: NodeContext) -> _Changed:
        forward, send_old_values = context.forward, self._send_old_values

        def changed(window: Windowed[Any], physical: bytes, cell: Cell, headers: Headers | None) -> None:
            count, timestamp = cell
            forward(window, (count, count - 1 if send_old_values else None), timestamp, headers)

        return changed

    def _count(self, context: NodeContext, store: WindowStoreImpl, changed: _Changed | None) -> Push:
        key_bytes_of, count, on_error, dropped = store.key_bytes, store.count, context.on_error, context.dropped
        starts_for, end_of, grace_ms = self._windows.starts_for, self._windows.end_of, self._windows.grace_ms
        # Records of one time fall into the same windows, whatever their keys.
        bounds_of = lru_cache(_WINDOWS_AT_HAND)(lambda start: (end_of(start), *store.around(start)))
        #: The highest timestamp that came here; after a restart at least that of what the store has.
        stream_time = store.stream_time

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
            for start in starts_for(timestamp):
                end, before_key, after_key = bounds_of(start)
                if end <= closed_until:
                    dropped(EXPIRED_WINDOW)
                    continue
                physical = before_key + key_bytes + after_key
                cell = count(physical, start, timestamp)
                if changed is not None:
                    changed(windowed(key, start, end), physical, cell, headers)

        return push


def _hold(held: HeldKeys, window: Windowed[Any], physical: bytes, cell: Cell, headers: Headers | None) -> None:
    if not cell.held:
        cell.held = True
        held.keys[physical] = window
    if headers is not None:
        held.headers[physical] = headers
