"""``StreamsBuilder``: a program of the DSL begins with it, and becomes a ``Topology`` through it.

User code calls this on its own thread, before the runtime starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from streamsapp.config.topology_optimization import (
    ALL,
    MERGE_REPARTITION_TOPICS,
    NONE,
    REUSE_KTABLE_SOURCE_TOPICS,
    SINGLE_STORE_SELF_JOIN,
    optimization_fault,
    optimizations_of,
)
from streamsapp.dsl.arity import require
from streamsapp.dsl.fitting import fitting
from streamsapp.dsl.global_table import GlobalKTable
from streamsapp.dsl.graph import LogicalGraph
from streamsapp.dsl.kstream import KStream
from streamsapp.dsl.ktable import KTable
from streamsapp.dsl.late import Late, send_old_versions
from streamsapp.dsl.nodes import (
    GlobalStoreNode,
    GlobalTableNode,
    ReadOnlyStoreNode,
    StoreNode,
    StreamSourceNode,
    TableSourceNode,
)
from streamsapp.dsl.operators.tables import StoredTableSource
from streamsapp.dsl.optimizer import (
    join_over_one_store,
    merge_duplicate_sources,
    merge_repartition_topics,
    reuse_table_source_topics,
)
from streamsapp.dsl.options import Consumed, Materialized
from streamsapp.dsl.place import Place
from streamsapp.dsl.table_store import refuse_ttl, table_store
from streamsapp.dsl.table_supplier import TableSource
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.processor.api import Processor
from streamsapp.state.api import StoreBuilder
from streamsapp.topology.builder import Topology
from streamsapp.topology.name_rules import check_read_only_store, check_store_builder, topic_name

K = TypeVar("K")
V = TypeVar("V")


class StreamsBuilder(JavaNames):
    """Builds a program of streams and tables (KIP-28, and Kafka Streams' ``StreamsBuilder``).

    All methods raise ``TopologyError`` for names that Kafka refuses or that are taken, and for options of a wrong type.
    """

    def __init__(self) -> None:
        self._graph = LogicalGraph()
        self._names = self._graph.names

    def stream(
        self, topics: str | Iterable[str] | re.Pattern[str], consumed: Consumed[K, V] | None = None
    ) -> KStream[K, V]:
        """Reads a topic, several topics, or every topic whose whole name matches a compiled pattern, and returns the
        records as a ``KStream``. Topics that match later are read from then on, with all records they have, and topics
        that are deleted are left; ``metadata.max.age.ms`` bounds how late that is noticed."""
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
        *,
        late: Late[K, V] | None = None,
    ) -> KTable[K, V]:
        """Reads a topic as a ``KTable``: each record is an update of the row with its key, and a record without a value
        deletes it. ``late`` says where records go that are older than the history of a versioned table."""
        topic = topic_name("table", topic)
        options, wanted = _table_options(consumed, materialized)
        store = table_store(self._names, f"{topic}-", wanted, None, None)
        source, name = self._table_names(options)
        table = TableSource(store)
        node = TableSourceNode(source, name, topic, options, table)
        self._graph.add(node)
        place = Place(self._graph, node, name, options.key_serde, options.value_serde)
        send_old_versions("table", late, place, table)
        return KTable(place, table)

    def global_table(
        self,
        topic: str,
        consumed: Consumed[K, V] | Materialized[K, V] | None = None,
        materialized: Materialized[K, V] | None = None,
    ) -> GlobalKTable[K, V]:
        """Reads all partitions of a topic as a table on every instance (KIP-99). The table always has a store, which is
        restored from the topic itself."""
        topic = topic_name("global_table", topic)
        options, wanted = _table_options(consumed, materialized)
        if wanted is not None and wanted.versioned is not None:
            raise TopologyError(f"global_table({topic!r}): a global table keeps no versions; leave versioned out")
        _no_idle_after(f"global_table({topic!r})", options)
        refuse_ttl(wanted, f"global_table({topic!r}) has the rows of its topic; leave ttl out, and delete rows there")
        store = table_store(self._names, f"{topic}-", wanted, None, None)
        source, name = self._table_names(options)
        keep = partial(StoredTableSource, store.name, emit_at_commit=False, send_old_values=False)
        self._graph.add(GlobalTableNode(store.builder, source, name, topic, options, keep))
        return GlobalKTable(store)

    def add_state_store(self, store: StoreBuilder) -> StreamsBuilder:
        """Adds a store that processors use by its name; ``KStream.process`` and ``transform_values`` connect to it."""
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
        """Adds a store that every instance fills from all partitions of a topic, through the processor that
        ``supplier`` makes (KIP-233).

        The processor sees every record, including records that restore the store; every other processor can read it.
        """
        check_store_builder("add_global_store", store)
        require("add_global_store", consumed, Consumed, "Consumed(key_serde, value_serde)")
        topic = topic_name("add_global_store", topic)
        _no_idle_after(f"add_global_store({store.name!r})", consumed)
        source, name = self._table_names(consumed)
        self._graph.add(GlobalStoreNode(store, source, name, topic, consumed, supplier))
        return self

    def add_read_only_state_store(
        self,
        store: StoreBuilder,
        topic: str,
        consumed: Consumed[Any, Any],
        supplier: Callable[[], Processor],
    ) -> StreamsBuilder:
        """Adds a store that each task fills from its partition of a topic, through the processor that ``supplier``
        makes; the topic restores the store, which logs nothing (KIP-813).

        ``KStream.process`` connects to it by its name, and must not write. Its nodes are named after it, or by
        ``consumed``; Kafka Streams has this on ``Topology`` alone. Raises ``TopologyError`` for a builder that
        configures a changelog.
        """
        check_read_only_store("add_read_only_state_store", store)
        require("add_read_only_state_store", consumed, Consumed, "Consumed(key_serde, value_serde)")
        topic = topic_name("add_read_only_state_store", topic)
        if consumed.offset_reset not in (None, "earliest"):
            raise TopologyError(
                f"add_read_only_state_store({store.name!r}): its topic is read from the beginning; "
                f"leave offset_reset={consumed.offset_reset!r} out"
            )
        _no_idle_after(f"add_read_only_state_store({store.name!r})", consumed)
        source, name = f"{consumed.name or store.name}-source", consumed.name or f"{store.name}-processor"
        self._graph.add(ReadOnlyStoreNode(store, source, name, topic, consumed, supplier))
        return self

    def _table_names(self, consumed: Consumed[Any, Any]) -> tuple[str, str]:
        """The names of the source and of the node that keeps what the source reads."""
        source = self._names.named(consumed.name, "KSTREAM-SOURCE-", suffix="-source")
        return source, self._names.named(consumed.name, "KTABLE-SOURCE-")

    def build(self, *, optimize: bool | str = False) -> Topology:
        """Returns the topology of everything that was built so far.

        With ``optimize`` tables use their source topics as changelogs (``reuse.ktable.source.topics``). One repartition
        topic takes the place of several that follow the same change of key (``merge.repartition.topics``). A stream
        that is joined with itself is kept once (``single.store.self.join``). A text chooses among them as
        ``topology.optimization`` does: ``none``, ``all``, or those names with commas between them. The option changes
        the names of topics, so decide before the first deployment.

        Raises ``TopologyError`` for a program that cannot run, with the line that added the node at fault.
        """
        wanted = _optimizations(optimize)
        merge_duplicate_sources(self._graph)
        reuse_table_source_topics(self._graph, REUSE_KTABLE_SOURCE_TOPICS in wanted)
        if MERGE_REPARTITION_TOPICS in wanted:
            merge_repartition_topics(self._graph)
        if SINGLE_STORE_SELF_JOIN in wanted:
            join_over_one_store(self._graph)
        topology = Topology()
        topology.optimized = wanted
        self._graph.write(topology)
        topology.generated_names = frozenset(self._names.resources)
        return topology


def _optimizations(optimize: bool | str) -> frozenset[str]:
    wanted = (ALL if optimize else NONE) if isinstance(optimize, bool) else optimize
    fault = optimization_fault(wanted)
    if fault is not None:
        raise TopologyError(f"build(optimize=...): {fault}")
    return optimizations_of(wanted)


def _table_options(
    consumed: Consumed[K, V] | Materialized[K, V] | None, materialized: Materialized[K, V] | None
) -> tuple[Consumed[K, V], Materialized[K, V]]:
    """Sorts the two options of ``table`` by their class: either may be left out. The serdes of one serve where the
    other has none, those of ``consumed`` first."""
    if isinstance(consumed, Materialized):
        consumed, materialized = None, consumed
    require("table", consumed, Consumed, "Consumed(key_serde, value_serde)")
    require("table", materialized, Materialized, "Materialized(store_name)")
    wanted: Materialized[K, V] = materialized or Materialized()
    options: Consumed[K, V] = consumed or Consumed()
    fitting("table", options.key_serde, wanted.key_serde, "Materialized", "key_serde")
    fitting("table", options.value_serde, wanted.value_serde, "Materialized", "value_serde")
    key_serde = options.key_serde or wanted.key_serde
    value_serde = options.value_serde or wanted.value_serde
    options = replace(options, key_serde=key_serde, value_serde=value_serde)
    return options, replace(wanted, key_serde=key_serde, value_serde=value_serde)


def _subscription(topics: str | Iterable[str] | re.Pattern[str]) -> tuple[str, ...] | re.Pattern[str]:
    if isinstance(topics, re.Pattern):
        return topics
    given = topics if isinstance(topics, Iterable) and not isinstance(topics, str | bytes) else (topics,)
    names = tuple(dict.fromkeys(topic_name("stream", topic) for topic in given))
    if not names:
        raise TopologyError("stream needs at least one topic")
    return names


def _no_idle_after(what: str, consumed: Consumed[Any, Any]) -> None:
    """Raises ``TopologyError`` for a source of a store that no time of a task belongs to."""
    if consumed.idle_after is not None:
        raise TopologyError(f"{what}: nothing below it waits for time; leave idle_after={consumed.idle_after!r} out")
