"""The serdes and the partitioner that an application has for the records of a topic. Pure.

For ``produce``, ``consume`` and ``topics``, on the main thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamsapp.cli.topology_topics import topics_of
from streamsapp.config import StreamsConfig
from streamsapp.processor.api import StreamPartitioner
from streamsapp.serdes.api import AnySerde, or_configured
from streamsapp.serdes.serdes import Serdes
from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import SinkNode, SourceNode


@dataclass(frozen=True)
class TopicRecords:
    """The serdes and the partitioner with which the records of a topic are written and read."""

    key: AnySerde
    value: AnySerde
    #: ``None``: Kafka's own, murmur2 of the key's bytes.
    partitioner: StreamPartitioner | None = None


def records_of(topology: Topology, config: StreamsConfig, topic: str) -> TopicRecords | None:
    """Returns how the application writes the topic, else how it reads it, else how a store logs to it; ``None`` if it
    is none of its topics."""
    found = next(_candidates(topology, config, topic), None)
    if found is None:
        return None
    key, value, partitioner = found
    return TopicRecords(
        (key or config.default_key_serde).bind(topic, is_key=True),
        or_configured(value, config.default_serdes).bind(topic, is_key=False),
        partitioner,
    )


_Found = tuple[AnySerde | None, AnySerde | None, StreamPartitioner | None]


def _candidates(topology: Topology, config: StreamsConfig, topic: str) -> Iterator[_Found]:
    application_id = config.application_id
    internal = topics_of(topology, application_id).internal
    # In a topology, topics of its own are without the application's id.
    name = topic.removeprefix(f"{application_id}-") if topic in internal else topic
    for node in topology.nodes:
        if isinstance(node, SinkNode) and node.topic == name:
            yield node.key_serde, node.value_serde, node.partitioner
    for node in topology.nodes:
        if isinstance(node, SourceNode) and (
            name in node.topics or (node.pattern is not None and node.pattern.fullmatch(name))
        ):
            yield node.key_serde, node.value_serde, None
    if topic in internal:
        yield from _changelog(topology, name)
    if topic == config.dead_letter_queue_topic:
        yield Serdes.bytes(), Serdes.bytes(), None


def _changelog(topology: Topology, name: str) -> Iterator[_Found]:
    """Keys and values of stores without windows are those of the store; the others have forms of their own."""
    from streamsapp.state.kinds.key_value import KeyValueType  # late: only this needs stores

    for sub in topology.sub_topologies():
        for store in sub.stores:
            if f"{store.name}-changelog" == name:
                plain = isinstance(store.type, KeyValueType)
                yield (store.key_serde, store.value_serde, None) if plain else (Serdes.bytes(), Serdes.bytes(), None)
