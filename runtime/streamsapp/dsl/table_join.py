"""Builds the joins of two tables with the same keys.

Called by ``KTable`` on the thread that builds the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.fitting import same_keys
from streamsapp.dsl.graph import GraphNode
from streamsapp.dsl.operators.stateless import PassThrough
from streamsapp.dsl.operators.table_join import JoinTables, StoreJoined
from streamsapp.dsl.operators.table_views import JoinedView, StoredView, TableView
from streamsapp.dsl.options import Emit, Materialized, Named, table_options
from streamsapp.dsl.place import Place
from streamsapp.dsl.table_store import TableStore, table_store
from streamsapp.dsl.table_supplier import TableSupplier
from streamsapp.processor.operator import Operator
from streamsapp.state.api import StoreBuilder

if TYPE_CHECKING:
    from streamsapp.topology.builder import Topology

TableJoinType: TypeAlias = Literal["join", "left_join", "outer_join"]

_MERGE = "KTABLE-MERGE-"


class TableSide(NamedTuple):
    """A table that is joined, or the result of a join."""

    place: Place
    table: TableSupplier


class JoinedTable(TableSupplier):
    """A join of two tables. It has a store only when one is wanted; otherwise its rows are looked up in both tables."""

    def __init__(
        self,
        join: TableJoinType,
        left: TableSupplier,
        right: TableSupplier,
        joiner: Callable[[Any, Any], Any],
        store: TableStore | None,
    ) -> None:
        self._left = left
        self._right = right
        self._joiner = joiner
        self._store = store
        self._own_emit = None if store is None else store.emit
        self._left_required, self._right_required = join != "outer_join", join == "join"
        # Without, it would not be known whether a row that is deleted on one side was joined before.
        if not self._right_required:
            left.enable_sending_old_values(force=True)
        if not self._left_required:
            right.enable_sending_old_values(force=True)

    def __call__(self) -> Operator:
        if self._store is None:
            return PassThrough()
        return StoreJoined(self._store.name, self._store.emit_at_commit, self.send_old_values)

    def join_left(self) -> Operator:
        """Returns the operator for changes of the left table."""
        return JoinTables(
            self._right.view(), self._joiner, self._left_required, self._right_required, self.send_old_values
        )

    def join_right(self) -> Operator:
        """Returns the operator for changes of the right table."""
        joiner = self._joiner
        return JoinTables(
            self._left.view(),
            lambda right, left: joiner(left, right),
            self._right_required,
            self._left_required,
            self.send_old_values,
        )

    def stores(self) -> tuple[StoreBuilder, ...]:
        return () if self._store is None else (self._store.builder,)

    def enable_sending_old_values(self, force: bool) -> bool:
        self._left.enable_sending_old_values(force=True)
        self._right.enable_sending_old_values(force=True)
        self.send_old_values = True
        return True

    def send_true_old_values(self) -> None:
        self._left.send_true_old_values()
        self._right.send_true_old_values()

    @property
    def history_ms(self) -> int | None:
        return None if self._store is None else self._store.history_ms

    @property
    def holds_updates(self) -> bool:
        if self._store is not None:
            return self._store.emit_at_commit
        return self._left.holds_updates or self._right.holds_updates

    @property
    def emit(self) -> Emit | None:
        return self._own_emit or ("update" if "update" in (self._left.emit, self._right.emit) else None)

    def view(self) -> TableView:
        if self._store is not None:
            return StoredView(self._store.name)
        left, right = self._left.view(), self._right.view()
        return JoinedView(left, right, self._joiner, self._left_required, self._right_required)


class _TableJoinNode(GraphNode):
    """Joins the changes of both tables, and merges the results."""

    def __init__(self, name: str, this: str, other: str, left: TableSide, right: TableSide, table: JoinedTable) -> None:
        super().__init__(name)
        self._this = this
        self._other = other
        self._left = left.place.name
        self._right = right.place.name
        self._table = table
        self._left_stores = left.table.view().store_names
        self._right_stores = right.table.view().store_names

    def write(self, topology: Topology) -> None:
        topology.add_processor(self._this, self._table.join_left, self._left)
        topology.add_processor(self._other, self._table.join_right, self._right)
        topology.add_processor(self.name, self._table, self._this, self._other)
        topology.connect_processor_and_state_stores(self._this, *self._right_stores)
        topology.connect_processor_and_state_stores(self._other, *self._left_stores)


def join_by_key(
    join: TableJoinType,
    left: TableSide,
    right: TableSide,
    joiner: Callable[[Any, Any], Any],
    *options: Named | str | Materialized[Any, Any],
    named: Named | str | None = None,
    materialized: Materialized[Any, Any] | None = None,
) -> TableSide:
    """Joins two tables with the same keys; ``joiner`` is given ``(left row, right row)``."""
    require_arity(join, joiner, "left", "right")
    base, materialized = table_options(join, options, named, materialized)
    same_keys(join, left.place.key_serde, right.place.key_serde)
    graph, key_serde = left.place.graph, left.place.key_serde
    names = graph.names
    store = None if materialized is None else table_store(names, _MERGE, materialized, key_serde, None)
    name = names.named(base, _MERGE)
    table = JoinedTable(join, left.table, right.table, joiner, store)
    this = names.named(base, "KTABLE-JOINTHIS-", suffix="-join-this")
    other = names.named(base, "KTABLE-JOINOTHER-", suffix="-join-other")
    node = _TableJoinNode(name, this, other, left, right, table)
    graph.add(node, left.place.node, right.place.node)
    graph.copartition(node)
    if store is None:
        return TableSide(Place(graph, node, name, key_serde), table)
    return TableSide(Place(graph, node, name, store.key_serde, store.value_serde), table)
