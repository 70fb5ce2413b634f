"""``StreamsBuilder``: where a program of the DSL begins, and where it becomes a ``Topology``.

User code calls this on its own thread, before the runtime starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from streamsapp.dsl.arity import require
from streamsapp.dsl.global_table import GlobalKTable
from streamsapp.dsl.graph import LogicalGraph
from streamsapp.dsl.handle import Place
from streamsapp.dsl.kstream import KStream
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.nodes import GlobalStoreNode, StoreNode, StreamSourceNode, TableSourceNode
from streamsapp.dsl.operators.tables import StoredTableSource
from streamsapp.dsl.optimizer import (
    join_over_one_store,
    merge_duplicate_sources,
    merge_repartition_topics,
    reuse_table_source_topics,
)
from streamsapp.dsl.options import Consumed, Materialized
from streamsapp.dsl.stores import table_store
from streamsapp.dsl.tables import TableSource
from streamsapp.errors import TopologyError
from streamsapp.processor.api import Processor
from streamsapp.state.api import StoreBuilder
from streamsapp.topology.builder import Topology
from streamsapp.topology.java_names import JavaNames
from streamsapp.topology.name_rules import check_store_builder

K = TypeVar("K")
V = TypeVar("V")


class StreamsBuilder(JavaNames):
    """Builds a program of streams and tables."""

    def __init__(self) -> None:
        self._graph = LogicalGraph()
        self._names = self._graph.names

    def stream(
        self, topics: str | Iterable[str] | re.Pattern[str], consumed: Consumed[K, V] | None = None
    ) -> KStream[K, V]:
        """Reads a topic, several topics, or every topic whose whole name matches a pattern, as a stream."""
        require("stream", consumed, Consumed, "Consumed(key_serde, value_serde)")
        options: Consumed[K, V] = consumed or Consumed()
        name = self._names.named(options.name, "KSTREAM-SOURCE-")
        node = StreamSourceNode(name, _subscription(topics), options)
        self._graph.add(node)
        return KStream(Place(self._graph, node, name, options.key_serde, options.value_serde))

    def table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> KTable[K, V]:
        """Reads a topic as a table: its records are updates of rows."""
        options, wanted = _table_options(consumed, materialized)
        store = table_store(self._names, f"{topic}-", wanted, None, None, may_be_versioned=True)
        source, name = self._table_names(options)
        table = TableSource(store)
        node = TableSourceNode(source, name, topic, options, table)
        self._graph.add(node)
        return KTable(Place(self._graph, node, name, options.key_serde, options.value_serde), table)

    def global_table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> GlobalKTable[K, V]:
        """Reads a whole topic as a table on every instance. It always has a store, which the topic itself restores."""
        options, wanted = _table_options(consumed, materialized)
        store = table_store(self._names, f"{topic}-", wanted, None, None)
        source, name = self._table_names(options)
        keep = partial(StoredTableSource, store.name, emit_at_commit=False, send_old_values=False)
        self._graph.add(GlobalStoreNode(store.builder, source, name, topic, options, keep, reprocess_on_restore=False))
        return GlobalKTable(store)

    def add_state_store(self, store: StoreBuilder) -> StreamsBuilder:
        """Adds a store for processors to use by name."""
        check_store_builder("add_state_store", store)
        self._graph.add(StoreNode(store))
        return self

    def add_global_store(
        self,
        store: StoreBuilder,
        topic: str,
        consumed: Consumed[Any, Any],
        supplier: Callable[[], Processor],
    ) -> StreamsBuilder:
        """Adds a store that every instance fills from all of a topic, through the supplier's processor.

        The processor sees every record, those that restore the store included; every other processor can read it.
        """
        check_store_builder("add_global_store", store)
        require("add_global_store", consumed, Consumed, "Consumed(key_serde, value_serde)")
        source, name = self._table_names(consumed)
        self._graph.add(GlobalStoreNode(store, source, name, topic, consumed, supplier, reprocess_on_restore=True))
        return self

    def _table_names(self, consumed: Consumed[Any, Any]) -> tuple[str, str]:
        """Of the source and of the node that keeps what it reads."""
        source = self._names.named(consumed.name, "KSTREAM-SOURCE-", suffix="-source")
        return source, self._names.named(consumed.name, "KTABLE-SOURCE-")

    def build(self, *, optimize: bool = False) -> Topology:
        """The topology of everything that was built so far.

        ``optimize`` lets tables use their source topics as changelogs, puts one repartition topic where several would
        follow the same change of key, and keeps a stream once that is joined with itself. It changes the names of
        topics: decide before the first deployment.
        """
        merge_duplicate_sources(self._graph)
        reuse_table_source_topics(self._graph, optimize)
        if optimize:
            merge_repartition_topics(self._graph)
            join_over_one_store(self._graph)
        topology = Topology()
        topology.optimized = optimize
        self._graph.write(topology)
        return topology


def _table_options(
    consumed: Consumed[K, V] | Materialized[K, V] | None, materialized: Materialized[K, V] | None
) -> tuple[Consumed[K, V], Materialized[K, V]]:
    """Either may be left out; the serdes of either serve both, those of ``consumed`` first."""
    if isinstance(consumed, Materialized):
        consumed, materialized = None, consumed
    require("table", consumed, Consumed, "Consumed(key_serde, value_serde)")
    require("table", materialized, Materialized, "Materialized(store_name)")
    wanted: Materialized[K, V] = materialized or Materialized()
    options: Consumed[K, V] = consumed or Consumed()
    key_serde = options.key_serde or wanted.key_serde
    value_serde = options.value_serde or wanted.value_serde
    options = replace(options, key_serde=key_serde, value_serde=value_serde)
    return options, replace(wanted, key_serde=key_serde, value_serde=value_serde)


def _subscription(topics: str | Iterable[str] | re.Pattern[str]) -> tuple[str, ...] | re.Pattern[str]:
    if isinstance(topics, re.Pattern):
        return topics
    names = (topics,) if isinstance(topics, str) else tuple(dict.fromkeys(topics))
    if not names:
        raise TopologyError("stream needs at least one topic")
    return names
