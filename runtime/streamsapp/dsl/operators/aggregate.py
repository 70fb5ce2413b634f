"""Aggregations of a grouped stream: count, reduce, aggregate.

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs one serialisation of
its key, one read and one write of the store. Records without key or value are dropped: they add nothing to any group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from streamsapp import native
from streamsapp.dsl.operators.forward_updates import Update, VersionedTable, forward_updates
from streamsapp.dsl.operators.held import Held, Noted, hold_cells, hold_updates
from streamsapp.dsl.operators.short_cut import NO_SHORT_CUT, ShortCut, short_cut
from streamsapp.processor.operator import NodeContext, Operator, Push, nowhere
from streamsapp.record import Headers
from streamsapp.serdes.api import identity
from streamsapp.serdes.serdes import require_bytes
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.kinds.versioned import VersionedStoreImpl

NULL_KEY_OR_VALUE = "null key or value"
DELETES = (
    "the aggregator returned None, which deletes the aggregate; if that is not meant, return the new aggregate "
    "(list.append and dict.update return None). Told once"
)


class _WarnOnce:
    """Warns once of something that may be meant, and is probably a slip."""

    def __init__(self, context: NodeContext, text: str) -> None:
        self._context: NodeContext | None = context
        self._text = text

    def __call__(self) -> None:
        if self._context is not None:
            self._context.warn(self._text)
            self._context = None


class StoredTableOperator(Operator):
    """An operator whose result is a table in a store."""

    def __init__(self, store_name: str, emit_at_commit: bool, send_old_values: bool) -> None:
        self._store_name = store_name
        self._send_old_values = send_old_values
        self._emit_at_commit = emit_at_commit
        self._held: Held | None = None

    def bind(self, context: NodeContext) -> Push:
        store = context.store(self._store_name)
        if isinstance(store, VersionedStoreImpl):
            versions = VersionedTable(context, store, self._send_old_values)
            return self.bind_to_store(context, versions, versions.update)
        if not self._emit_at_commit or context.forward is nowhere:
            update = forward_updates(context.forward, self._send_old_values)
        else:
            self._held, update = hold_updates(context, self._send_old_values)
        return self.bind_to_store(context, store, update)

    def _rereads(self, store: Any) -> bool:
        """Says whether an old value is read from its bytes once more before it is sent, as Kafka Streams' caches do:
        a function that changes its aggregate in place has spoilt the one that it was given."""
        return self._send_old_values and store.from_stored is not identity

    def _short_cut(self, context: NodeContext, store: Any) -> ShortCut:
        return NO_SHORT_CUT if self._emit_at_commit else short_cut(context.forward, store.writes_as)

    def _counts_to(
        self, context: NodeContext, store: Any, key_of: Callable[..., Any], hidden: tuple[int, int]
    ) -> tuple[ShortCut, Noted | None, Push | None]:
        """Returns the ways on for counts in cells, which has one at most: a short cut or a push at once, or where they
        are noted for the commit. ``key_of`` and ``hidden`` are those of :func:`hold_cells`."""
        forward = context.forward
        if forward is nowhere:
            return NO_SHORT_CUT, None, None
        cut = short_cut(forward, store.writes_as)
        if not self._emit_at_commit:
            return cut, None, forward
        self._held, noted = hold_cells(forward, cut, store.deleted_at, key_of, hidden)
        return NO_SHORT_CUT, noted, None

    @abstractmethod
    def bind_to_store(self, context: NodeContext, store: Any, update: Update) -> Push:
        """Returns the push function, which calls ``update`` for each change of the table after writing it to the
        store."""

    def emit_held(self, limit: int) -> int:
        return 0 if self._held is None else self._held.emit(limit)


class Aggregate(StoredTableOperator):
    """Folds the values of a key into an aggregate that starts from the initializer's."""

    def __init__(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        store_name: str,
        emit_at_commit: bool,
        send_old_values: bool,
    ) -> None:
        super().__init__(store_name, emit_at_commit, send_old_values)
        self._initializer = initializer
        self._aggregator = aggregator

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        initializer, aggregator = self._initializer, self._aggregator
        key_bytes_of, read, write = store.key_bytes, store.read, store.write
        from_stored, to_stored, raw = store.from_stored, store.to_stored, store.raw
        forward, on_error, dropped = context.forward, context.on_error, context.dropped
        instead_of, topic, emit = self._short_cut(context, store)
        deleting = _WarnOnce(context, DELETES)
        # As in Kafka Streams: sent at once, a group's first update has the initial aggregate as its old value; sent at
        # commits, a deletion has its record's time.
        at_commit, rereads = self._emit_at_commit, self._rereads(store)

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                dropped(NULL_KEY_OR_VALUE)
                return
            try:
                key_bytes = key_bytes_of(key)
                stored, stored_at = read(key_bytes)
                aggregate = initializer() if stored is None else from_stored(stored)
                new = aggregator(key, value, aggregate)
                if new is None:
                    new_stored = None
                    deleting()
                else:
                    new_stored = to_stored(key, new)
                if rereads:
                    aggregate = initializer() if stored is None else from_stored(stored)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            changed_at = timestamp
            if stored_at > timestamp:
                changed_at = stored_at
            write(key_bytes, new_stored, timestamp if new is None else changed_at)
            old = None if at_commit and stored is None else aggregate
            if new is None and at_commit:
                changed_at = timestamp
            if headers is None and id(forward) == instead_of:
                emit((topic, None if new is None else raw(new_stored), key_bytes, -1, None, None, changed_at, None))
            else:
                update(key, key_bytes, new, old, changed_at, headers)

        return push


