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
from streamsapp.dsl.operators.forward_updates import (
    EXPIRED_VERSION,
    ExpiringTable,
    Update,
    VersionedTable,
    forward_updates,
)
from streamsapp.dsl.operators.held import Held, Noted, hold_cells, hold_updates
from streamsapp.dsl.operators.late import LateRecords
from streamsapp.dsl.operators.short_cut import ShortCut, short_cut
from streamsapp.processor.operator import NodeContext, OldIsKnown, Operator, Push, Reason, nowhere, old_known_by
from streamsapp.serdes.api import identity
from streamsapp.state.kinds.expiring import ExpiringStoreImpl
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.kinds.versioned import VersionedStoreImpl

NULL_KEY_OR_VALUE = Reason("null key or value", "give records both, or filter out those without")
DELETES = (
    "the aggregator returned None, which deletes the aggregate; if that is not meant, return the new aggregate "
    "(list.append and dict.update return None). Told once"
)


class _WarnOnce:
    """Warns once of something that may be meant, and is probably a slip."""

    def __init__(self, text: str) -> None:
        self._text: str | None = text

    def __call__(self, context: NodeContext) -> None:
        if self._text is not None:
            context.warn(self._text)
            self._text = None


class StoredTableOperator(Operator):
    """An operator whose result is a table in a store."""

    #: Says whether old values are the rows that were there, as with Kafka Streams' caches. Without, a row that was not
    #: there had the initial aggregate.
    sends_true_old = False
    #: Says whether updates wait for the commit where changes are combined, as no user sees them.
    combines = False
    #: Says whether records that come too late go aside.
    sends_late = False

    def __init__(self, store_name: str, emit_at_commit: bool, send_old_values: bool) -> None:
        self._store_name = store_name
        self._send_old_values = send_old_values
        self._emit_at_commit = emit_at_commit
        self._held: Held | None = None
        #: Takes updates that are held; ``None`` if they are not, or not here.
        self._hold: native.HoldUpdate | None = None

    def start(self, context: NodeContext) -> None:
        store = context.store(self._store_name)
        if isinstance(store, VersionedStoreImpl):
            return
        self._emit_at_commit = self._emit_at_commit or (self.combines and context.combines)
        if self._holds and context.forward is not nowhere:
            self._start_holding(context, store)

    @property
    def _holds(self) -> bool:
        """Says whether updates wait for the commit."""
        return self._emit_at_commit

    def _start_holding(self, context: NodeContext, store: Any) -> None:
        self._held, self._hold = hold_updates(context, self._send_old_values)

    def bind(self, context: NodeContext) -> Push:
        store = context.store(self._store_name)
        if isinstance(store, VersionedStoreImpl):
            return self._bind_to_versions(context, store)
        update = self._update(context)
        if isinstance(store, ExpiringStoreImpl):
            table = ExpiringTable(context, store, update)
            return self.bind_to_store(context, table, table.update)
        return self.bind_to_store(context, store, update)

    def _update(self, context: NodeContext) -> Update:
        return self._hold or forward_updates(context.forward, self._send_old_values)

    @property
    def kept_in(self) -> str | None:
        return self._store_name

    def expire(self, context: NodeContext) -> None:
        store: ExpiringStoreImpl = context.store(self._store_name)
        key_bytes, stored, until = store.take_over()
        if context.forward is nowhere:
            return
        try:
            key, old = store.key_of(key_bytes), store.from_stored(stored)
        except Exception as error:
            context.on_error(error, None, None, until, None)
            return
        self._update(context)(key, key_bytes, None, old, until, None)

    def _bind_to_versions(self, context: NodeContext, store: VersionedStoreImpl) -> Push:
        late = LateRecords(context, EXPIRED_VERSION) if self.sends_late else None
        expired = partial(context.dropped, EXPIRED_VERSION) if late is None else late.miss
        versions = VersionedTable(context, store, self._send_old_values, expired)
        push = self.bind_to_store(context, versions, versions.update)
        return push if late is None else late.behind(push)

    def _true_old(self, context: NodeContext) -> bool:
        return self._emit_at_commit or (self.sends_true_old and not context.without_caches)

    def _rereads(self, store: Any) -> bool:
        """Says whether an old value is read from its bytes once more before it is sent, as Kafka Streams' caches do:
        a function that changes its aggregate in place has spoilt the one that it was given. It need not be right for a
        key whose old value is known."""
        return self._send_old_values and store.from_stored is not identity

    def _old_is_known(self, context: NodeContext) -> OldIsKnown | None:
        """Returns the function by which old values are known: a key whose update is held has its old value there. So
        may a node below."""
        return old_known_by(context.forward) if self._hold is None else self._hold.holds

    def _short_cut(self, context: NodeContext, store: Any) -> ShortCut | None:
        return None if self._emit_at_commit else short_cut(context.forward, store.writes_as)

    @abstractmethod
    def bind_to_store(self, context: NodeContext, store: Any, update: Update) -> Push:
        """Returns the push function, which calls ``update`` for each change of the table after writing it to the
        store."""

    def emit_held(self, context: NodeContext, limit: int) -> int:
        return 0 if self._held is None else self._held.emit(context, limit)

    @property
    def held_bytes(self) -> int:
        return 0 if self._held is None else self._held.bytes


