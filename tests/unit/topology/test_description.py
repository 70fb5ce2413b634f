"""The text of a topology, byte for byte as Kafka Streams wrote it for the same program
(``golden/described_topologies.json``), and the other renderings."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from streamsapp.processor.api import Processor
from streamsapp.record import Record
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.key_value import KEY_VALUE
from streamsapp.topology.builder import Topology
from streamsapp.topology.java_order import string_hash

GOLDEN = json.loads((Path(__file__).parent / "golden" / "described_topologies.json").read_text())


class Idle(Processor):
    def process(self, record: Record) -> None:
        pass


class Extractor:
    """An extractor that says what Java's ``toString`` said."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, key: Any, value: Any, metadata: Any) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


class SilentExtractor:
    def __call__(self, key: Any, value: Any, metadata: Any) -> str:
        return "topic"


def by_value(key: Any, value: Any, metadata: Any) -> str:
    return str(value)


class IdleWithStores:
    """A supplier that brings its stores along."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __call__(self) -> Processor:
        return Idle()

    def stores(self) -> list[StoreBuilder]:
        return [store(name) for name in self.names]


@cache
def store(name: str) -> StoreBuilder:
    """One builder per name: the same store may be added again, another one of its name may not."""
    return StoreBuilder(name, KEY_VALUE)


def build(program: list[dict[str, Any]]) -> Topology:
    """Run a program of builder calls, as the Java side of the golden texts did."""
    topology = Topology()
    for step in program:
        match step:
            case {"add": "source", "name": name, "pattern": pattern}:
                topology.add_source(name, pattern=pattern)
            case {"add": "source", "name": name, "topics": topics}:
                topology.add_source(name, *topics)
            case {"add": "processor", "name": name, "parents": parents, "stores": stores}:
                topology.add_processor(name, IdleWithStores(stores), *parents)
            case {"add": "processor", "name": name, "parents": parents}:
                topology.add_processor(name, Idle, *parents)
            case {"add": "sink", "name": name, "parents": parents, "topic": topic}:
                topology.add_sink(name, topic, *parents)
            case {"add": "sink", "name": name, "parents": parents, "extractor": text}:
                topology.add_sink(name, Extractor(text), *parents)
            case {"add": "store", "name": name, "processors": processors}:
                topology.add_state_store(store(name), *processors)
            case {"add": "connect", "processor": processor, "stores": stores}:
                topology.connect_processor_and_state_stores(processor, *stores)
            case {"add": "global", "name": name, "source": source, "topic": topic, "processor": processor}:
                topology.add_global_store(store(name), source, topic, processor, Idle)
            case _:
                raise AssertionError(f"unknown step {step}")
    return topology


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["name"])
def test_describes_a_topology_byte_for_byte_as_kafka_streams(golden: dict[str, Any]) -> None:
    assert str(build(golden["program"]).describe()) == golden["text"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("AaBB", 2031744), ("BBAa", 2031744), ("KSTREAM-SOURCE-0000000000", 1861603632), ("😀", 1772899)],
)
def test_string_hash_is_javas(text: str, expected: int) -> None:
    assert string_hash(text) == expected


@pytest.mark.parametrize(
    ("extractor", "expected"),
    [
        (Extractor("com.example.Route@1"), "com.example.Route@1"),
        (by_value, f"{__name__}.by_value"),
        (SilentExtractor(), f"{__name__}.SilentExtractor"),
        (partial(by_value, 1), f"functools.partial(<function by_value at {id(by_value):#x}>, 1)"),
    ],
    ids=["said", "function", "class", "partial"],
)
def test_a_sink_with_an_extractor_is_described_by_what_the_extractor_says_of_itself(
    extractor: Any, expected: str
) -> None:
    topology = Topology().add_source("in", "a").add_sink("out", extractor, "in")
    assert f"Sink: out (extractor class: {expected})\n" in str(topology.describe())


def test_describing_twice_gives_the_same_text() -> None:
    topology = build(GOLDEN[-1]["program"])
    assert str(topology.describe()) == str(topology.describe())


SAMPLE: list[dict[str, Any]] = [
    {"add": "source", "name": "in", "topics": ["a"]},
    {"add": "processor", "name": "count", "parents": ["in"], "stores": ["counts"]},
    {"add": "sink", "name": "out", "topic": 'b"c', "parents": ["count"]},
    {"add": "sink", "name": "route", "extractor": "Route", "parents": ["count"]},
    {"add": "source", "name": "any", "pattern": "x.*"},
    {"add": "global", "name": "rates", "source": "rate-source", "topic": "rates-topic", "processor": "rate-processor"},
]


def test_json_tells_the_same_as_the_text() -> None:
    document = json.loads(build(SAMPLE).describe().to_json())

    first, second = document["subTopologies"]
    assert [group["id"] for group in document["globalStores"]] == [2]
    assert [node["name"] for node in first["nodes"]] == ["in", "count", "out", "route"]
    source, count, out, route = first["nodes"]
    assert source == {"type": "source", "name": "in", "topics": ["a"], "successors": ["count"], "predecessors": []}
    assert count["stores"] == ["counts"]
    assert count["successors"] == ["out", "route"]
    assert out["topics"] == ['b"c']
    assert route["extractor"] == "Route"
    assert second["nodes"][0]["pattern"] == "x.*"


def test_mermaid_draws_every_node_topic_store_and_edge_once() -> None:
    lines = build(SAMPLE).describe().to_mermaid().splitlines()

    assert lines[0] == "flowchart TD"
    assert len(lines) == len(set(lines) - {"  end"}) + lines.count("  end")
    labels = {line.split('"')[1]: line.split('"')[0].strip().rstrip("([") for line in lines if '"' in line}
    assert {"a", "b#quot;c", "Route", "x.*", "counts", "in", "count", "out", "rates-topic"} <= labels.keys()
    assert f"  {labels['in']} --> {labels['count']}" in lines
    assert f"  {labels['a']} --> {labels['in']}" in lines
    assert f"  {labels['out']} --> {labels['b#quot;c']}" in lines
    assert f"  {labels['count']} <--> {labels['counts']}" in lines
    assert '  subgraph group2["Global store 2"]' in lines