class Reduce(StoredTableOperator):
    """Combines the values of a key two by two; the first one is the first result."""

    def __init__(
        self, reducer: Callable[[Any, Any], Any], store_name: str, emit_at_commit: bool, send_old_values: bool
    ) -> None:
        super().__init__(store_name, emit_at_commit, send_old_values)
        self._reducer = reducer

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        reducer, at_commit, rereads = self._reducer, self._emit_at_commit, self._rereads(store)
        key_bytes_of, read, write = store.key_bytes, store.read, store.write
        from_stored, to_stored, raw = store.from_stored, store.to_stored, store.raw
        forward, on_error, dropped = context.forward, context.on_error, context.dropped
        instead_of, topic, emit = self._short_cut(context, store)

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            if key is None or value is None:
                dropped(NULL_KEY_OR_VALUE)
                return
            try:
                key_bytes = key_bytes_of(key)
                stored, stored_at = read(key_bytes)
                old = None if stored is None else from_stored(stored)
                new = value if old is None else reducer(old, value)
                new_stored = None if new is None else to_stored(key, new)
                if rereads and old is not None:
                    old = from_stored(stored)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            changed_at = timestamp
            if stored_at > timestamp:
                changed_at = stored_at
            write(key_bytes, new_stored, timestamp if new is None else changed_at)
            if new is None and at_commit:
                changed_at = timestamp
            if headers is None and id(forward) == instead_of:
                emit((topic, None if new is None else raw(new_stored), key_bytes, -1, None, None, changed_at, None))
            else:
                update(key, key_bytes, new, old, changed_at, headers)

        return push


class Count(StoredTableOperator):
    """Counts the records of a key. It is the leanest of the aggregations, as it is used most."""

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        asked_more = (self._send_old_values or context.record_is_read) and context.forward is not nowhere
        if store.cells is None or (self._emit_at_commit and asked_more):
            counting = Aggregate(lambda: 0, _add_one, self._store_name, self._emit_at_commit, self._send_old_values)
            return counting.bind_to_store(context, store, update)
        cut, noted, forward = self._counts_to(context, store, identity, (0, 0))
        return native.CountPush(
            cells=store.cells,
            serialize_key=store.key_bytes,
            keeps_bytes=store.key_bytes is require_bytes,
            on_error=context.on_error,
            dropped=partial(context.dropped, NULL_KEY_OR_VALUE),
            instead_of=cut.instead_of,
            topic=cut.topic,
            emit=cut.emit,
            noted=noted and noted.cells,
            noted_headers=noted and noted.headers,
            forward=forward,
            old_values=self._send_old_values,
        )


def _add_one(key: Any, value: Any, count: int) -> int:
    return count + 1
