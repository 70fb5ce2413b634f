"""Joins of two streams as of a time: each left record with the latest right record that is not later.

Bound on the polling thread when a task is created; pushed on a processing thread. A right record costs a write, a left
record one look-up.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streamsapp.dsl.operators.aggregate import NULL_KEY_OR_VALUE
from streamsapp.dsl.operators.late import LateRecords
from streamsapp.dsl.operators.stream_table_join import JoinAfterGrace
from streamsapp.dsl.operators.table_views import Get, GetAsOf, TableView
from streamsapp.processor.operator import NodeContext, Operator, Push, Reason
from streamsapp.record import Headers
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine.entries import ABSENT
from streamsapp.state.kinds.grace_buffer import GraceBuffer
from streamsapp.state.kinds.window import WindowStoreImpl

TOO_OLD = Reason("no left record can be joined with it any more", "a longer within or grace of join_as_of keeps it")
#: Stands for the time of a right record on its way to the left side.
_TIME = object()


class KeepRight(Operator):
    """Keeps the right side's records. ``tells_time``: their times go to the left side, before they are kept."""

    def __init__(self, store: str, tells_time: bool, sends_late: bool) -> None:
        self._store = store
        self._tells_time = tells_time
        self._sends_late = sends_late

    def start(self, context: NodeContext) -> None:
        context.store(self._store).keep_recent()

    def bind(self, context: NodeContext) -> Push:
        if not self._sends_late:
            return self._bind(context, partial(context.dropped, TOO_OLD))
        late = LateRecords(context, TOO_OLD)
        return late.behind(self._bind(context, late.miss))

    def _bind(self, context: NodeContext, expired: Callable[[], object]) -> Push:
        store: WindowStoreImpl = context.store(self._store)
        key_bytes_of, to_stored, write = store.key_bytes, store.to_stored, store.write
        tell, on_error, dropped = context.forward if self._tells_time else None, context.on_error, context.dropped

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                dropped(NULL_KEY_OR_VALUE)
                return
            try:
                key_bytes, stored = key_bytes_of(key), to_stored(key, value)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            if tell is not None:
                tell(None, _TIME, timestamp, None)
            if not write(key_bytes, timestamp, stored, timestamp):
                expired()

        return push


class AsOfView(TableView):
    """Looks up the latest right record of a key that is at most ``within_ms`` older than a time, and not later."""

    def __init__(self, store: str, within_ms: int) -> None:
        self.store_names = (store,)
        self._within_ms = within_ms

    def bind(self, context: NodeContext) -> Get:
        get = self.bind_as_of(context)
        return lambda key: get(key, MAX_TIMESTAMP)

    def bind_as_of(self, context: NodeContext) -> GetAsOf:
        store: WindowStoreImpl = context.store(self.store_names[0])
        key_bytes, near, from_stored, within_ms = store.key_bytes, store.near, store.from_stored, self._within_ms

        def get(key: Any, timestamp: int) -> tuple[Any, int]:
            for start, (stored, _) in near(key_bytes(key), timestamp - within_ms, timestamp, reverse=True):
                return from_stored(stored), start
            return ABSENT

        return get


class JoinAsOfAfterGrace(JoinAfterGrace):
    """Joins a left record when a record of either side has passed it by the grace."""

    def bind(self, context: NodeContext) -> Push:
        push, join_due = self._bind_waiting(context)
        buffer: GraceBuffer = context.store(self._buffer)

        def push_either(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if value is not _TIME:
                push(key, value, timestamp, headers)
                return
            buffer.move_on(timestamp)
            join_due()

        return push_either
