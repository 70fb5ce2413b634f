"""Builds the joins of a stream with a table, and with a global one.

Called by ``KStream`` on the thread that builds the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from streamsapp.dsl.arity import require, require_arity, takes_key
from streamsapp.dsl.handle import Place
from streamsapp.dsl.joins import JoinSide
from streamsapp.dsl.nodes import ProcessorGraphNode
from streamsapp.dsl.operators.stream_table_join import JoinWithTable
from streamsapp.dsl.operators.table_views import StoredView, TableView
from streamsapp.dsl.options import Joined, Named, name_of
from streamsapp.dsl.tables import TableSupplier
from streamsapp.errors import TopologyError

JoinType: TypeAlias = Literal["join", "left_join"]


class _JoinNode(ProcessorGraphNode):
    """Joins a stream with a table, which is no parent of it."""

    def __init__(
        self,
        name: str,
        join: JoinType,
        make_view: Callable[[], TableView],
        selector: Callable[[Any, Any], Any] | None,
        joiner: Callable[..., Any],
        stores: tuple[str, ...],
    ) -> None:
        with_key, left = takes_key(join, joiner, "value", "row"), join == "left_join"
        super().__init__(name, lambda: JoinWithTable(make_view(), selector, joiner, with_key, left), stores)
        self.takes_null_keys = left


def join_with_table(
    side: JoinSide,
    join: JoinType,
    table_place: Place,
    table: TableSupplier,
    joiner: Callable[..., Any],
    joined: Joined[Any, Any, Any] | None = None,
) -> Place:
    """Of a stream and a table with the same keys."""
    require(join, joined, Joined, "Joined(key_serde, value_serde)")
    options = joined or Joined[Any, Any, Any]()
    if options.grace is not None:
        raise TopologyError(
            f"{join}: Joined(grace=...) is not there yet (KIP-923); leave it out. A versioned table is joined as of "
            "each record's timestamp without it, as far as the table has been read by then"
        )
    if table_place.graph is not side.place.graph:
        raise TopologyError(f"{join}: the table comes from another StreamsBuilder; build both with one")
    place = side.repartitioned(options.name, options.key_serde, options.value_serde)
    names = place.graph.names
    name = names.named(options.name, "KSTREAM-LEFTJOIN-" if join == "left_join" else "KSTREAM-JOIN-")
    node = _JoinNode(name, join, table.view, None, joiner, table.view().store_names)
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
    """Of a stream and a global table, by the key that the selector gives for each record."""
    require_arity(f"{join}'s key_selector", key_selector, "key", "value")
    place = side.place
    name = place.graph.names.named(name_of(named), "KSTREAM-LEFTJOIN-")
    node = _JoinNode(name, join, lambda: StoredView(store_name), key_selector, joiner, ())
    return place.then(node, place.key_serde, None, key_changed=place.key_changed)
