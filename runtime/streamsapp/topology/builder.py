"""``Topology``: builds a topology node by node (KIP-28). The DSL writes into it, and users by hand.

Called on the thread that builds the topology, before the runtime starts; nothing here runs per record. Every method
that adds something checks it at once and returns the topology, so that a mistake is reported by the line that makes it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field, replace

from streamsapp.config.settings import HEADERS
from streamsapp.errors import TopologyError, place_of_caller
from streamsapp.java_names.lookup import JavaNames
from streamsapp.plain_text import plain_text
from streamsapp.processor.api import Duration, StreamPartitioner, TopicNameExtractor, duration_ms
from streamsapp.processor.partitions import takes_headers
from streamsapp.processor.timestamps import TimestampExtractor
from streamsapp.serdes.adapt import Deserializing, Serializing, as_deserializer, as_serializer
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.api import StoreBuilder
from streamsapp.state.builders import with_headers
from streamsapp.topology import subtopologies
from streamsapp.topology.description import TopologyDescription
from streamsapp.topology.known_faults import check_known_faults
from streamsapp.topology.name_rules import (
    check_read_only_store,
    check_store_builder,
    check_store_name,
    refuse_ttl,
    topic_name,
)
from streamsapp.topology.naming import naming_fault
from streamsapp.topology.nodes import (
    GlobalStore,
    Node,
    ProcessorNode,
    RepartitionTopic,
    SinkNode,
    SourceNode,
    SubTopology,
)
from streamsapp.topology.subtopologies import TopologyDefinition
from streamsapp.topology.suppliers import NodeSupplier, check_supplier, supplied_stores

OFFSET_RESETS = frozenset({"earliest", "latest", "none"})
_BY_DURATION = "by_duration:"
#: Brokers are asked once in each silence of this length whether a partition has really no record.
LEAST_SILENCE_MS = 100


@dataclass
class _AddedStore:
    """A store and the processors it was connected to since it was (last) added."""

    builder: StoreBuilder
    place: str
    processors: list[str] = field(default_factory=list)


class Topology(JavaNames):
    """A graph of sources, processors and sinks, with the stores that the processors use (KIP-28).

    Every method that adds something returns the topology. It raises ``TopologyError`` for names that Kafka refuses or
    that are taken, and for parents or stores that do not exist.
    """

    def __init__(self) -> None:
        self._graph = TopologyDefinition()
        self._stores: dict[str, _AddedStore] = {}
        #: The optimisations that the DSL made, by name: which topics it has depends on them.
        self.optimized: frozenset[str] = frozenset()
        #: The names of stores and internal topics that the DSL generated.
        self.generated_names: frozenset[str] = frozenset()
        #: The line where the user added what the DSL is writing; otherwise the caller is what adds.
        self.place = ""

    # ---- nodes -------------------------------------------------------------------------------------------------

    def add_source(
        self,
        name: str,
        *topics: str,
        pattern: str | re.Pattern[str] | None = None,
        key_deserializer: Deserializing = None,
        value_deserializer: Deserializing = None,
        timestamp_extractor: TimestampExtractor | None = None,
        offset_reset: str | None = None,
        idle_after: Duration | None = None,
    ) -> Topology:
        """Adds a node that reads ``topics``, or every topic whose whole name matches ``pattern``. Where a partition is
        silent for ``idle_after``, a ``timedelta`` or milliseconds, stream time moves on with the clock, and a time
        marker is recorded (docs/guide.md, "Time without records")."""
        self._check_new(name)
        topics = tuple(_text(f"source {name}", topic) for topic in topics)
        compiled = _compiled(name, pattern)
        self._check_source_topics(name, topics, compiled)
        _check_offset_reset(name, offset_reset)
        idle_after_ms = _idle_after_ms(name, idle_after)
        self._add(
            SourceNode(
                name=name,
                topics=topics,
                pattern=compiled,
                key_serde=as_deserializer(key_deserializer, f"key_deserializer of source {name}"),
                value_serde=as_deserializer(value_deserializer, f"value_deserializer of source {name}"),
                timestamp_extractor=timestamp_extractor,
                offset_reset=offset_reset,
                idle_after_ms=idle_after_ms,
            )
        )
        return self

    def add_processor(self, name: str, supplier: NodeSupplier, *parents: str) -> Topology:
        """Adds a node that runs the processor which ``supplier`` makes for each task, on the records of ``parents``.

        A supplier with a ``stores()`` that gives store builders has them added and connected.
        """
        self._check_new(name)
        check_supplier(name, supplier)
        self._check_parents(name, parents)
        self._add(ProcessorNode(name, supplier), parents)
        for builder in supplied_stores(supplier):
            self.add_state_store(builder, name)
        return self

    def add_side_output(self, name: str, supplier: NodeSupplier, parent: str) -> Topology:
        """Adds a processor as ``add_processor`` does, for the records that its parent forwards to it by name,
        ``context.forward(record, name)``: what is forwarded to all children does not go there."""
        self.add_processor(name, supplier, parent)
        node = self._graph.nodes[name]
        assert isinstance(node, ProcessorNode)
        self._graph.nodes[name] = replace(node, aside=True)
        return self

    def add_sink(
        self,
        name: str,
        topic: str | TopicNameExtractor,
        *parents: str,
        key_serializer: Serializing = None,
        value_serializer: Serializing = None,
        partitioner: StreamPartitioner | None = None,
    ) -> Topology:
        """Adds a node that writes the records of ``parents`` to ``topic``, or to the topic that a function of each
        record names (KIP-303)."""
        self._check_new(name)
        if not topic or not (isinstance(topic, str) or callable(topic)):
            raise TopologyError(f"sink {name}: topic must be a name or a function (key, value, metadata) -> name")
        if partitioner is not None:
            takes_headers(f"partitioner of sink {name}", partitioner)
        self._check_parents(name, parents)
        self._add(
            SinkNode(
                name=name,
                topic=plain_text(topic),
                key_serde=as_serializer(key_serializer, f"key_serializer of sink {name}"),
                value_serde=as_serializer(value_serializer, f"value_serializer of sink {name}"),
                partitioner=partitioner,
            ),
            parents,
        )
        return self

    # ---- stores ------------------------------------------------------------------------------------------------

    def add_state_store(self, builder: StoreBuilder, *processors: str) -> Topology:
        """Adds a store and connects it to ``processors``; processors that share a store share a sub-topology.

        The same builder may be added again, for other processors; another one of that name, however alike, is refused
        with a ``TopologyError``: both would write to one store.
        """
        check_store_builder("add_state_store", builder)
        name = builder.name
        known = self._stores.get(name)
        if known is not None and known.builder is not builder:
            raise TopologyError(_taken(name))
        if name in self._graph.global_stores:
            raise TopologyError(f"a different global state store has already been added with the name {name}")
        # As in Kafka Streams, adding a store again forgets which processors it tied together so far: sub-topology
        # numbers, and with them the names of tasks and state, depend on it.
        self._stores[name] = _AddedStore(builder, self.place or place_of_caller())
        self._graph.stores[name] = builder
        for processor in processors:
            self._connect(processor, name)
        return self

    def connect_processor_and_state_stores(self, processor: str, *stores: str) -> Topology:
        """Gives ``processor`` access to ``stores``, which have been added before."""
        if not stores:
            raise TopologyError(f"processor {processor}: name at least one state store to connect")
        for store in stores:
            self._connect(processor, store)
        return self

    def add_read_only_state_store(
        self,
        builder: StoreBuilder,
        source: str,
        topic: str,
        processor: str,
        supplier: NodeSupplier,
        *,
        key_deserializer: Deserializing = None,
        value_deserializer: Deserializing = None,
        timestamp_extractor: TimestampExtractor | None = None,
    ) -> Topology:
        """Adds a store that each task fills from its partition of ``topic``, through a processor (KIP-813).

        The topic restores the store, by copying its records, so nothing is logged: the processor has to put them as
        they are, and other processors that are connected must not write. The topic is read from its beginning. Raises
        ``TopologyError`` for names that are taken and for a builder that configures a changelog.
        """
        check_read_only_store("add_read_only_state_store", builder)
        self.add_source(
            source,
            topic,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
            timestamp_extractor=timestamp_extractor,
            offset_reset="earliest",
        )
        self.add_processor(processor, supplier, source)
        self.add_state_store(builder, processor)
        return self.connect_source_store_and_topic(builder.name, topic)

    def add_global_store(
        self,
        builder: StoreBuilder,
        source: str,
        topic: str,
        processor: str,
        supplier: NodeSupplier,
        *,
        key_deserializer: Deserializing = None,
        value_deserializer: Deserializing = None,
        timestamp_extractor: TimestampExtractor | None = None,
        reprocess_on_restore: bool = True,
    ) -> Topology:
        """Adds a store that every instance fills from all partitions of ``topic``, through a processor (KIP-233).

        Every processor of the topology can read it. As in Kafka Streams, records carry the timestamps of the topic,
        whatever ``timestamp_extractor`` says. ``reprocess_on_restore=False`` restores the store without the
        processor, by copying the records: right only where the processor puts them as they are.
        """
        check_store_builder("add_global_store", builder)
        refuse_ttl("add_global_store", builder)
        topic = _text(f"global store {builder.name}", topic)
        self._check_new(source)
        self._check_source_topics(source, (topic,), None)
        self._check_new(processor)
        if source == processor:
            raise TopologyError(f"global store {builder.name}: its source and its processor are both named {source}")
        check_supplier(processor, supplier)
        if builder.name in self._stores or builder.name in self._graph.global_stores:
            raise TopologyError(_taken(builder.name))
        source_node = SourceNode(
            name=source,
            topics=(topic,),
            key_serde=as_deserializer(key_deserializer, f"key_deserializer of source {source}"),
            value_serde=as_deserializer(value_deserializer, f"value_deserializer of source {source}"),
            timestamp_extractor=timestamp_extractor,
            children=(processor,),
        )
        self._add(source_node)
        processor_node = ProcessorNode(processor, supplier, stores=(builder.name,))
        self._add(processor_node, (source,))
        # The topic itself restores the store, so nothing is logged.
        store = replace(builder, logging=False, changelog_topic=topic)
        self._graph.global_stores[builder.name] = GlobalStore(store, source_node, processor_node, reprocess_on_restore)
        return self

    def connect_source_store_and_topic(self, store: str, topic: str) -> Topology:
        """Makes a source topic the changelog of a store, which logs nothing then: of a table's (topology optimisation)
        or of a read-only one (KIP-813)."""
        known = self._graph.source_changelogs.setdefault(store, plain_text(topic))
        if known != topic:
            raise TopologyError(f"state store {store} already has the changelog topic {known}, it cannot have {topic}")
        return self

    # ---- internal topics ---------------------------------------------------------------------------------------

    def add_internal_topic(self, name: str, partitions: int | None = None) -> Topology:
        """Adds a repartition topic, named without the ``<application id>-`` prefix."""
        if partitions is not None and partitions < 1:
            raise TopologyError(f"internal topic {name}: partitions must be at least 1, got {partitions}")
        self._graph.internal_topics[name] = RepartitionTopic(name, partitions)
        return self

    def copartition_sources(self, sources: Collection[str]) -> Topology:
        """Demands that the topics of these sources have equally many partitions."""
        for name in sources:
            if not isinstance(self._graph.nodes.get(name), SourceNode):
                raise TopologyError(f"{name} cannot be copartitioned: it is not a source")
        self._graph.copartitioned.append(frozenset(sources))
        return self

    # ---- what was built ----------------------------------------------------------------------------------------

    def describe(self) -> TopologyDescription:
        """Returns the description of the topology: as text, byte for byte as Kafka Streams writes it, as Mermaid, as
        SVG and as JSON."""
        return TopologyDescription.of(self._graph)

    def sub_topologies(self, existing_topics: Iterable[str] = ()) -> tuple[SubTopology, ...]:
        """Returns the sub-topologies that become tasks, numbered as Kafka Streams numbers them (global stores use up a
        number).

        Sources with a pattern get the matching ones of ``existing_topics``.
        """
        return subtopologies.split(self._graph, existing_topics)

    def global_stores(self) -> tuple[GlobalStore, ...]:
        """Returns the stores that every instance fills, in the order in which they were added."""
        return tuple(self._graph.global_stores.values())

    @property
    def nodes(self) -> Iterator[Node]:
        """Returns every node in the order in which it was added, global ones included; ``children`` is empty here."""
        return iter(self._graph.nodes.values())

    def with_store_format(self, store_format: str) -> Topology:
        """Returns the topology whose tables have stores of this format: ``headers`` are those of records (KIP-1285)."""
        if store_format != HEADERS:
            return self
        made, graph = copy(self), self._graph
        stores = {name: _with_headers(builder) for name, builder in graph.stores.items()}
        shared = {name: replace(each, store=_with_headers(each.store)) for name, each in graph.global_stores.items()}
        made._graph = replace(graph, stores=stores, global_stores=shared)
        return made

    def naming_fault(self) -> str | None:
        """Returns which stores and internal topics have names that were generated, where and how to name them; ``None``
        if there are none (KIP-1111)."""
        places = {name: added.place for name, added in self._stores.items()}
        return naming_fault(self._graph, places, self.generated_names)

    def validate(self) -> Topology:
        """Raises ``TopologyError`` for what only shows once everything was added."""
        if not any(isinstance(node, SourceNode) for node in self._graph.nodes.values()):
            raise TopologyError("the topology reads nothing: add at least one source or global store")
        subtopologies.check_explicit_partitions(self._graph)
        for node in self._graph.nodes.values():
            self._check_topics(node)
        for name, added in self._stores.items():
            check_store_name(f"store {name!r} (added at {added.place})", name)
        check_known_faults(self._graph, {name: added.place for name, added in self._stores.items()})
        return self

    @staticmethod
    def _check_topics(node: Node) -> None:
        """Kafka Streams takes any text for the name of a topic until the topology runs, and describes it; so do we."""
        if isinstance(node, SourceNode):
            for topic in node.topics:
                topic_name(f"source {node.name} (added at {node.place})", topic)
        if isinstance(node, SinkNode) and isinstance(node.topic, str):
            topic_name(f"sink {node.name} (added at {node.place})", node.topic)

    # ---- checks ------------------------------------------------------------------------------------------------

    def _add(self, node: Node, parents: tuple[str, ...] = ()) -> None:
        graph = self._graph
        graph.nodes[node.name] = replace(node, place=self.place or place_of_caller())
        graph.parents[node.name] = parents
        graph.groups.add(node.name)
        for parent in parents:
            graph.groups.unite(node.name, parent)

    def _connect(self, processor: str, store: str) -> None:
        graph = self._graph
        if store in graph.global_stores:
            raise TopologyError(
                f"global state store {store} is open to every processor; do not connect it to {processor}"
            )
        added = self._stores.get(store)
        if added is None:
            raise TopologyError(f"state store {store} is not added yet; add it before connecting processor {processor}")
        node = graph.nodes.get(processor)
        if node is None:
            raise TopologyError(f"processor {processor} is not added yet; add it before connecting state store {store}")
        if not isinstance(node, ProcessorNode):
            raise TopologyError(f"state store {store} cannot be connected to {processor}: it is a source or a sink")
        if added.processors:
            graph.groups.unite(added.processors[0], processor)
        added.processors.append(processor)
        if store not in node.stores:
            graph.nodes[processor] = replace(node, stores=(*node.stores, store))

    def _check_new(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise TopologyError(f"a node's name must be a non-empty string, got {name!r}")
        if name in self._graph.nodes:
            raise TopologyError(f"node {name} is already added; every node needs a name of its own")

    def _check_parents(self, name: str, parents: tuple[str, ...]) -> None:
        if not parents:
            raise TopologyError(f"node {name} has no parents; name at least one source or processor")
        global_nodes = {node for store in self.global_stores() for node in (store.source.name, store.processor.name)}
        for parent in parents:
            known = self._graph.nodes.get(parent)
            if known is None:
                hint = "a node cannot be its own parent" if parent == name else "add parents before their children"
                raise TopologyError(f"parent {parent} of node {name} is unknown; {hint}")
            if isinstance(known, SinkNode):
                raise TopologyError(f"parent {parent} of node {name} is a sink; a sink has no children")
            if parent in global_nodes:
                raise TopologyError(f"parent {parent} of node {name} fills a global store; it has no other children")

    def _check_source_topics(self, name: str, topics: tuple[str, ...], pattern: re.Pattern[str] | None) -> None:
        if bool(topics) == (pattern is not None):
            raise TopologyError(f"source {name} needs either topics or a pattern, and not both")
        if len(set(topics)) < len(topics):
            raise TopologyError(f"source {name} names a topic twice: {', '.join(topics)}")
        for source in self._graph.sources():
            _check_not_read_by(source, topics)
        if pattern is not None:
            self._check_pattern(pattern)

    def _check_pattern(self, pattern: re.Pattern[str]) -> None:
        global_sources = {store.source.name for store in self.global_stores()}
        for source in self._graph.sources():
            for topic in source.topics:
                if source.name not in global_sources and pattern.fullmatch(topic):
                    raise TopologyError(
                        f"pattern {pattern.pattern} matches topic {topic}, which source {source.name} reads already"
                    )


def _with_headers(builder: StoreBuilder) -> StoreBuilder:
    return with_headers(builder) if builder.of_table else builder


def _taken(name: str) -> str:
    return (
        f"a different state store has already been added with the name {name}; give each store a name of its own, or "
        "the same store builder to all processors that share one"
    )


def _text(user: str, topic: object) -> str:
    """Returns the name of a topic, or raises for a value that is no text."""
    return str(plain_text(topic)) if isinstance(topic, str) else topic_name(user, topic)


def _compiled(name: str, pattern: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    try:
        return None if pattern is None else re.compile(pattern)
    except re.error as error:
        raise TopologyError(f"source {name}: {pattern!r} is not a regular expression: {error}") from None


def _check_not_read_by(source: SourceNode, topics: tuple[str, ...]) -> None:
    for topic in topics:
        if topic in source.topics:
            raise TopologyError(f"topic {topic} is already read by source {source.name}; read it once and branch")
        if source.pattern is not None and source.pattern.fullmatch(topic):
            raise TopologyError(f"topic {topic} matches the pattern of source {source.name}, which reads it already")


def _idle_after_ms(name: str, idle_after: Duration | None) -> int | None:
    if idle_after is None:
        return None
    wait_ms = duration_ms(idle_after)
    if not LEAST_SILENCE_MS <= wait_ms <= MAX_TIMESTAMP:
        raise TopologyError(
            f"source {name}: idle_after is {wait_ms} ms, and must be at least {LEAST_SILENCE_MS}: as long as records "
            "of a partition that is not idle may be apart"
        )
    return wait_ms


def _check_offset_reset(name: str, offset_reset: str | None) -> None:
    if offset_reset is None or offset_reset in OFFSET_RESETS or offset_reset.startswith(_BY_DURATION):
        return
    raise TopologyError(
        f"source {name}: offset_reset must be earliest, latest, none or by_duration:PT1H, got {offset_reset!r}"
    )
