"""Suppressed tables, against Kafka Streams: the time and order of results, and records of the buffer's changelog."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from compare import description_difference, outcome_difference, report, run_here
from generate_suppress import suppress_program
from oracle import Oracle

_RECORDS = [
    ("a", 3, 1),
    ("b", 4, 3),
    ("a", 5, 2),
    ("a", 1, 12),
    ("c", 1, 25),
    ("c", None, 26),
    ("b", 1, 27),
    ("a", 1, 29),
    ("a", 1, 5),
    ("d", 1, 31),
    ("d", 1, 60),
    ("q", 1, 61),
    ("q", 1, 100),
    ("q", 1, 33),
    ("r", 1, 99),
]
_CLOSES: dict[str, Any] = {"until": "window_closes"}
_WAITS: dict[str, Any] = {"until": {"time_limit": 5}}


def _program(suppress: dict[str, Any]) -> dict[str, Any]:
    headers = [["h", base64.b64encode(b"x").decode()], ["n", None]]
    return {
        "optimize": False,
        "steps": [
            {"op": "stream", "id": "s", "topics": ["in"], "consumed": {"key": "string", "value": "long"}},
            {"op": "group_by_key", "id": "g", "of": "s"},
            {"op": "windowed_by", "id": "w", "of": "g", "windows": {"kind": "time", "size": 10, "grace": 2}},
            {"op": "count", "id": "t", "of": "w", "materialized": {"name": "st", "key": "string"}},
            {"op": "suppress", "id": "u", "of": "t", **suppress},
            {"op": "to_stream", "id": "o", "of": "u"},
            {"op": "to", "of": "o", "topic": "out", "produced": {"key": "time_windowed(string,10)", "value": "long"}},
        ],
        "inputs": {"in": {"key": "string", "value": "long"}},
        "events": [
            {"topic": "in", "key": key, "value": value, "ts": at, "headers": headers if at % 2 else []}
            for key, value, at in _RECORDS
        ],
    }


@pytest.mark.parametrize(
    "suppress",
    [
        _CLOSES,
        {**_CLOSES, "name": "sup"},
        {**_CLOSES, "records": 2},
        {**_CLOSES, "bytes": 100},
        {**_CLOSES, "logging": False},
        _WAITS,
        {**_WAITS, "records": 1},
        {**_WAITS, "records": 2, "full": "emit"},
        {**_WAITS, "bytes": 150, "records": 3, "full": "emit", "name": "sup"},
        {"until": {"time_limit": 0}},
        {"until": {"time_limit": 1000}},
    ],
    ids=str,
)
def test_results_buffers_and_names_are_those_of_kafka_streams(oracle: Oracle, suppress: dict[str, Any]) -> None:
    program = _program(suppress)
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None


def test_a_window_gives_one_result_and_that_is_its_last() -> None:
    sent = run_here(_program(_CLOSES))["outputs"]["out"]
    assert len({record["key"] for record in sent}) == len(sent)
    updates = run_here(_program({"until": {"time_limit": 0}}))["outputs"]["out"]
    last = {record["key"]: record["value"] for record in updates}
    assert sent
    assert all(last[record["key"]] == record["value"] for record in sent)


def test_an_update_that_cannot_be_written_into_the_buffer_is_dropped_alone(oracle: Oracle) -> None:
    """Kafka Streams takes it away from the table's other readers, too (docs/departures.md)."""
    texts = {"key": "string", "value": "string"}
    program: dict[str, Any] = {
        "optimize": False,
        "survives": True,
        "steps": [
            {"op": "table", "id": "t", "topic": "in", "consumed": texts},
            {"op": "map_values", "id": "m", "of": "t", "fn": "exclaim"},
            {"op": "suppress", "id": "u", "of": "m", **_WAITS},
            {"op": "to_stream", "id": "o", "of": "m"},
            {"op": "to", "of": "o", "topic": "out", "produced": texts},
        ],
        "inputs": {"in": texts},
        "events": [{"topic": "in", "key": "k", "value": "v", "ts": 1}],
    }
    assert "out" not in oracle.ask(kind="run", **program)["outputs"]
    assert len(run_here(program)["outputs"]["out"]) == 1


@pytest.mark.seeds(30)
def test_random_programs_with_suppression_match_kafka_streams(seed: int, oracle: Oracle) -> None:
    program = suppress_program(seed)
    for difference in (description_difference, outcome_difference):
        found = report(oracle, program, difference)
        assert found is None, found
