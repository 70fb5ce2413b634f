"""Builds the topology of ``spec.topology.graph``, by the same calls that a program in Python makes.

Called by the command line, on the thread that builds the topology.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from streamsapp.declared.graph import DeclaredFilledStore, DeclaredStore, Graph, graph_faults, parents_first, read_graph
from streamsapp.declared.options import store_builder
from streamsapp.declared.resolve import Code, built, resolve
from streamsapp.errors import ManifestError
from streamsapp.state.api import StoreBuilder
from streamsapp.topology.builder import Topology


def build_graph(document: dict[str, Any], path: str, code: Code) -> Topology:
    """The topology; a ``ManifestError`` lists the faults."""
    faults = graph_faults(document, path)
    if faults:
        raise ManifestError(faults)
    (graph,) = resolve({path: read_graph(document)}, code)
    return built(partial(_written, graph), path, code)


def _written(graph: Graph) -> Topology:
    """Stores that topics fill, sources, processors, sinks, stores: each in the order in which they are listed."""
    topology = Topology()
    for filled in graph.global_stores:
        _fill(topology.add_global_store, filled)
    for filled in graph.read_only_stores:
        _fill(topology.add_read_only_state_store, filled)
    for source in graph.sources:
        topology.add_source(
            source.name,
            *(source.topics or ()),
            pattern=source.pattern,
            key_deserializer=source.key_serde,
            value_deserializer=source.value_serde,
            timestamp_extractor=source.timestamp_extractor,
            offset_reset=source.offset_reset,
            idle_after=source.idle_after_ms,
        )
    for processor in parents_first(graph.processors):
        topology.add_processor(processor.name, processor.supplier, *processor.parents)
    for sink in graph.sinks:
        topic: Any = sink.topic_name_extractor if sink.topic is None else sink.topic
        topology.add_sink(
            sink.name,
            topic,
            *sink.parents,
            key_serializer=sink.key_serde,
            value_serializer=sink.value_serde,
            partitioner=sink.partitioner,
        )
    for store in graph.stores:
        users = [processor.name for processor in graph.processors if store.name in processor.stores]
        topology.add_state_store(_builder(store), *users)
    read_only = {store.name for store in graph.read_only_stores}
    for processor in graph.processors:
        for name in processor.stores:
            if name in read_only:
                topology.connect_processor_and_state_stores(processor.name, name)
    return topology


def _fill(add: Callable[..., Topology], store: DeclaredFilledStore) -> None:
    add(
        _builder(store),
        store.source_name,
        store.topic,
        store.processor_name,
        store.supplier,
        key_deserializer=store.key_serde,
        value_deserializer=store.value_serde,
    )


def _builder(store: DeclaredStore) -> StoreBuilder:
    return store_builder(
        store.name,
        store.type,
        store.engine,
        store.retention_ms,
        store.window_size_ms,
        store.ttl_ms,
        key_serde=store.key_serde,
        value_serde=store.value_serde,
        logging=store.logging,
        log_config=store.log_config,
        caching=store.caching,
    )