class CountingOperator(StoredTableOperator):
    """A table of counts, which are counted up in place where its store has cells for them."""

    #: The place where counts are noted for the commit; ``None`` if they are not.
    _noted: Noted | None = None

    def _cells(self, context: NodeContext, store: Any) -> native.Cells | None:
        """Returns the cells to count in; ``None`` if the store has none, or a commit has more to send than a count and
        its time."""
        asked_more = (self._send_old_values or context.record_is_read) and context.forward is not nowhere
        return None if self._emit_at_commit and asked_more else store.cells

    def _start_holding(self, context: NodeContext, store: Any) -> None:
        if self._cells(context, store) is None:
            super()._start_holding(context, store)
        else:
            self._held, self._noted = hold_cells(store.writes_as, store.deleted_at, *self._told_as())

    @abstractmethod
    def _told_as(self) -> tuple[Callable[..., Any], tuple[int, int]]:
        """Returns the function that makes the sent key from the entry behind a cell. Also returns how many bytes the
        store's keys have before and behind the bytes of that key."""


class FoldingOperator(StoredTableOperator):
    """A table of what is folded of the values of a key."""

    hands_on_every_record = True

    def _fold(self, context: NodeContext, store: KeyValueStoreImpl, update: Update, **how: Any) -> Push:
        """Returns the push function; ``how`` it folds is described in ``native/compiled.pyi``."""
        is_bytes = store.from_stored is not identity
        cut = self._short_cut(context, store)
        return native.FoldPush(
            key_bytes=store.key_bytes,
            read=store.read,
            write=store.write,
            to_stored=store.to_stored,
            from_stored=store.from_stored if is_bytes else None,
            raw=None if store.raw is identity else store.raw,
            rereads=self._rereads(store),
            old_is_known=self._old_is_known(context),
            at_commit=self._emit_at_commit,
            topic=cut and cut.topic,
            emit=cut and cut.emit,
            update=update,
            on_error=context.on_error,
            dropped=partial(context.dropped, NULL_KEY_OR_VALUE),
            **how,
        )


class Aggregate(FoldingOperator):
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
        self._deleting = _WarnOnce(DELETES)

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        return self._fold(
            context,
            store,
            update,
            fold=self._aggregator,
            initializer=self._initializer,
            deleting=partial(self._deleting, context),
            # As in Kafka Streams: sent at once, a group's first update has the initial aggregate as its old value.
            true_old=self._true_old(context),
        )


class Reduce(FoldingOperator):
    """Combines the values of a key two by two; the first one is the first result."""

    def __init__(
        self, reducer: Callable[[Any, Any], Any], store_name: str, emit_at_commit: bool, send_old_values: bool
    ) -> None:
        super().__init__(store_name, emit_at_commit, send_old_values)
        self._reducer = reducer

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        return self._fold(context, store, update, fold=self._reducer, initializer=None, deleting=None, true_old=False)


class Count(CountingOperator):
    """Counts the records of a key. It is the leanest of the aggregations, as it is used most."""

    hands_on_every_record = True

    def _told_as(self) -> tuple[Callable[..., Any], tuple[int, int]]:
        return identity, (0, 0)

    def bind_to_store(self, context: NodeContext, store: KeyValueStoreImpl, update: Update) -> Push:
        cells = self._cells(context, store)
        if cells is None:
            counting = Aggregate(lambda: 0, _add_one, self._store_name, self._emit_at_commit, self._send_old_values)
            counting.sends_true_old = self.sends_true_old
            return counting.bind_to_store(context, store, update)
        cut = self._short_cut(context, store)
        return native.CountPush(
            cells=cells,
            serialize_key=store.key_bytes,
            keeps_bytes=store.key_bytes is native.require_bytes,
            on_error=context.on_error,
            dropped=partial(context.dropped, NULL_KEY_OR_VALUE),
            topic=cut and cut.topic,
            emit=cut and cut.emit,
            noted=self._noted and self._noted.cells,
            noted_headers=self._noted and self._noted.headers,
            forward=None if self._emit_at_commit or context.forward is nowhere else context.forward,
            old_values=self._send_old_values,
            none_at_first=self._true_old(context),
        )


def _add_one(key: Any, value: Any, count: int) -> int:
    return count + 1
