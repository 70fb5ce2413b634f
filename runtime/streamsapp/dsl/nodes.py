"""The kinds of nodes of the logical graph, each with the parts that it writes into the topology.

Made by the DSL's operators, written by ``StreamsBuilder.build``, on the user's thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from streamsapp.dsl.graph import GraphNode, find_downstream, only_repartitioned_into_tables
from streamsapp.dsl.names import RepartitionNames
from streamsapp.dsl.operators.combine import Combine, Merge
from streamsapp.dsl.operators.stateless import DropNullKeys, PassThrough
from streamsapp.dsl.options import Consumed, Produced
from streamsapp.dsl.table_supplier import AggregatedTable, TableSource
from streamsapp.processor.api import StreamPartitioner, TopicNameExtractor
from streamsapp.processor.operator import OperatorSupplier
from streamsapp.processor.timestamps import fail_on_invalid_timestamp
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.change import change_serde
from streamsapp.serdes.wrapping import CONFIGURED
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.expiring import ExpiringType
from streamsapp.topology.suppliers import NodeSupplier

if TYPE_CHECKING:
    from streamsapp.topology.builder import Topology


class StreamSourceNode(GraphNode):
    """Reads topics, or all topics that match a pattern, as a stream."""

    def __init__(self, name: str, topics: tuple[str, ...] | re.Pattern[str], consumed: Consumed[Any, Any]) -> None:
        super().__init__(name)
        self.sources = (name,)
        self.topics = topics
        self.consumed = consumed

    def write(self, topology: Topology) -> None:
        topology.add_source(
            self.name,
            *(() if isinstance(self.topics, re.Pattern) else self.topics),
            pattern=self.topics if isinstance(self.topics, re.Pattern) else None,
            key_deserializer=self.consumed.key_serde,
            value_deserializer=self.consumed.value_serde,
            timestamp_extractor=self.consumed.timestamp_extractor,
            offset_reset=self.consumed.offset_reset,
            idle_after=self.consumed.idle_after,
        )


class ProcessorGraphNode(GraphNode):
    """Runs an operator, or a user's processor, with the stores it brings and those it is connected to."""

    def __init__(self, name: str, supplier: NodeSupplier, stores: tuple[str, ...] = ()) -> None:
        super().__init__(name)
        self._supplier = supplier
        self._stores = stores

    def write(self, topology: Topology) -> None:
        topology.add_processor(self.name, self._supplier, *self.parent_names)
        if self._stores:
            topology.connect_processor_and_state_stores(self.name, *self._stores)


class StatelessNode(ProcessorGraphNode):
    """Makes other records of each one, or leaves it out."""

    passes_on = True


class KeyChangingNode(StatelessNode):
    """Gives records another key: an operator that groups them afterwards needs a repartition topic."""

    changes_key = True


class ValueChangingNode(ProcessorGraphNode):
    """Gives records another value, so that a repartition topic cannot move above it."""

    changes_value = True


class ValueMappingNode(ValueChangingNode, StatelessNode):
    """Gives records another value by a function of a record alone."""


class MergeNode(StatelessNode):
    """Joins two streams into one."""

    merges = True


class TableNode(ProcessorGraphNode):
    """Keeps the records that come as a table."""

    takes_in = True


class AggregationNode(TableNode):
    """Aggregates the records that come into a table."""

    def __init__(self, name: str, table: AggregatedTable, closes_after_ms: int | None = None) -> None:
        super().__init__(name, table)
        self._table = table
        self.closes_after_ms = closes_after_ms

    def write(self, topology: Topology) -> None:
        self._table.feeds_tables_only = only_repartitioned_into_tables(self)
        super().write(topology)


class SideOutputNode(GraphNode):
    """Takes the records that its parent leaves out."""

    aside = True

    def write(self, topology: Topology) -> None:
        (parent,) = self.parent_names
        topology.add_side_output(self.name, PassThrough, parent)


class SinkGraphNode(GraphNode):
    """Writes a topic."""

    def __init__(self, name: str, topic: str | TopicNameExtractor, produced: Produced[Any, Any]) -> None:
        super().__init__(name)
        self._topic = topic
        self._produced = produced
        self.value_serde = produced.value_serde

    def write(self, topology: Topology) -> None:
        topology.add_sink(
            self.name,
            self._topic,
            *self.parent_names,
            key_serializer=self._produced.key_serde,
            value_serializer=self._produced.value_serde,
            partitioner=self._produced.partitioner,
        )


class TableSourceNode(GraphNode):
    """Reads a topic as a table: a source and the operator that keeps the table."""

    def __init__(
        self, source_name: str, name: str, topic: str, consumed: Consumed[Any, Any], table: TableSource
    ) -> None:
        super().__init__(name)
        self.sources = (source_name,)
        self._source_name = source_name
        self._topic = topic
        self._consumed = consumed
        self._table = table
        #: Set by the optimisation of the same name: the topic is the store's changelog.
        self.reuse_source_topic = False

    def write(self, topology: Topology) -> None:
        topology.add_source(
            self._source_name,
            self._topic,
            key_deserializer=self._consumed.key_serde,
            value_deserializer=self._consumed.value_serde,
            timestamp_extractor=self._consumed.timestamp_extractor,
            offset_reset=self._consumed.offset_reset,
            idle_after=self._consumed.idle_after,
        )
        topology.add_processor(self.name, self._table, self._source_name)
        for store in self._table.stores():
            # Rows whose time to live is over are deleted in a changelog of their own.
            if self.reuse_source_topic and not isinstance(store.type, ExpiringType):
                topology.connect_source_store_and_topic(store.name, self._topic)


