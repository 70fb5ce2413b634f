"""The operators of tables: they keep a topic as a table, and derive one table from another.

A table's records are changes, plain tuples ``(new, old)``; ``old`` is ``None`` unless a table below asked for old
values. Bound on the polling thread when a task is created; pushed on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from streamsapp.dsl.operators.aggregate import StoredTableOperator
from streamsapp.dsl.operators.forward_updates import LateChange, Update
from streamsapp.dsl.operators.table_views import Get, GetAsOf, TableView
from streamsapp.processor.api import ProcessorContext
from streamsapp.processor.operator import NodeContext, Operator, Push, Reason
from streamsapp.record import Headers
from streamsapp.state.engine.entries import ABSENT
from streamsapp.state.kinds.key_value import KeyValueStoreImpl

NULL_KEY = Reason("null key", "give records a key, or filter out those without")
#: The reason why a late change is dropped where tables are joined (KIP-914).
OUT_OF_ORDER = Reason(
    "out-of-order update of a versioned table",
    "a table without versions takes updates in the order of their offsets",
)


class ValueTransformer(Protocol):
    """Turns values into others, with access to stores and to the record; ``KTable.transform_values`` runs it (KIP-292).

    Calls come from the processing thread that holds the task.
    """

    def init(self, context: ProcessorContext) -> None:
        """Called once before the first value."""
        ...

    def transform(self, key: Any, value: Any) -> Any:
        """Returns the new value. Unlike a mapper, it also sees deletions, as ``None``."""
        ...

    def close(self) -> None:
        """Called once after the last value."""
        ...


class UnstoredTableSource(Operator):
    """Turns a topic's records into changes of a table that no node needs to look into."""

    hands_on_every_record = True

    def bind(self, context: NodeContext) -> Push:
        forward, dropped = context.forward, context.dropped

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                dropped(NULL_KEY)
                return
            forward(key, (value, None), timestamp, headers)

        return push


class StoredTableSource(StoredTableOperator):
    """Keeps the last value of each key, in the order of arrival whatever the timestamps say."""

    hands_on_every_record = True

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        key_bytes_of, read, write = store.key_bytes, store.read, store.write
        from_stored, to_stored = store.from_stored, store.to_stored
        on_error, dropped = context.on_error, context.dropped
        needs_old = self._send_old_values or self._emit_at_commit

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None:
                dropped(NULL_KEY)
                return
            try:
                key_bytes = key_bytes_of(key)
                new_stored = None if value is None else to_stored(key, value)
                stored = read(key_bytes)[0] if needs_old else None
                old = None if stored is None else from_stored(stored)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            write(key_bytes, new_stored, timestamp)
            update(key, key_bytes, value, old, timestamp, headers)

        return push


class UnstoredTableValues(Operator):
    """Derives a table value by value: ``compute(key, value)`` gives the derived value, also that of the old value if it
    travels.

    ``skip_absent`` leaves out updates of keys that neither are nor were in the table; it takes effect where old values
    travel, for without them it is not known whether a deletion is due. ``marks_late``: late changes of a versioned
    table are late changes of the derived one.
    """

    def __init__(
        self, compute: Callable[[Any, Any], Any], skip_absent: bool, marks_late: bool, send_old_values: bool
    ) -> None:
        self._compute = compute
        self._skip_absent = skip_absent
        self._marks_late = marks_late
        self._send_old_values = send_old_values

    def bind(self, context: NodeContext) -> Push:
        compute, send_old_values, forward, on_error = (
            self._compute,
            self._send_old_values,
            context.forward,
            context.on_error,
        )
        skip_absent, marks_late = self._skip_absent and send_old_values, self._marks_late

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                new = compute(key, change[0])
                old = compute(key, change[1]) if send_old_values else None
            except Exception as error:
                on_error(error, key, change, timestamp, headers)
                return
            if not (skip_absent and new is None and old is None):
                late = marks_late and change.__class__ is LateChange
                forward(key, LateChange((new, old)) if late else (new, old), timestamp, headers)

        return push


