"""Joins each record of a stream with the row that a table has for it then, or had at its time if it is versioned.

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one look-up, and with
a grace one write and one deletion of the buffer. The stream's time and headers go on with the result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streamsapp import native
from streamsapp.dsl.operators.table_views import TableView
from streamsapp.processor.operator import NodeContext, Operator, Push, Reason, Waits
from streamsapp.record import Headers
from streamsapp.state.kinds.buffered_record import Buffered
from streamsapp.state.kinds.grace_buffer import GraceBuffer

NULL_JOIN_KEY_OR_VALUE = Reason("null join key or value", "give records both, or filter out those without")


class JoinWithTable(Operator):
    """Joins records with rows. Records without a value are dropped, and those without a key to look up, unless ``left``
    says to keep them."""

    def __init__(
        self,
        view: TableView,
        selector: Callable[[Any, Any], Any] | None,
        joiner: Callable[..., Any],
        keys: int,
        left: bool,
    ) -> None:
        """``keys``: the joiner is given none, the record's key, or that and the row's."""
        self._view = view
        self._selector = selector
        self._joiner = joiner
        self._keys = keys
        self._left = left

    def start(self, context: NodeContext) -> None:
        self._get, self._get_as_of = self._view.bind(context), self._view.bind_as_of(context)

    def bind(self, context: NodeContext) -> Push:
        return native.JoinPush(
            rows=self._get_as_of or self._get,
            as_of=self._get_as_of is not None,
            selector=self._selector,
            joiner=self._joiner,
            keys=self._keys,
            left=self._left,
            forward=context.forward,
            on_error=context.on_error,
            dropped=partial(context.dropped, NULL_JOIN_KEY_OR_VALUE),
        )

    def close(self) -> None:
        self._view.close()


class JoinAfterGrace(JoinWithTable):
    """Joins a record when stream time has passed it by the grace, with what the versioned table then knows of the
    record's time; a record that comes later still is joined at once (KIP-923)."""

    def __init__(
        self, view: TableView, joiner: Callable[..., Any], keys: int, left: bool, buffer: str, grace_ms: int
    ) -> None:
        super().__init__(view, None, joiner, keys, left)
        self._buffer = buffer
        self._grace_ms = grace_ms

    def start(self, context: NodeContext) -> None:
        context.record_is_read = True
        super().start(context)

    def waits(self, above: Waits) -> Waits:
        return above.until_closed(self._grace_ms, holds=True)

    def advance(self, context: NodeContext, now: int) -> None:
        buffer: GraceBuffer = context.store(self._buffer)
        buffer.move_on(now)
        self._join_due(context, buffer, super().bind(context))()

    def bind(self, context: NodeContext) -> Push:
        return self._bind_waiting(context)[0]

    def _bind_waiting(self, context: NodeContext) -> tuple[Push, Callable[[], None]]:
        """Returns the push function, and the one that joins the records which waited long enough."""
        join, on_error = super().bind(context), context.on_error
        buffer: GraceBuffer = context.store(self._buffer)
        add, join_due = buffer.add, self._join_due(context, buffer, join)

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            waits = False
            if key is not None and value is not None:  # else there is nothing to wait for
                try:
                    waits = add(key, value, timestamp, headers, context.record)
                except Exception as error:
                    on_error(error, key, value, timestamp, headers)
                    return
            if waits:
                join_due()
            else:
                join(key, value, timestamp, headers)

        return push, join_due

    @staticmethod
    def _join_due(context: NodeContext, buffer: GraceBuffer, join: Push) -> Callable[[], None]:
        on_error, take_due = context.on_error, buffer.take_due

        def join_later(physical: bytes, waiting: Buffered) -> None:
            """Joins a record that waited, as part of the record that it came with."""
            outer, context.record = context.record, waiting.record
            try:
                key, value = buffer.record(physical, waiting)
            except Exception as error:
                on_error(error, physical, waiting.new, waiting.timestamp, waiting.headers)
            else:
                join(key, value, waiting.timestamp, waiting.headers)
            context.record = outer

        def join_due() -> None:
            while due := take_due():
                for physical, waiting in due:
                    join_later(physical, waiting)

        return join_due
