"""The generated names that Kafka Streams refuses with ``ensure.explicit.internal.resource.naming`` (KIP-1111), and
those that we refuse."""

from __future__ import annotations

import re
from typing import Any

import pytest

from generate_language import language_program
from generate_stream_joins import stream_join_program
from generate_suppress import suppress_program
from oracle import Oracle
from programs import build

_CONFIG = {"ensure.explicit.internal.resource.naming": "true"}
#: Kafka Streams overlooks these: foreign-key joins, the topics of tables that are grouped anew, and buffers of
#: suppressions that have no changelog.
_OVERLOOKED = re.compile(
    r"KTABLE-FK-JOIN-.*|KTABLE-(AGGREGATE|REDUCE)-.*-repartition|.*-subscription-.*|KTABLE-SUPPRESS-.*"
)


def _theirs(oracle: Oracle, program: dict[str, Any]) -> set[str] | None:
    """The names that Kafka Streams finds; ``None`` for a program that it refuses for another reason."""
    answer = oracle.ask(kind="describe", **program, config=_CONFIG)
    if "error" not in answer:
        return set()
    lists = re.findall(r"Following [a-z ]+\(s\) has not been named: (.*)", answer["message"])
    if not lists:
        return None
    return {name.strip().removesuffix("-changelog") for each in lists for name in each.split(",")}


def _ours(program: dict[str, Any]) -> set[str]:
    return set(re.findall(r"(?:state store|internal topic) ([\w.-]+)", build(program).naming_fault() or ""))


def _resources(program: dict[str, Any]) -> set[str]:
    """The stores and internal topics that a program has in the end."""
    topology = build(program)
    parts = topology.sub_topologies()
    stores = {store.name for part in parts for store in part.stores}
    topics = {source.name for part in parts for source in part.repartition_sources}
    return stores | topics | {each.store.name for each in topology.global_stores()}


@pytest.mark.seeds(10)
@pytest.mark.parametrize("make", [language_program, stream_join_program, suppress_program])
def test_generated_names_are_those_that_kafka_streams_refuses(make: Any, seed: int, oracle: Oracle) -> None:
    program = {**make(seed), "optimize": False}
    theirs = _theirs(oracle, program)
    if theirs is None:
        return
    ours = _ours(program)
    assert theirs & _resources(program) <= ours
    assert all(_OVERLOOKED.fullmatch(name) for name in ours - theirs)


def test_kafka_streams_overlooks_some_generated_names_and_refuses_stores_that_there_are_not(oracle: Oracle) -> None:
    """Once it does not any more, docs/departures.md has to say so."""
    texts = {"key": "string", "value": "string"}
    table = {"op": "table", "id": "t", "topic": "t", "consumed": texts, "materialized": {"name": "rows", **texts}}
    grouped: list[dict[str, Any]] = [
        table,
        {"op": "group_by", "id": "g", "of": "t", "fn": "value_as_key", "grouped": texts},
        {"op": "count", "id": "c", "of": "g"},
    ]
    joined = [
        table,
        {"op": "join", "of": "t", "with": "t", "fn": "both", "extractor": "first_letter", "extractor_args": 2},
    ]
    read = [{"op": "table", "id": "t", "topic": "t", "consumed": texts}, {"op": "to_stream", "id": "o", "of": "t"}]
    (unnamed,) = _theirs(oracle, {"steps": grouped, "optimize": False}) or {""}
    assert _ours({"steps": grouped, "optimize": False}) == {unnamed, f"{unnamed}-repartition"}
    assert not any("SUBSCRIPTION" in name for name in _theirs(oracle, {"steps": joined, "optimize": False}) or ())
    assert _ours({"steps": joined, "optimize": False}) >= {
        "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000002-topic",
        "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-0000000006",
    }
    assert _theirs(oracle, {"steps": read, "optimize": False}) == {"t-STATE-STORE-0000000000"}
    assert _ours({"steps": read, "optimize": False}) == set()
