"""``spec.topology.graph``: sources, processors, sinks and stores by name, and what is wrong with them.

Called when a manifest is decoded (for the faults) and before the topology is built (for the nodes in order). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, TypeAlias

from msgspec import Struct

from streamsapp.declared.faults import did_you_mean, faults_of
from streamsapp.declared.options import Duration, EngineName, Name, Names, OffsetReset, Pattern, Positive, StoreTypeName
from streamsapp.declared.roles import (
    PARTITIONER,
    PROCESSOR,
    SERDE,
    TIMESTAMP_EXTRACTOR,
    TOPIC_NAME_EXTRACTOR,
    role_meta,
)
from streamsapp.structs import converted

SerdeName: TypeAlias = Annotated[Any, role_meta(SERDE)]
SupplierName: TypeAlias = Annotated[Any, role_meta(PROCESSOR)]
ExtractorName: TypeAlias = Annotated[Any, role_meta(TIMESTAMP_EXTRACTOR)]


class _Fields(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Strict: a misspelt field is a fault, never ignored."""


class DeclaredStore(_Fields, frozen=True, kw_only=True):
    """A store for the processors that name it."""

    name: Name
    type: StoreTypeName = "keyValue"
    retention_ms: Duration | None = None
    window_size_ms: Duration | None = None
    ttl_ms: Positive | None = None
    engine: EngineName = "rocksdb"
    key_serde: SerdeName | None = None
    value_serde: SerdeName | None = None
    logging: bool = True
    caching: bool = True
    log_config: dict[str, str] = {}


class DeclaredFilledStore(DeclaredStore, frozen=True, kw_only=True):
    """A store that a topic fills through a processor: on every instance with all of the topic, for any processor to
    read, or in each task with its partition, for the processors that name it (KIP-813).

    Its serdes are also those of the topic. The nodes are named after the store unless given names.
    """

    topic: Name
    supplier: SupplierName
    source: Name | None = None
    processor: Name | None = None

    @property
    def source_name(self) -> str:
        return self.source or f"{self.name}-source"

    @property
    def processor_name(self) -> str:
        return self.processor or f"{self.name}-processor"


class DeclaredSource(_Fields, frozen=True, kw_only=True):
    """Reads topics, or all topics that match a pattern."""

    name: Name
    topics: Names | None = None
    pattern: Pattern | None = None
    key_serde: SerdeName | None = None
    value_serde: SerdeName | None = None
    timestamp_extractor: ExtractorName | None = None
    offset_reset: OffsetReset | None = None
    idle_after_ms: Duration | None = None


class DeclaredProcessor(_Fields, frozen=True, kw_only=True):
    """Runs what the supplier makes on the records of its parents."""

    name: Name
    supplier: SupplierName
    parents: Names
    stores: list[Name] = []


class DeclaredSink(_Fields, frozen=True, kw_only=True):
    """Writes the records of its parents to a topic, or to the topic that a function names for each."""

    name: Name
    topic: Name | None = None
    topic_name_extractor: Annotated[Any, role_meta(TOPIC_NAME_EXTRACTOR)] | None = None
    parents: Names
    key_serde: SerdeName | None = None
    value_serde: SerdeName | None = None
    partitioner: Annotated[Any, role_meta(PARTITIONER)] | None = None


class Graph(_Fields, frozen=True, kw_only=True):
    """A topology, node by node."""

    sources: list[DeclaredSource] = []
    processors: list[DeclaredProcessor] = []
    sinks: list[DeclaredSink] = []
    stores: list[DeclaredStore] = []
    global_stores: list[DeclaredFilledStore] = []
    read_only_stores: list[DeclaredFilledStore] = []

    def filled_stores(self, path: str) -> Iterator[tuple[str, DeclaredFilledStore]]:
        """The stores that topics fill, each with its path."""
        for field, stores in (("globalStores", self.global_stores), ("readOnlyStores", self.read_only_stores)):
            for index, store in enumerate(stores):
                yield f"{path}.{field}[{index}]", store


def graph_faults(document: object, path: str) -> list[str]:
    """Everything that is wrong, as far as can be told without the user's code."""
    faults = faults_of(document, Graph, path)
    return faults or list(_faults_between(read_graph(document), path))


def read_graph(document: object) -> Graph:
    """The graph in a document without faults."""
    return converted(document, Graph)


def parents_first(processors: list[DeclaredProcessor]) -> list[DeclaredProcessor]:
    """Returns the processors as they are listed, but each after its parents among them; those left out at the end wait
    for themselves."""
    waiting = {processor.name: processor for processor in processors}
    ordered: list[DeclaredProcessor] = []
    while True:
        ready = next((each for each in waiting.values() if waiting.keys().isdisjoint(each.parents)), None)
        if ready is None:
            return ordered
        ordered.append(waiting.pop(ready.name))


