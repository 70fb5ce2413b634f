"""Joins with tables by hand, against Kafka Streams: late, tied and null records, stores or none, names or none."""

from __future__ import annotations

from typing import Any

import pytest

from compare import description_difference, outcome_difference
from oracle import Oracle

_TEXTS = {"key": "string", "value": "string"}
#: Topic, key, value and timestamp of what comes in; ``s`` is a stream, ``t`` a table, ``g`` a global table.
_RECORDS: list[tuple[str, str | None, str | None, int]] = [
    ("t", "a", "t1", 5),
    ("s", "a", "s1", 1),
    ("s", "b", "s2", 2),
    ("t", "b", "T2", 3),
    ("s", "b", "s3", 9),
    ("s", None, "s4", 10),
    ("s", "a", None, 11),
    ("t", None, "x", 12),
    ("t", "a", None, 4),
    ("s", "a", "s5", 12),
    ("t", "a", "t22", 20),
    ("s", "a", "s6", 7),
    ("t", "b", "T3", 2),
    ("s", "b", "odd", 2),
    ("s", "c", "a", 30),
    ("t", "c", "cc", 30),
    ("s", "c", "b", 30),
    ("g", "a", "g1", 1),
    ("g", "s1", "g2", 1),
    ("s", "a", "s1", 31),
    ("s", "a", "a", 32),
    ("g", "a", None, 40),
    ("s", "x", "a", 41),
    ("s", "x", "", 42),
]
_CHANGED: dict[str, Any] = {"op": "select_key", "id": "k", "of": "s", "fn": "first_letter"}
_FILTERED: dict[str, Any] = {"op": "filter", "id": "f", "of": "t", "fn": "value_even"}


def _program(*steps: dict[str, Any], optimize: bool = False, **table: Any) -> dict[str, Any]:
    sources: list[dict[str, Any]] = [
        {"op": "stream", "id": "s", "topics": ["s"], "consumed": _TEXTS},
        {"op": "table", "id": "t", "topic": "t", "consumed": _TEXTS, **table},
        {"op": "global_table", "id": "g", "topic": "g", "consumed": _TEXTS},
    ]
    return {
        "optimize": optimize,
        "steps": [*sources, *steps],
        "inputs": dict.fromkeys(("s", "t", "g"), _TEXTS),
        "events": [{"topic": topic, "key": key, "value": value, "ts": at} for topic, key, value, at in _RECORDS],
    }


def _out(joined: str, topic: str = "out") -> dict[str, Any]:
    return {"op": "to", "of": joined, "topic": topic, "produced": _TEXTS}


def _differences(oracle: Oracle, program: dict[str, Any]) -> list[str]:
    answer = oracle.ask(kind="run", **program)
    if "error" in answer:  # such a program compares nothing
        return [answer["message"]]
    found = (description_difference(oracle, program), outcome_difference(oracle, program))
    return [each for each in found if each is not None]


_LEFT_AND_INNER = pytest.mark.parametrize("join", ["join", "left_join"])
_OPTIMIZED_OR_NOT = pytest.mark.parametrize("optimize", [False, True])


@_LEFT_AND_INNER
@_OPTIMIZED_OR_NOT
@pytest.mark.parametrize(
    "joined",
    [
        {"fn": "both", "joined": _TEXTS},
        {"fn": "all", "args": 3, "joined": _TEXTS},
        {"fn": "both", "joined": {**_TEXTS, "other_value": "string", "name": "named"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [[], [_CHANGED]], ids=["key kept", "key changed"])
def test_a_stream_joined_with_a_table_is_that_of_kafka_streams(
    oracle: Oracle, join: str, optimize: bool, joined: dict[str, Any], steps: list[dict[str, Any]]
) -> None:
    of = "k" if steps else "s"
    again = {"op": join, "id": "again", "of": of, "with": "t", "fn": "right", "joined": _TEXTS}
    program = _program(
        *steps,
        {"op": join, "id": "j", "of": of, "with": "t", **joined},
        _out("j"),
        again,
        _out("again", "out2"),
        optimize=optimize,
    )
    assert _differences(oracle, program) == []


@_LEFT_AND_INNER
@_OPTIMIZED_OR_NOT
@pytest.mark.parametrize(
    "derived",
    [
        [_FILTERED],
        [{**_FILTERED, "name": "named", "materialized": {**_TEXTS, "name": "st"}}],
        [{**_FILTERED, "materialized": {"key": "string"}}],
        [_FILTERED, {"op": "map_values", "id": "f", "of": "f", "fn": "exclaim"}],
        [{"op": "transform_values", "id": "f", "of": "t", "fn": "key_and_value"}],
        [{"op": "to_table", "id": "f", "of": "s"}],
        [
            {"op": "group_by", "id": "grouped", "of": "t", "fn": "first_letter", "grouped": _TEXTS},
            {"op": "reduce", "id": "f", "of": "grouped", "fn": "concat", "subtract": "unconcat"},
        ],
    ],
    ids=lambda steps: " ".join(step["op"] for step in steps),
)
def test_a_stream_joined_with_a_derived_table_looks_into_what_it_is_derived_of(
    oracle: Oracle, join: str, optimize: bool, derived: list[dict[str, Any]]
) -> None:
    program = _program(
        *derived,
        {"op": join, "id": "j", "of": "s", "with": "f", "fn": "both"},
        _out("j"),
        optimize=optimize,
        materialized={"engine": "memory", **_TEXTS},
    )
    assert _differences(oracle, program) == []


@_LEFT_AND_INNER
@pytest.mark.parametrize("selector", ["text_of_value", "null_key_if_odd", "same_key"])
@pytest.mark.parametrize("joined", [{"fn": "both"}, {"fn": "all", "args": 3, "name": "named"}], ids=str)
def test_a_stream_joined_with_a_global_table_is_that_of_kafka_streams(
    oracle: Oracle, join: str, selector: str, joined: dict[str, Any]
) -> None:
    program = _program(
        _CHANGED,
        {"op": join, "id": "j", "of": "k", "with": "g", "selector": selector, **joined},
        _out("j"),
        {"op": join, "id": "next", "of": "j", "with": "t", "fn": "both", "joined": _TEXTS},
        _out("next", "out2"),
    )
    assert _differences(oracle, program) == []
