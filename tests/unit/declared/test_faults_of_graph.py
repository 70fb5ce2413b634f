"""The faults of a declared graph are reported without any code, all at once, each with its path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp.declared.graph import DeclaredProcessor, graph_faults, parents_first

SOURCE = {"name": "in", "topics": ["a"]}


def processor(name: str, *parents: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "supplier": "app:P", "parents": list(parents), **fields}


def sink(name: str, *parents: str) -> dict[str, Any]:
    return {"name": name, "topic": "out", "parents": list(parents)}


def faults(**lists: Any) -> list[str]:
    return graph_faults({"sources": [SOURCE], **lists}, "graph")


def test_faults_of_structure_are_told_at_once() -> None:
    assert faults(
        sources=[{"name": "in", "topics": [], "keySerde": "strng"}, {"name": "a b", "pattern": "["}],
        processors=[{"name": "p", "supplier": "P", "parent": ["in"]}],
        stores=[{"name": "s", "type": "windows", "engine": 3}],
        sink=[],
    ) == [
        "graph.sources[0].topics: expected a list that is not empty",
        (
            "graph.sources[0].keySerde: expected a serde as module:attribute or a name, got 'strng'; "
            "did you mean 'string'?"
        ),
        "graph.sources[1].name: expected a name of ASCII letters, digits, '.', '_' and '-', got 'a b'",
        "graph.sources[1].pattern: '[' is not a regular expression: unterminated character set at position 0",
        (
            "graph.processors[0].supplier: expected a class of Processor, or a function that makes one, "
            "as module:attribute, got 'P'"
        ),
        "graph.processors[0].parent: unknown field; did you mean 'parents'?",
        "graph.processors[0].parents: is required",
        (
            "graph.stores[0].type: expected 'keyValue' or 'keyValueWithTtl' or 'session' or 'sessionWithHeaders' "
            "or 'timestampedKeyValue' or 'timestampedKeyValueWithHeaders' or 'timestampedKeyValueWithTtl' "
            "or 'timestampedWindow' or 'timestampedWindowWithHeaders' or 'versioned' or 'window', got 'windows'"
        ),
        "graph.stores[0].engine: expected 'memory' or 'rocksdb', got 3",
        "graph.sink: unknown field; did you mean 'sinks'?",
    ]


def test_faults_between_nodes_are_told_at_once() -> None:
    assert faults(
        sources=[SOURCE, {"name": "again", "topics": ["b", "a"]}, {"name": "none"}],
        processors=[processor("p", "inn", stores=["strore"]), processor("in", "out")],
        sinks=[sink("out", "p"), {"name": "nowhere", "parents": ["p"]}],
        stores=[{"name": "store"}, {"name": "store"}],
    ) == [
        "graph.sources[2]: expected exactly one of topics and pattern",
        "graph.sinks[1]: expected exactly one of topic and topicNameExtractor",
        "graph.sources[1].topics[1]: source in reads 'a' already; give that source two children instead",
        "graph.processors[1].name: 'in' is the name of another node (graph.sources[0].name); choose another",
        "graph.stores[1].name: 'store' is the name of another store (graph.stores[0].name); choose another",
        "graph.processors[0].parents[0]: there is no node 'inn'; did you mean 'in'?",
        "graph.processors[1].parents[0]: 'out' is a sink; a sink has no children",
        "graph.processors[0].stores[0]: there is no store 'strore'; did you mean 'store'?",
    ]


def test_a_graph_reads_something() -> None:
    assert faults(sources=[]) == ["graph.sources: the topology reads nothing; add a source"]


def test_a_circle_is_told_at_each_of_its_nodes_and_below() -> None:
    circle = [processor("a", "in", "b"), processor("b", "a"), processor("below", "b"), processor("free", "in")]
    assert [line.partition(": ")[0] for line in faults(processors=circle)] == [
        f"graph.processors[{index}].parents" for index in range(3)
    ]


def test_a_global_store_is_not_connected_and_its_nodes_have_no_children() -> None:
    store = {"name": "g", "topic": "rows", "supplier": "app:Keep"}
    assert faults(globalStores=[store], processors=[processor("p", "in", "g-processor", stores=["g"])]) == [
        "graph.processors[0].parents[1]: there is no node 'g-processor'; sources and processors are in, p",
        "graph.processors[0].stores[0]: 'g' is a global store, open to every processor; leave it out",
    ]


def test_a_global_store_reads_a_topic_of_its_own() -> None:
    store = {"name": "g", "topic": "a", "supplier": "app:Keep"}
    assert faults(globalStores=[store]) == [
        "graph.globalStores[0].topic: source in reads 'a' already; give that source two children instead"
    ]


def test_a_read_only_store_is_connected_by_its_name_and_reads_a_topic_of_its_own() -> None:
    store = {"name": "r", "topic": "rows", "supplier": "app:Keep"}
    reader = processor("p", "in", stores=["r"])
    assert faults(readOnlyStores=[store], processors=[reader]) == []
    assert faults(readOnlyStores=[{**store, "topic": "a"}], globalStores=[store], processors=[reader]) == [
        "graph.readOnlyStores[0].topic: source in reads 'a' already; give that source two children instead",
        (
            "graph.readOnlyStores[0].source: 'r-source' is the name of another node (graph.globalStores[0].source); "
            "choose another"
        ),
        (
            "graph.readOnlyStores[0].processor: 'r-processor' is the name of another node "
            "(graph.globalStores[0].processor); choose another"
        ),
        "graph.readOnlyStores[0].name: 'r' is the name of another store (graph.globalStores[0].name); choose another",
        "graph.processors[0].stores[0]: 'r' is a global store, open to every processor; leave it out",
    ]


@given(st.permutations(range(6)), st.data())
def test_parents_come_first_and_what_is_in_order_stays_in_order(order: list[int], data: st.DataObject) -> None:
    parents = {
        number: data.draw(st.lists(st.sampled_from(range(number)), unique=True)) if number else []
        for number in range(6)
    }
    listed = [
        DeclaredProcessor(
            name=f"p{number}", supplier="a:b", parents=["in", *(f"p{parent}" for parent in parents[number])]
        )
        for number in order
    ]
    ordered = [each.name for each in parents_first(listed)]
    assert sorted(ordered) == [f"p{number}" for number in range(6)]
    assert all(
        ordered.index(f"p{parent}") < ordered.index(f"p{number}") for number in range(6) for parent in parents[number]
    )
    if order == sorted(order):
        assert ordered == [each.name for each in listed]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["in", "p", "a:b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_NAMES = st.sampled_from(["in", "p", "q", "s"])
_NODE = st.fixed_dictionaries(
    {"name": _NAMES},
    optional={"topics": st.lists(_NAMES), "supplier": st.just("a:b"), "parents": st.lists(_NAMES, min_size=1),
              "stores": st.lists(_NAMES), "topic": _NAMES, "keySerde": _JSON},
)  # fmt: skip
_LISTS = st.sampled_from(["sources", "processors", "sinks", "stores", "globalStores", "readOnlyStores"])


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_anything_else_than_a_mapping_is_refused(document: object) -> None:
    assert graph_faults(document, "graph")[0].startswith("graph: expected a mapping")


@given(st.dictionaries(_LISTS, st.lists(_NODE | _JSON, max_size=4) | _JSON))
def test_whatever_is_written_has_faults_with_paths_or_none(document: dict[str, Any]) -> None:
    assert all(line.startswith("graph") for line in graph_faults(document, "graph"))
