"""Joins the changes of one table with the rows of another; the changes of both sides are merged into the joined table.

Bound on the polling thread when a task is created; pushed on a processing thread. A change costs one look-up in the
other table, and a write where the joined table has a store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamsapp.dsl.operators.aggregate import StoredTableOperator
from streamsapp.dsl.operators.forward_updates import ExpiringTable, LateChange, Update
from streamsapp.dsl.operators.table_views import Get, TableView
from streamsapp.dsl.operators.tables import NULL_KEY, OUT_OF_ORDER
from streamsapp.processor.operator import NodeContext, Operator, Push
from streamsapp.record import Headers


@dataclass
class JoinTables(Operator):
    """Joins the changes of one side: ``joiner(row, other row)`` gives the joined row.

    A joined row needs a row of this side if ``row_required``, one of the other side if ``other_required``, and one of
    either in any case. The result has the later timestamp of both rows.
    """

    other: TableView
    joiner: Callable[[Any, Any], Any]
    row_required: bool
    other_required: bool
    send_old_values: bool
    _get_other: Get = field(init=False)

    def start(self, context: NodeContext) -> None:
        self._get_other = self.other.bind(context)

    def bind(self, context: NodeContext) -> Push:
        get_other, joiner, send_old_values = self._get_other, self.joiner, self.send_old_values
        row_required, other_required = self.row_required, self.other_required
        forward, on_error, dropped = context.forward, context.on_error, context.dropped

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                dropped(NULL_KEY)
                return
            if change.__class__ is LateChange:
                dropped(OUT_OF_ORDER)
                return
            new, old = change
            try:
                other, other_at = get_other(key)
                if other is None and (other_required or (new is None and old is None)):
                    return
                needs_row = row_required or other is None
                new = None if new is None and needs_row else joiner(new, other)
                old = None if not send_old_values or (old is None and needs_row) else joiner(old, other)
            except Exception as error:
                on_error(error, key, change, timestamp, headers)
                return
            forward(key, (new, old), max(other_at, timestamp), headers)

        return push

    def close(self) -> None:
        self.other.close()


class StoreJoined(StoredTableOperator):
    """Keeps the joined table. Old values come with the changes; if updates wait for the commit, or rows have a time to
    live, they are read from the store."""

    def bind_to_store(self, context: NodeContext, store: Any, update: Update) -> Push:
        key_bytes_of, read, write = store.key_bytes, store.read, store.write
        from_stored, to_stored, on_error = store.from_stored, store.to_stored, context.on_error
        reads_old = self._emit_at_commit or isinstance(store, ExpiringTable)

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            new, old = change
            try:
                key_bytes = key_bytes_of(key)
                new_stored = None if new is None else to_stored(key, new)
                if reads_old:
                    old = from_stored(read(key_bytes)[0])
            except Exception as error:
                on_error(error, key, change, timestamp, headers)
                return
            write(key_bytes, new_stored, timestamp)
            update(key, key_bytes, new, old, timestamp, headers)

        return push
