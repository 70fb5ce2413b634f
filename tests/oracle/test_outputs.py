"""Programs give Kafka Streams' records, timestamps, headers and order, and the same state and changelogs."""

from __future__ import annotations

from typing import Any

import pytest

from classics import CLASSICS
from compare import outcome_difference, report, run_here
from generate_dsl import dsl_program
from generate_raw import raw_program
from oracle import Oracle

EVENTS = 30


@pytest.mark.parametrize("name", CLASSICS)
def test_outputs_match_kafka_streams_for_the_classic(name: str, oracle: Oracle) -> None:
    difference = outcome_difference(oracle, CLASSICS[name])
    assert difference is None, difference


def test_a_record_whose_topic_cannot_be_found_is_dropped_alone(oracle: Oracle) -> None:
    """Kafka Streams fails, though the handler says to go on (docs/departures.md)."""
    texts = {"key": "string", "value": "string"}
    steps: list[dict[str, Any]] = [
        {"op": "stream", "id": "s", "topics": ["in"], "consumed": texts},
        {"op": "to", "of": "s", "extractor": "by_value_parity", "produced": texts},
        {"op": "to", "of": "s", "topic": "all", "produced": texts},
    ]
    events = [{"topic": "in", "key": "k", "value": value, "ts": 1} for value in ("boom", "even")]
    program = {"survives": True, "optimize": False, "steps": steps, "inputs": {"in": texts}, "events": events}
    assert oracle.ask(kind="run", **program)["failed_at"] == 0
    ours = run_here(program)
    assert "error" not in ours
    assert {topic: len(records) for topic, records in ours["outputs"].items()} == {"out-even": 1, "all": 2}
    steps[1] = {"op": "to", "of": "s", "topic": "out", "produced": {**texts, "partitioner": "by_value"}}
    assert oracle.ask(kind="run", **program)["failed_at"] == 0
    ours = run_here(program)
    assert "error" not in ours
    assert {topic: len(records) for topic, records in ours["outputs"].items()} == {"out": 1, "all": 2}


@pytest.mark.seeds(40)
def test_outputs_match_kafka_streams_for_random_programs_of_the_dsl(seed: int, oracle: Oracle) -> None:
    difference = report(oracle, dsl_program(seed, size=12, events=EVENTS), outcome_difference)
    assert difference is None, difference


@pytest.mark.seeds(20)
def test_outputs_match_kafka_streams_for_random_programs_of_the_topology_api(seed: int, oracle: Oracle) -> None:
    difference = report(oracle, raw_program(seed, size=10, events=EVENTS, read_only=True), outcome_difference)
    assert difference is None, difference
