"""Builds the joins of a stream with a table, and with a global one.

Called by ``KStream`` on the thread that builds the program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from streamsapp.dsl.arity import keys_taken, require, require_arity
from streamsapp.dsl.fitting import fit_place, same_keys
from streamsapp.dsl.join_options import Joined
from streamsapp.dsl.join_side import JoinSide
from streamsapp.dsl.nodes import ProcessorGraphNode
from streamsapp.dsl.operators.stream_table_join import JoinAfterGrace, JoinWithTable
from streamsapp.dsl.operators.table_views import StoredView, TableView
from streamsapp.dsl.options import Named, name_of
from streamsapp.dsl.place import Place
from streamsapp.dsl.table_supplier import TableSupplier
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.processor.operator import Operator
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.kinds.grace_buffer import GraceType

JoinType: TypeAlias = Literal["join", "left_join"]


class TableJoinNode(ProcessorGraphNode):
    """Joins a stream with a table; the table is no parent of the node."""

    def __init__(self, name: str, joining: Joining, stores: tuple[str, ...]) -> None:
        super().__init__(name, joining, stores)
        self.takes_null_keys = joining.left
        # A join with a global table leaves a changed key as it is: the stream is repartitioned below it, or not at all.
        self.changes_value = joining.selector is not None


@dataclass(frozen=True)
class Joining:
    """Makes the operators of a join, and brings the buffer of one that has a grace."""

    view: Callable[[], TableView]
    joiner: Callable[..., Any]
    #: The joiner is given none, the record's key, or that and the row's.
    keys: int
    left: bool
    selector: Callable[[Any, Any], Any] | None = None
    buffer: StoreBuilder | None = None
    after_grace: type[JoinAfterGrace] = JoinAfterGrace

    def __call__(self) -> Operator:
        if self.buffer is None:
            return JoinWithTable(self.view(), self.selector, self.joiner, self.keys, self.left)
        grace_ms = self.waits_for_late_ms
        assert grace_ms is not None
        return self.after_grace(self.view(), self.joiner, self.keys, self.left, self.buffer.name, grace_ms)

    @property
    def waits_for_late_ms(self) -> int | None:
        """The grace, in milliseconds, if there is one."""
        return (
            self.buffer.type.grace_ms if self.buffer is not None and isinstance(self.buffer.type, GraceType) else None
        )

    def stores(self) -> tuple[StoreBuilder, ...]:
        return () if self.buffer is None else (self.buffer,)


def join_with_table(
    side: JoinSide,
    join: JoinType,
    table_place: Place,
    table: TableSupplier,
    joiner: Callable[..., Any],
    joined: Joined[Any, Any, Any] | None = None,
) -> Place:
    """Joins a stream with a table of the same keys."""
    require(join, joined, Joined, "Joined(key_serde, value_serde)")
    options = joined or Joined[Any, Any, Any]()
    if table_place.graph is not side.place.graph:
        raise TopologyError(f"{join}: the table comes from another StreamsBuilder; build both with one")
    fit_place(join, side.place, options.key_serde, options.value_serde, "Joined")
    place = side.repartitioned(options.name, options.key_serde, options.value_serde)
    same_keys(join, place.key_serde, table_place.key_serde)
    names = place.graph.names
    name = names.named(options.name, "KSTREAM-LEFTJOIN-" if join == "left_join" else "KSTREAM-JOIN-")
    buffer = None
    if options.grace is not None:
        buffer = grace_buffer(place, name, options, _grace(join, options.grace, table))
    keys = keys_taken(join, joiner, ("key",), "value", "row")
    joining = Joining(table.view, joiner, keys, join == "left_join", buffer=buffer)
    node = TableJoinNode(name, joining, table.view().store_names)
    place.graph.copartition(node, table_place.node)
    return place.then(node, options.key_serde or place.key_serde, None, key_changed=False)


def join_with_global_table(
    side: JoinSide,
    join: JoinType,
    store_name: str,
    key_selector: Callable[[Any, Any], Any],
    joiner: Callable[..., Any],
    named: Named | str | None = None,
) -> Place:
    """Joins a stream with a global table, by the key that the selector gives for each record; the joiner may want that
    key, too (KIP-1340)."""
    require_arity(f"{join}'s key_selector", key_selector, "key", "value")
    place = side.place
    name = place.graph.names.named(name_of(named), "KSTREAM-LEFTJOIN-")
    keys = keys_taken(join, joiner, ("key", "row_key"), "value", "row")
    joining = Joining(lambda: StoredView(store_name), joiner, keys, join == "left_join", key_selector)
    node = TableJoinNode(name, joining, ())
    return place.then(node, place.key_serde, None, key_changed=place.key_changed)


def grace_buffer(place: Place, name: str, options: Joined[Any, Any, Any], kind: GraceType) -> StoreBuilder:
    """Returns the store of records that wait in front of a join."""
    store_name = place.graph.names.resource(f"{name}-Buffer", given=options.name is not None)
    serdes = options.key_serde or place.key_serde, options.value_serde or place.value_serde
    return StoreBuilder(store_name, kind, Engine.ROCKSDB, *serdes)


def _grace(join: JoinType, grace: Duration, table: TableSupplier) -> GraceType:
    """Refuses what the table cannot answer: it has to know what it had when the grace is over."""
    grace_ms, history_ms = duration_ms(grace), table.history_ms
    if grace_ms < 0:
        raise TopologyError(f"{join}: Joined(grace={grace_ms} ms): a grace is not negative")
    if history_ms is None:
        raise TopologyError(
            f"{join}: Joined(grace={grace_ms} ms) needs a table that keeps versions; give it "
            "Materialized(store_name, versioned=...), or leave grace out"
        )
    if grace_ms > history_ms:
        raise TopologyError(
            f"{join}: Joined(grace={grace_ms} ms) is longer than the table keeps versions, {history_ms} ms; raise "
            "versioned of its Materialized, or shorten the grace"
        )
    return GraceType(grace_ms)
