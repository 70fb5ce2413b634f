"""Makes each table's operator for every task, and knows whether the table keeps a store.

Whether a table needs a store, and whether its changes must carry old values, depends on what is built below it. So
these are settled only while the program is built: a table that needs old values asks its parent, which asks its own.
The operators are made later from what was settled then. Called on the user's thread; the calls that make operators
come from the thread that creates tasks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeAlias

from streamsapp.dsl.operators.aggregate import StoredTableOperator
from streamsapp.dsl.operators.stateless import PassThrough
from streamsapp.dsl.operators.table_views import StoredView, TableView
from streamsapp.dsl.operators.tables import StoredTableSource, UnstoredTableSource
from streamsapp.dsl.options import Emit
from streamsapp.dsl.table_store import TableStore
from streamsapp.processor.operator import Operator
from streamsapp.state.api import StoreBuilder

#: ``(store_name, emit_at_commit, send_old_values)``: makes the operator of a table with a store.
MakeStored: TypeAlias = Callable[[str, bool, bool], Operator]

#: ``(send_old_values)``: makes the operator of a table without one.
MakeUnstored: TypeAlias = Callable[[bool], Operator]

#: Makes the view of a table: of its store, or of the table it is computed from.
MakeStoredView: TypeAlias = Callable[[str], TableView]
MakeComputedView: TypeAlias = Callable[[TableView], TableView]


class TableSupplier(ABC):
    """Makes the operators of a table. Handed to the topology as the supplier of the table's node."""

    send_old_values = False
    #: Drops records that are later than this, in milliseconds of stream time; ``None``: none is too late.
    waits_for_late_ms: int | None = None
    #: Says whether records that come too late go aside.
    sends_late = False

    @abstractmethod
    def __call__(self) -> Operator:
        """Makes an operator for one task."""

    @abstractmethod
    def stores(self) -> tuple[StoreBuilder, ...]:
        """Returns the store that the operator keeps the table in, if there is one."""

    @abstractmethod
    def enable_sending_old_values(self, force: bool) -> bool:
        """Makes changes carry old values; with ``force`` even if that takes a store that is not there yet.

        Returns whether they do from now on.
        """

    def send_true_old_values(self) -> None:  # noqa: B027 - those of most tables are
        """Makes old values the rows that were there, for groups that are combined."""

    @abstractmethod
    def view(self) -> TableView:
        """Returns a new view of the table's rows. It is asked for while the program is built, and makes sure that there
        is a store to look into."""

    @property
    def holds_updates(self) -> bool:
        """Says whether the rows that :meth:`view` shows may be ahead of the changes that were sent, which wait for the
        commit."""
        return False

    @property
    @abstractmethod
    def emit(self) -> Emit | None:
        """The option of the same name, if the user gave it to this table or to one of its sources."""

    @property
    def history_ms(self) -> int | None:
        """The time in milliseconds for which the store below :meth:`view` keeps earlier values of its keys; ``None`` if
        it keeps no versions."""
        return None

    @property
    def versioned(self) -> bool:
        """Says whether operators below leave out changes that come after later ones, as those of versioned tables
        (KIP-914): the table keeps versions, or is derived from such a table and keeps nothing itself."""
        return self.history_ms is not None


