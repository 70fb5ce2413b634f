"""``KGroupedStream``: a stream grouped by key, to be aggregated into a table.

User code calls this while it builds a program, on its own thread; functions given here run on processing threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import add
from typing import Any, Generic, TypeVar

from streamsapp.dsl.arity import require_arity
from streamsapp.dsl.handle import Place
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.names import repartition_names
from streamsapp.dsl.nodes import ProcessorGraphNode, RepartitionNode
from streamsapp.dsl.operators.aggregate import Aggregate, Count, Reduce
from streamsapp.dsl.operators.combine import Merge
from streamsapp.dsl.options import Grouped, Materialized, Named, table_options
from streamsapp.dsl.stores import TableStore, table_store
from streamsapp.dsl.tables import AggregatedTable, MakeStored
from streamsapp.errors import TopologyError
from streamsapp.serdes.serdes import Serdes
from streamsapp.topology.java_names import JavaNames

K = TypeVar("K")
V = TypeVar("V")
VR = TypeVar("VR")

_AGGREGATE = "KSTREAM-AGGREGATE-"
_REDUCE = "KSTREAM-REDUCE-"


class KGroupedStream(JavaNames, Generic[K, V]):
    """Records grouped by key. Those without key or value count in no group."""

    def __init__(self, place: Place, grouped: Grouped[K, V]) -> None:
        self._place = place
        self._names = place.graph.names
        self._key_serde = grouped.key_serde or place.key_serde
        self._value_serde = grouped.value_serde or place.value_serde
        self._topic_name = grouped.name
        self._combine = grouped.combine
        self._repartition: RepartitionNode | None = None

    def count(
        self,
        *options: Named | str | Materialized[K, int],
        named: Named | str | None = None,
        materialized: Materialized[K, int] | None = None,
    ) -> KTable[K, int]:
        """Counts the records of each key."""
        name, materialized = table_options("count", options, named, materialized)
        if materialized is not None and materialized.store_name is None:
            self._names.store(_AGGREGATE)  # Kafka Streams uses up one number more here
        store = table_store(self._names, _AGGREGATE, materialized, self._key_serde, Serdes.long())
        name = self._names.named(name, _AGGREGATE)
        if self._combines():
            return self._aggregated(name, store, partial(Reduce, add), Merge(None))
        return self._aggregated(name, store, Count)

    def reduce(
        self,
        reducer: Callable[[V, V], V | None],
        *options: Named | str | Materialized[K, V],
        named: Named | str | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[K, V]:
        """Combines the values of each key with ``reducer(aggregate, value)``, beginning with the first value.

        ``None`` deletes the aggregate.
        """
        require_arity("reduce", reducer, "aggregate", "value")
        name, materialized = table_options("reduce", options, named, materialized)
        store = table_store(self._names, _REDUCE, materialized, self._key_serde, self._value_serde)
        name = self._names.named(name, _REDUCE)
        merge = Merge(reducer) if self._combines() else None
        return self._aggregated(name, store, partial(Reduce, reducer), merge)

    def aggregate(
        self,
        initializer: Callable[[], VR],
        aggregator: Callable[[K, V, VR], VR | None],
        *options: Named | str | Materialized[K, VR],
        named: Named | str | None = None,
        materialized: Materialized[K, VR] | None = None,
    ) -> KTable[K, VR]:
        """Folds the values of each key with ``aggregator(key, value, aggregate)``, starting from ``initializer()``.

        ``None`` deletes the aggregate.
        """
        require_arity("aggregate's initializer", initializer)
        require_arity("aggregate", aggregator, "key", "value", "aggregate")
        if self._combines():
            raise TopologyError("aggregate cannot combine before the repartition topic; use reduce, or combine=False")
        name, materialized = table_options("aggregate", options, named, materialized)
        store = table_store(self._names, _AGGREGATE, materialized, self._key_serde, None)
        name = self._names.named(name, _AGGREGATE)
        return self._aggregated(name, store, partial(Aggregate, initializer, aggregator))

    def _combines(self) -> bool:
        return self._combine and self._place.key_changed

    def _aggregated(self, name: str, store: TableStore, make: MakeStored, merge: Merge | None = None) -> KTable[K, Any]:
        table = AggregatedTable(store, make)
        place = self._place
        if place.key_changed:
            node = self._repartition_node(store, merge)
            place = place.then(node, self._key_serde, self._value_serde, key_changed=False)
        place = place.then(ProcessorGraphNode(name, table), store.key_serde, store.value_serde, key_changed=False)
        return KTable(place, table)

    def _repartition_node(self, store: TableStore, merge: Merge | None) -> RepartitionNode:
        """The topic in front of an aggregation. A topic that the user named serves all aggregations of this group."""
        names = repartition_names(self._names, self._topic_name or store.name)
        if self._repartition is not None and self._topic_name is not None:
            if merge is not None:
                raise TopologyError(
                    f"repartition topic {names.topic} holds the partial aggregates of one aggregation (combine=True); "
                    "group the stream again, under another name, for the next"
                )
            return self._repartition
        value_serde = Serdes.long() if merge is not None and merge.counts else self._value_serde
        self._repartition = RepartitionNode(names, self._key_serde, value_serde, optimizable=True, merge=merge)
        return self._repartition
