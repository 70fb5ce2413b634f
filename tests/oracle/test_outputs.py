"""Programs give Kafka Streams' records, timestamps, headers and order, and the same state and changelogs."""

from __future__ import annotations

from base64 import b64decode
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


def _with_values_no_serde_writes(left: str, right: str) -> dict[str, Any]:
    """A foreign-key join of the tables "t" and "m"; "m" has the values of "u" made anew, and other readers."""
    texts = {"key": "string", "value": "string"}
    steps: list[dict[str, Any]] = [
        {"op": "table", "id": "t", "topic": "t", "consumed": texts},
        {"op": "table", "id": "u", "topic": "u", "consumed": texts},
        {"op": "map_values", "id": "m", "of": "u", "fn": "exclaim"},
        {"op": "join", "id": "j", "of": left, "with": right, "fn": "both", "materialized": texts},
        {"op": "to_stream", "id": "o", "of": "m"},
        {"op": "to", "of": "o", "topic": "out", "produced": texts},
    ]
    steps[3] |= {"extractor": "first_letter", "extractor_args": 2}
    rows = [("t", "b", "a"), ("u", "a", "cc"), ("t", "c", "a"), ("u", "a", "b")]
    events = [{"topic": topic, "key": key, "value": value, "ts": 1} for topic, key, value in rows]
    inputs = {"t": texts, "u": texts}
    return {"survives": True, "optimize": False, "steps": steps, "inputs": inputs, "events": events}


def test_the_production_handler_decides_about_a_foreign_row_that_cannot_be_sent(oracle: Oracle) -> None:
    """Kafka Streams lets the processing handler decide (docs/departures.md)."""
    program = _with_values_no_serde_writes("t", "m")
    theirs = oracle.ask(kind="run", **program)
    assert "error" not in theirs
    ours = run_here(program)
    assert (ours["error"], ours["failed_at"]) == ("SerializationError", 1)
    assert "FK-JOIN-SUBSCRIPTION-RESPONSE" in ours["message"]
    assert "declare one that fits" in ours["message"]
    going_on = run_here(program, production_exception_handler="continue")
    assert "error" not in going_on
    assert going_on["outputs"] == theirs["outputs"]
    assert len(going_on["outputs"]["out"]) == 2


def test_a_row_that_cannot_be_compared_with_its_answer_is_dropped_by_the_foreign_key_join_alone(oracle: Oracle) -> None:
    """Kafka Streams takes its update away from the table's other readers, too (docs/departures.md)."""
    program = _with_values_no_serde_writes("m", "t")
    theirs = oracle.ask(kind="run", **program)
    assert "error" not in theirs
    assert "out" not in theirs["outputs"]
    ours = run_here(program)
    assert "error" not in ours
    sent = ours["outputs"].pop("out")
    assert [b64decode(record["value"]) for record in sent] == [b"cc!", b"b!"]
    assert ours["outputs"] == theirs["outputs"]


@pytest.mark.seeds(40)
def test_outputs_match_kafka_streams_for_random_programs_of_the_dsl(seed: int, oracle: Oracle) -> None:
    difference = report(oracle, dsl_program(seed, size=12, events=EVENTS), outcome_difference)
    assert difference is None, difference


@pytest.mark.seeds(20)
def test_outputs_match_kafka_streams_for_random_programs_of_the_topology_api(seed: int, oracle: Oracle) -> None:
    difference = report(oracle, raw_program(seed, size=10, events=EVENTS, read_only=True), outcome_difference)
    assert difference is None, difference