class StoredTableValues(StoredTableOperator):
    """Derives a table as :class:`UnstoredTableValues` does, and keeps it; old values come from the store."""

    def __init__(
        self,
        compute: Callable[[Any, Any], Any],
        skip_absent: bool,
        store_name: str,
        emit_at_commit: bool,
        send_old_values: bool,
    ) -> None:
        super().__init__(store_name, emit_at_commit, send_old_values)
        self._compute = compute
        self._skip_absent = skip_absent

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        compute, skip_absent = self._compute, self._skip_absent and self._send_old_values
        key_bytes_of, read, write = store.key_bytes, store.read, store.write
        from_stored, to_stored, on_error = store.from_stored, store.to_stored, context.on_error
        needs_old = self._send_old_values or self._emit_at_commit

        def push(key: Any, change: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                new = compute(key, change[0])
                new_stored = None if new is None else to_stored(key, new)
                key_bytes = key_bytes_of(key)
                stored = read(key_bytes)[0] if needs_old else None
                old = None if stored is None else from_stored(stored)
            except Exception as error:
                on_error(error, key, change, timestamp, headers)
                return
            if skip_absent and new is None and old is None:
                return
            write(key_bytes, new_stored, timestamp)
            update(key, key_bytes, new, old, timestamp, headers)

        return push


class UnstoredTableTransformValues(UnstoredTableValues):
    """Transforms the values of a table."""

    def __init__(self, transformer: ValueTransformer, marks_late: bool, send_old_values: bool) -> None:
        super().__init__(transformer.transform, False, marks_late, send_old_values)
        self._transformer = transformer

    def start(self, context: NodeContext) -> None:
        context.record_is_read = True
        self._transformer.init(context.processor_context)
        super().start(context)

    def bind(self, context: NodeContext) -> Push:
        return context.timed(super().bind(context))

    def close(self) -> None:
        self._transformer.close()


class StoredTableTransformValues(StoredTableValues):
    """Transforms the values of a table and keeps the result."""

    def __init__(
        self, transformer: ValueTransformer, store_name: str, emit_at_commit: bool, send_old_values: bool
    ) -> None:
        super().__init__(transformer.transform, False, store_name, emit_at_commit, send_old_values)
        self._transformer = transformer

    def start(self, context: NodeContext) -> None:
        context.record_is_read = True
        self._transformer.init(context.processor_context)
        super().start(context)

    def bind(self, context: NodeContext) -> Push:
        return context.timed(super().bind(context))

    def close(self) -> None:
        self._transformer.close()


class TransformedView(TableView):
    """Looks up rows of a table whose values are transformed, by a transformer of this view's own."""

    def __init__(self, parent: TableView, transformer: ValueTransformer) -> None:
        self.store_names = parent.store_names
        self._parent = parent
        self._transformer = transformer

    def bind(self, context: NodeContext) -> Get:
        context.record_is_read = True
        self._transformer.init(context.processor_context)
        get_parent, transform = self._parent.bind(context), context.of_row(self._transformer.transform)

        def get(key: Any) -> tuple[Any, int]:
            value, timestamp = get_parent(key)
            value = transform(key, value, timestamp)
            return ABSENT if value is None else (value, timestamp)

        return get

    def bind_as_of(self, context: NodeContext) -> GetAsOf | None:
        get_parent, transform = self._parent.bind_as_of(context), context.of_row(self._transformer.transform)
        if get_parent is None:
            return None

        def get(key: Any, as_of: int) -> tuple[Any, int]:
            value, timestamp = get_parent(key, as_of)
            value = transform(key, value, timestamp)
            return ABSENT if value is None else (value, timestamp)

        return get

    def close(self) -> None:
        self._transformer.close()
        self._parent.close()