class RepartitionNode(GraphNode):
    """Sends a stream through a topic partitioned by its key: filter, sink, topic and source.

    ``merge`` turns the filter into an operator that combines records of one key; ``optimizable`` nodes below one
    change of key may become one node (the optimisation "merge repartition topics").
    """

    passes_on = True

    def __init__(
        self,
        names: RepartitionNames,
        key_serde: AnySerde | None,
        value_serde: AnySerde | None,
        *,
        optimizable: bool,
        partitions: int | None = None,
        partitioner: StreamPartitioner | None = None,
        merge: Merge | None = None,
    ) -> None:
        super().__init__(names.source)
        self.sources = (names.source,)
        self.names = names
        self.key_serde = key_serde
        self.value_serde = value_serde
        self.optimizable = optimizable and merge is None
        self._partitions = partitions
        self._partitioner = partitioner
        self.merge = merge

    def write(self, topology: Topology) -> None:
        names = self.names
        topology.add_internal_topic(names.topic, self._partitions)
        topology.add_processor(names.filter, self._filter(), *self.parent_names)
        topology.add_sink(
            names.sink,
            names.topic,
            names.filter,
            key_serializer=self.key_serde,
            value_serializer=self.value_serde,
            partitioner=self._partitioner,
        )
        _add_repartition_source(topology, names.source, names.topic, self.key_serde, self.value_serde)

    def _filter(self) -> OperatorSupplier:
        merge, key_serde, value_serde, topic = self.merge, self.key_serde, self.value_serde, self.names.topic
        if merge is None:
            return PassThrough if find_downstream(self, lambda node: node.takes_null_keys) else DropNullKeys
        return lambda: Combine(merge, topic, key_serde, value_serde)


class TableRepartitionNode(GraphNode):
    """Sends the changes of a table through a topic partitioned by another key."""

    def __init__(
        self, sink: str, source: str, topic: str, key_serde: AnySerde | None, value_serde: AnySerde | None
    ) -> None:
        super().__init__(source)
        self.sources = (source,)
        self._sink = sink
        self._topic = topic
        self._key_serde = key_serde
        self._value_serde = change_serde(value_serde or CONFIGURED)

    def write(self, topology: Topology) -> None:
        topology.add_internal_topic(self._topic)
        topology.add_sink(
            self._sink,
            self._topic,
            *self.parent_names,
            key_serializer=self._key_serde,
            value_serializer=self._value_serde,
        )
        _add_repartition_source(topology, self.name, self._topic, self._key_serde, self._value_serde)


class StoreNode(GraphNode):
    """Adds a store for processors to connect to."""

    def __init__(self, store: StoreBuilder) -> None:
        super().__init__(store.name)
        self._store = store

    def write(self, topology: Topology) -> None:
        topology.add_state_store(self._store)


class _FilledStoreNode(GraphNode):
    """Fills a store from a topic, through a processor."""

    def __init__(
        self,
        store: StoreBuilder,
        source: str,
        processor: str,
        topic: str,
        consumed: Consumed[Any, Any],
        supplier: NodeSupplier,
    ) -> None:
        super().__init__(processor)
        self._store = store
        self._source = source
        self._topic = topic
        self._consumed = consumed
        self._supplier = supplier

    def _fill(self, add: Callable[..., Topology], **how: bool) -> None:
        add(
            self._store,
            self._source,
            self._topic,
            self.name,
            self._supplier,
            key_deserializer=self._consumed.key_serde,
            value_deserializer=self._consumed.value_serde,
            timestamp_extractor=self._consumed.timestamp_extractor,
            **how,
        )


class ReadOnlyStoreNode(_FilledStoreNode):
    """Fills a store of each task from its partition of a topic."""

    def write(self, topology: Topology) -> None:
        self._fill(topology.add_read_only_state_store)


class GlobalStoreNode(_FilledStoreNode):
    """Fills a store of every instance from all partitions of a topic, and fills it again by its processor where
    ``reprocess_on_restore`` is true."""

    reprocess_on_restore = True

    def write(self, topology: Topology) -> None:
        self._fill(topology.add_global_store, reprocess_on_restore=self.reprocess_on_restore)


class GlobalTableNode(GlobalStoreNode):
    """Fills the store of a global table, whose rows are the records of its topic."""

    reprocess_on_restore = False


def _add_repartition_source(
    topology: Topology, name: str, topic: str, key_serde: AnySerde | None, value_serde: AnySerde | None
) -> None:
    topology.add_source(
        name,
        topic,
        key_deserializer=key_serde,
        value_deserializer=value_serde,
        # The topic is written by this application, with timestamps: another extractor must not see it.
        timestamp_extractor=fail_on_invalid_timestamp,
    )
