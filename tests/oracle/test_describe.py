"""Our topologies describe themselves byte for byte as Kafka Streams' do (but for the names of user functions)."""

from __future__ import annotations

from typing import Any

import pytest

from classics import CLASSICS
from compare import describe_here, description_difference, report
from generate_dsl import dsl_program
from generate_raw import raw_program
from oracle import Oracle

#: Small programs shrink faster and large ones find more.
SIZES = (6, 12, 25, 50)


@pytest.mark.parametrize("name", CLASSICS)
def test_describe_matches_kafka_streams_for_the_classic(name: str, oracle: Oracle) -> None:
    difference = description_difference(oracle, CLASSICS[name])
    assert difference is None, difference


_TEXTS = {"key": "string", "value": "string"}
_IN = {"op": "stream", "id": "s", "topics": ["in"], "consumed": _TEXTS}
_ROWS = {"op": "global_table", "id": "t", "topic": "rows", "consumed": _TEXTS, "materialized": {"name": "rows"}}
_KEYED = {"op": "select_key", "id": "k", "of": "s", "fn": "text_of_value"}


@pytest.mark.parametrize(
    "step",
    [
        {"op": "process", "processor": "pass"},
        {"op": "process_values", "processor": "pass"},
        {"op": "join", "with": "t", "selector": "text_of_value", "fn": "both"},
    ],
    ids=lambda step: step["op"],
)
def test_kafka_streams_moves_repartition_topics_above_what_changes_keys_or_values(
    step: dict[str, Any], oracle: Oracle
) -> None:
    """Once it does not any more, docs/departures.md has to say so, and ``compare`` need not look away."""
    grouped = {"op": "group_by_key", "id": "g", "of": "p", "grouped": _TEXTS}
    steps = [_IN, _ROWS, _KEYED, {**step, "id": "p", "of": "k"}, grouped, {"op": "count", "id": "c", "of": "g"}]
    plain: dict[str, Any] = {"steps": steps, "optimize": False}
    optimised = {"steps": steps, "optimize": True}
    theirs = [oracle.ask(kind="describe", **program)["describe"] for program in (plain, optimised)]
    assert theirs[0] != theirs[1]
    assert describe_here(plain) == describe_here(optimised) == theirs[0]


@pytest.mark.seeds(15)
@pytest.mark.parametrize("size", SIZES)
def test_describe_matches_kafka_streams_for_random_programs_of_the_dsl(size: int, seed: int, oracle: Oracle) -> None:
    difference = report(oracle, dsl_program(seed, size, events=0), description_difference)
    assert difference is None, difference


@pytest.mark.seeds(15)
@pytest.mark.parametrize("size", SIZES)
def test_describe_matches_kafka_streams_for_random_programs_of_the_topology_api(
    size: int, seed: int, oracle: Oracle
) -> None:
    difference = report(oracle, raw_program(seed, size, events=0, read_only=True), description_difference)
    assert difference is None, difference
