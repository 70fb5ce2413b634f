"""Joins each record of a stream with the row that a table has for it then, or had at its time if it is versioned.

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one look-up. The
stream's time and headers go on with the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamsapp.dsl.operators.table_views import TableView
from streamsapp.processor.operator import NodeContext, Operator, Push
from streamsapp.record import Headers

NULL_JOIN_KEY_OR_VALUE = "null join key or value"


class JoinWithTable(Operator):
    """Records without value are dropped, and those without the key to look up, unless ``left`` says to keep them."""

    def __init__(
        self,
        view: TableView,
        selector: Callable[[Any, Any], Any] | None,
        joiner: Callable[..., Any],
        with_key: bool,
        left: bool,
    ) -> None:
        self._view = view
        self._selector = selector
        self._joiner = joiner
        self._with_key = with_key
        self._left = left

    def bind(self, context: NodeContext) -> Push:
        selector, joiner, with_key, left = self._selector, self._joiner, self._with_key, self._left
        get, get_as_of, forward = self._view.bind(context), self._view.bind_as_of(context), context.forward
        on_error, dropped = context.on_error, context.dropped

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                row_key = key if selector is None else selector(key, value)
                if value is None or (row_key is None and not left):
                    dropped(NULL_JOIN_KEY_OR_VALUE)
                    return
                row = None
                if row_key is not None:
                    row = get(row_key)[0] if get_as_of is None else get_as_of(row_key, timestamp)[0]
                if row is None and not left:
                    return
                joined = joiner(key, value, row) if with_key else joiner(value, row)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            forward(key, joined, timestamp, headers)

        return push

    def close(self) -> None:
        self._view.close()
