"""``KGroupedTable``: a table whose rows are grouped anew, to be aggregated into another table.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.names import REPARTITION_SUFFIX
from streamsapp.dsl.nodes import AggregationNode, TableRepartitionNode
from streamsapp.dsl.operators.table_groups import AggregateTable
from streamsapp.dsl.options import Grouped, Materialized, Named, table_options
from streamsapp.dsl.place import Place
from streamsapp.dsl.table_store import TableStore, refuse_ttl, table_store
from streamsapp.dsl.table_supplier import AggregatedTable, MakeStored
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")

_AGGREGATE = "KTABLE-AGGREGATE-"


class KGroupedTable(JavaNames, Generic[K, V]):
    """A table whose rows are grouped by another key. An update of a row is subtracted from its old group, then added to
    its new one."""

    def __init__(self, place: Place, grouped: Grouped[K, V]) -> None:
        if grouped.combine:
            raise TopologyError("a grouped table cannot combine before its repartition topic; leave combine=True out")
        self._place = place
        self._names = place.graph.names
        self._topic_name = grouped.name
        self._repartition: TableRepartitionNode | None = None

    def count(
        self,
        *options: Named | str | Materialized[K, int],
        named: Named | str | None = None,
        materialized: Materialized[K, int] | None = None,
    ) -> KTable[K, int]:
        """Counts the rows of each group, and returns the table of counts, which are ``int`` with ``Serdes.long()``.

        ``named`` names the node, ``materialized`` the store. Raises ``TopologyError`` for options that contradict each
        other.
        """
        name, store = self._options("count", options, named, materialized, Serdes.long())
        make = partial(
            AggregateTable,
            lambda group, row: 1,
            lambda group, row, count: count + 1,
            lambda group, row, count: count - 1,
        )
        return self._aggregated(name, _AGGREGATE, store, make)

    def reduce(
        self,
        adder: Callable[[V, V], V | None],
        subtractor: Callable[[V, V], V | None],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[K, V]:
        """Combines the rows of each group with ``adder(aggregate, row)`` and ``subtractor(aggregate, row)``.

        A function that returns ``None`` deletes the group. Raises ``TopologyError`` for functions with other arguments.
        """
        require_arity("reduce's adder", adder, "aggregate", "row")
        require_arity("reduce's subtractor", subtractor, "aggregate", "row")
        name, store = self._options("reduce", options, named, materialized, self._place.value_serde)
        make = partial(
            AggregateTable,
            lambda group, row: row,
            lambda group, row, aggregate: adder(aggregate, row),
            lambda group, row, aggregate: subtractor(aggregate, row),
        )
        return self._aggregated(name, "KTABLE-REDUCE-", store, make)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        adder: Callable[[K, V, VR], VR | None],
        subtractor: Callable[[K, V, VR], VR | None],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]:
        """Folds the rows of each group, beginning with ``initializer()``.

        ``adder`` and ``subtractor`` are given ``(key, row, aggregate)``; a function that returns ``None`` deletes the
        group. Raises ``TopologyError`` for functions with other arguments.
        """
        require_arity("aggregate's initializer", initializer)
        require_arity("aggregate's adder", adder, "key", "row", "aggregate")
        require_arity("aggregate's subtractor", subtractor, "key", "row", "aggregate")
        name, store = self._options("aggregate", options, named, materialized, None)
        make = partial(AggregateTable, lambda group, row: adder(group, row, initializer()), adder, subtractor)
        return self._aggregated(name, _AGGREGATE, store, make)

    def _options(
        self,
        operation: str,
        options: tuple[Named | str | Materialized[Any, Any], ...],
        named: Named | str | None,
        materialized: Materialized[Any, Any] | None,
        value_serde: AnySerde | None,
    ) -> tuple[str | None, TableStore]:
        name, materialized = table_options(operation, options, named, materialized)
        refuse_ttl(
            materialized,
            f"{operation} of grouped rows would forget what they added, and subtract them later all the same; give the "
            "ttl to the table whose rows are grouped",
        )
        return name, table_store(self._names, _AGGREGATE, materialized, self._place.key_serde, value_serde)

    def _aggregated(self, name: str | None, prefix: str, store: TableStore, make: MakeStored) -> KTable[K, Any]:
        sink = self._names.named(name, "KSTREAM-SINK-", suffix="-sink")
        source = self._names.named(name, "KSTREAM-SOURCE-", suffix="-source")
        name = self._names.named(name, prefix)
        key_serde, value_serde = self._place.key_serde, self._place.value_serde
        # A topic that the user named serves all aggregations of this group.
        if self._repartition is None or self._topic_name is None:
            given = self._topic_name is not None or store.queryable
            topic = self._names.resource((self._topic_name or store.name) + REPARTITION_SUFFIX, given=given)
            self._repartition = TableRepartitionNode(sink, source, topic, key_serde, value_serde)
        place = self._place.then(self._repartition, key_serde, value_serde, key_changed=False)
        table = AggregatedTable(store, make)
        place = place.then(AggregationNode(name, table), store.key_serde, store.value_serde, key_changed=False)
        return KTable(place, table)