class TableSource(TableSupplier):
    """A table read from a topic or made from a stream. It has a store when one is wanted, or needed below."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self._stored = store.wanted
        self.waits_for_late_ms = store.history_ms

    def __call__(self) -> Operator:
        if not self._stored:
            return UnstoredTableSource()
        made = StoredTableSource(self._store.name, self._store.emit_at_commit, self.send_old_values)
        made.sends_late = self.sends_late
        return made

    def stores(self) -> tuple[StoreBuilder, ...]:
        return (self._store.builder,) if self._stored else ()

    def enable_sending_old_values(self, force: bool) -> bool:
        if not force and not self._stored:
            return False
        self._stored = True
        self.send_old_values = True
        return True

    def view(self) -> TableView:
        self._stored = True
        return StoredView(self._store.name)

    @property
    def holds_updates(self) -> bool:
        return self._store.emit_at_commit

    @property
    def emit(self) -> Emit | None:
        return self._store.emit

    @property
    def history_ms(self) -> int | None:
        return self._store.history_ms


class AggregatedTable(TableSupplier):
    """The result of an aggregation; it always has a store."""

    def __init__(self, store: TableStore, make: MakeStored, view: MakeStoredView = StoredView) -> None:
        self._store = store
        self._make = make
        self._view = view
        self._sends_true_old = False
        self.waits_for_late_ms = store.history_ms
        #: Set when the program is built: its updates go through repartition topics into tables, and nowhere else.
        self.feeds_tables_only = False

    def __call__(self) -> Operator:
        made = self._make(self._store.name, self._store.emit_at_commit, self.send_old_values)
        if isinstance(made, StoredTableOperator):
            made.sends_true_old = self._sends_true_old
            made.combines = self.feeds_tables_only and self._store.emit is None
            made.sends_late = self.sends_late
        return made

    def stores(self) -> tuple[StoreBuilder, ...]:
        return (self._store.builder,)

    def enable_sending_old_values(self, force: bool) -> bool:
        self.send_old_values = True
        return True

    def send_true_old_values(self) -> None:
        self._sends_true_old = True

    def view(self) -> TableView:
        return self._view(self._store.name)

    @property
    def holds_updates(self) -> bool:
        return self._store.emit_at_commit

    @property
    def emit(self) -> Emit | None:
        return self._store.emit

    @property
    def history_ms(self) -> int | None:
        return self._store.history_ms


class MergedTable(TableSupplier):
    """Passes on the updates that several operators make to one table; their store is its store."""

    def __init__(self, parents: Sequence[AggregatedTable]) -> None:
        self._parents = parents

    def __call__(self) -> Operator:
        return PassThrough()

    def stores(self) -> tuple[StoreBuilder, ...]:
        return ()

    def enable_sending_old_values(self, force: bool) -> bool:
        for parent in self._parents:
            parent.enable_sending_old_values(force)
        return True

    def send_true_old_values(self) -> None:
        for parent in self._parents:
            parent.send_true_old_values()

    def view(self) -> TableView:
        return self._parents[0].view()

    @property
    def emit(self) -> Emit | None:
        return self._parents[0].emit

    @property
    def history_ms(self) -> int | None:
        return self._parents[0].history_ms


class DerivedTable(TableSupplier):
    """A table computed from another one, row by row. It has a store only when one is wanted."""

    #: True if the table carries old values from the beginning, if its parent can give them without a store of its own.
    uses_old_values = False

    def __init__(
        self,
        parent: TableSupplier,
        store: TableStore | None,
        make_stored: MakeStored,
        make_unstored: MakeUnstored,
        view: MakeComputedView,
        *,
        materialized: bool,
    ) -> None:
        self._parent = parent
        self._view = view
        self._materialized = materialized
        self._store = store if store is not None and store.wanted else None
        self._emit = None if store is None else store.emit
        self.waits_for_late_ms = None if self._store is None else self._store.history_ms
        self._make_stored = make_stored
        self._make_unstored = make_unstored
        if self.uses_old_values:
            self.send_old_values = parent.enable_sending_old_values(force=False)

    def __call__(self) -> Operator:
        if self._store is None:
            return self._make_unstored(self.send_old_values)
        return self._make_stored(self._store.name, self._store.emit_at_commit, self.send_old_values)

    def stores(self) -> tuple[StoreBuilder, ...]:
        return () if self._store is None else (self._store.builder,)

    def enable_sending_old_values(self, force: bool) -> bool:
        if self._store is not None or self._parent.enable_sending_old_values(force):
            self.send_old_values = True
        return self.send_old_values

    def send_true_old_values(self) -> None:
        if self._store is None:
            self._parent.send_true_old_values()

    def view(self) -> TableView:
        return self._view(self._parent.view()) if self._store is None else StoredView(self._store.name)

    @property
    def holds_updates(self) -> bool:
        return self._parent.holds_updates if self._store is None else self._store.emit_at_commit

    @property
    def emit(self) -> Emit | None:
        return self._emit or self._parent.emit

    @property
    def history_ms(self) -> int | None:
        return self._parent.history_ms if self._store is None else self._store.history_ms

    @property
    def versioned(self) -> bool:
        """A table that was given a ``Materialized`` and no store counts as one that keeps no versions, as in Kafka
        Streams."""
        if self._store is not None:
            return self._store.history_ms is not None
        return self._parent.versioned and not self._materialized


class FilteredTable(DerivedTable):
    """A filtered table. It uses old values if its parent can give them; without them, every value that is filtered out
    would have to be sent as a deletion."""

    uses_old_values = True