def _faults_between(graph: Graph, path: str) -> Iterator[str]:
    if not graph.sources and not any(graph.filled_stores(path)):
        yield f"{path}.sources: the topology reads nothing; add a source"
    yield from _faults_of_choices(graph, path)
    yield from _faults_of_topics(graph, path)
    yield from _faults_of_equal_names(_nodes(graph, path), "node")
    yield from _faults_of_equal_names(_stores(graph, path), "store")
    yield from _faults_of_parents(graph, path)
    yield from _faults_of_used_stores(graph, path)


def _faults_of_choices(graph: Graph, path: str) -> Iterator[str]:
    for index, source in enumerate(graph.sources):
        if (source.topics is None) == (source.pattern is None):
            yield f"{path}.sources[{index}]: expected exactly one of topics and pattern"
    for index, sink in enumerate(graph.sinks):
        if (sink.topic is None) == (sink.topic_name_extractor is None):
            yield f"{path}.sinks[{index}]: expected exactly one of topic and topicNameExtractor"


def _faults_of_topics(graph: Graph, path: str) -> Iterator[str]:
    """A topic is read once."""
    readers: dict[str, str] = {}
    topics = [
        (f"{path}.sources[{index}].topics[{number}]", source.name, topic)
        for index, source in enumerate(graph.sources)
        for number, topic in enumerate(source.topics or ())
    ]
    topics += [(f"{at}.topic", store.source_name, store.topic) for at, store in graph.filled_stores(path)]
    for at, reader, topic in topics:
        if topic in readers:
            yield f"{at}: source {readers[topic]} reads {topic!r} already; give that source two children instead"
        readers.setdefault(topic, reader)


def _nodes(graph: Graph, path: str) -> Iterator[tuple[str, str]]:
    """Path and name of every node."""
    for at, store in graph.filled_stores(path):
        yield f"{at}.source", store.source_name
        yield f"{at}.processor", store.processor_name
    for field in ("sources", "processors", "sinks"):
        for index, node in enumerate(getattr(graph, field)):
            yield f"{path}.{field}[{index}].name", node.name


def _stores(graph: Graph, path: str) -> Iterator[tuple[str, str]]:
    for index, store in enumerate(graph.stores):
        yield f"{path}.stores[{index}].name", store.name
    for at, filled in graph.filled_stores(path):
        yield f"{at}.name", filled.name


def _faults_of_equal_names(named: Iterator[tuple[str, str]], what: str) -> Iterator[str]:
    first: dict[str, str] = {}
    for at, name in named:
        if first.setdefault(name, at) != at:
            yield f"{at}: {name!r} is the name of another {what} ({first[name]}); choose another"


def _faults_of_parents(graph: Graph, path: str) -> Iterator[str]:
    parents = [*(source.name for source in graph.sources), *(processor.name for processor in graph.processors)]
    sinks = {sink.name for sink in graph.sinks}
    children = [(f"{path}.processors[{index}]", each.parents) for index, each in enumerate(graph.processors)]
    children += [(f"{path}.sinks[{index}]", each.parents) for index, each in enumerate(graph.sinks)]
    for at, names in children:
        for number, parent in enumerate(names):
            if parent in sinks:
                yield f"{at}.parents[{number}]: {parent!r} is a sink; a sink has no children"
            elif parent not in parents:
                hint = did_you_mean(parent, parents, "sources and processors")
                yield f"{at}.parents[{number}]: there is no node {parent!r}{hint}"
    yield from _faults_of_cycles(graph, path)


def _faults_of_cycles(graph: Graph, path: str) -> Iterator[str]:
    ordered = {processor.name for processor in parents_first(graph.processors)}
    for index, processor in enumerate(graph.processors):
        if processor.name not in ordered:
            yield f"{path}.processors[{index}].parents: {processor.name!r} is among its own ancestors; break the circle"


def _faults_of_used_stores(graph: Graph, path: str) -> Iterator[str]:
    known: Mapping[str, None] = dict.fromkeys(store.name for store in (*graph.stores, *graph.read_only_stores))
    in_globals = {store.name for store in graph.global_stores}
    for index, processor in enumerate(graph.processors):
        for number, store in enumerate(processor.stores):
            at = f"{path}.processors[{index}].stores[{number}]"
            if store in in_globals:
                yield f"{at}: {store!r} is a global store, open to every processor; leave it out"
            elif store not in known:
                yield f"{at}: there is no store {store!r}{did_you_mean(store, known, 'stores') or '; add it to stores'}"
