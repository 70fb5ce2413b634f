"""Joins with tables by hand, against Kafka Streams: late, tied and null records, stores or none, names or none."""

from __future__ import annotations

from typing import Any

import pytest

from compare import description_difference, outcome_difference, report, run_here
from generate_table_joins import TableJoinGenerator
from oracle import Oracle

_TEXTS = {"key": "string", "value": "string"}
#: Topic, key, value and timestamp of what comes in: into a stream, a table ``t`` and a global table ``g``.
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


#: Of what comes into tables that are joined: both orders, ties, deletions of what is there and of what is not.
_UPDATES: list[tuple[str, str | None, str | None, int]] = [
    ("t", "a", "t1", 5),
    ("u", "a", "u1", 3),
    ("u", "b", "u2", 9),
    ("t", "b", "t2", 4),
    ("t", "a", None, 6),
    ("u", "a", "u33", 7),
    ("t", "a", "t44", 2),
    ("u", "a", None, 8),
    ("u", "a", None, 9),
    ("t", "a", None, 1),
    ("t", None, "x", 1),
    ("u", None, None, 2),
    ("t", "c", "t5", 10),
    ("t", "c", "t66", 11),
    ("u", "c", "u5", 12),
    ("u", "c", "u6", 3),
    ("u", "c", None, 4),
    ("t", "c", "xx", 20),
    ("u", "c", "u77", 20),
    ("t", "c", None, 20),
    ("u", "c", None, 20),
    ("v", "a", "v1", 3),
    ("t", "a", "t7", 22),
    ("u", "a", "u8", 23),
    ("v", "a", None, 24),
    ("v", "b", "v33", 25),
    ("u", "b", "uu", 26),
    ("t", "b", None, 27),
]


def _tables(*steps: dict[str, Any], optimize: bool = False) -> dict[str, Any]:
    """A program on the tables ``t`` and ``u`` and the stream ``v``."""
    sources: list[dict[str, Any]] = [
        {"op": "table", "id": "t", "topic": "t", "consumed": _TEXTS},
        {"op": "table", "id": "u", "topic": "u", "consumed": _TEXTS},
        {"op": "stream", "id": "v", "topics": ["v"], "consumed": _TEXTS},
    ]
    return {
        "optimize": optimize,
        "steps": [*sources, *steps],
        "inputs": dict.fromkeys(("t", "u", "v"), _TEXTS),
        "events": [{"topic": topic, "key": key, "value": value, "ts": at} for topic, key, value, at in _UPDATES],
    }


def _streamed(table: str, **produced: str) -> list[dict[str, Any]]:
    """The updates of a table in a topic of its name."""
    return [
        {"op": "to_stream", "id": f"{table} stream", "of": table},
        {"op": "to", "of": f"{table} stream", "topic": f"out-{table}", "produced": _TEXTS | produced},
    ]


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


_JOINS = pytest.mark.parametrize("join", ["join", "left_join", "outer_join"])
_STORED = {"materialized": {**_TEXTS, "name": "joined"}}
_STORED_OR_NOT = pytest.mark.parametrize("stored", [{}, _STORED], ids=["no store", "stored"])


@_JOINS
@_OPTIMIZED_OR_NOT
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"name": "named"},
        _STORED,
        {"name": "named", "materialized": {**_TEXTS, "name": "joined", "engine": "memory"}},
        {"materialized": _TEXTS},
    ],
    ids=str,
)
@pytest.mark.parametrize("fn", ["both", "right", "null_if_odd_total"])
def test_tables_joined_by_key_are_those_of_kafka_streams(
    oracle: Oracle, join: str, optimize: bool, options: dict[str, Any], fn: str
) -> None:
    value = "long" if fn == "null_if_odd_total" else "string"
    if "materialized" in options:
        options = {**options, "materialized": {**options["materialized"], "value": value}}
    joined = {"op": join, "id": "j", "of": "t", "with": "u", "fn": fn, **options}
    assert _differences(oracle, _tables(joined, *_streamed("j", value=value), optimize=optimize)) == []


@_JOINS
@_STORED_OR_NOT
def test_derived_tables_join_and_joined_tables_are_derived_of(
    oracle: Oracle, join: str, stored: dict[str, Any]
) -> None:
    program = _tables(
        {"op": "filter", "id": "left", "of": "t", "fn": "value_even"},
        {"op": "filter", "id": "even", "of": "u", "fn": "value_even"},
        {"op": "map_values", "id": "right", "of": "even", "fn": "exclaim"},
        {"op": join, "id": "j", "of": "left", "with": "right", "fn": "both", **stored},
        {"op": "filter", "id": "f", "of": "j", "fn": "value_even"},
        {"op": "group_by", "id": "g", "of": "j", "fn": "first_letter", "grouped": _TEXTS},
        {"op": "reduce", "id": "r", "of": "g", "fn": "concat", "subtract": "unconcat"},
        *_streamed("j"),
        *_streamed("f"),
        *_streamed("r"),
    )
    assert _differences(oracle, program) == []


@_JOINS
@_STORED_OR_NOT
@pytest.mark.parametrize("then", ["join", "left_join", "outer_join"])
def test_joins_are_chained_and_join_what_they_were_made_of(
    oracle: Oracle, join: str, then: str, stored: dict[str, Any]
) -> None:
    program = _tables(
        {"op": "to_table", "id": "w", "of": "v"},
        {"op": join, "id": "j", "of": "t", "with": "u", "fn": "both", **stored},
        {"op": then, "id": "k", "of": "j", "with": "w", "fn": "both"},
        {"op": then, "id": "l", "of": "t", "with": "j", "fn": "both"},
        {"op": join, "id": "self", "of": "u", "with": "u", "fn": "both"},
        {"op": "left_join", "id": "s", "of": "v", "with": "k", "fn": "both"},
        *_streamed("k"),
        *_streamed("l"),
        *_streamed("self"),
        _out("s"),
    )
    assert _differences(oracle, program) == []


@_JOINS
@_STORED_OR_NOT
def test_aggregated_windowed_and_suppressed_tables_join(oracle: Oracle, join: str, stored: dict[str, Any]) -> None:
    windows = {"kind": "time", "size": 10, "advance": 5, "grace": 2}
    stored = {"materialized": {**stored["materialized"], "key": "time_windowed(string,10)"}} if stored else {}
    program = _tables(
        {"op": "to_stream", "id": "s", "of": "t"},
        {"op": "group_by_key", "id": "g", "of": "s", "grouped": _TEXTS},
        {"op": "windowed_by", "id": "w", "of": "g", "windows": windows},
        {"op": "reduce", "id": "left", "of": "w", "fn": "concat"},
        {"op": "group_by_key", "id": "h", "of": "v"},
        {"op": "windowed_by", "id": "x", "of": "h", "windows": windows},
        {"op": "reduce", "id": "right", "of": "x", "fn": "concat"},
        {"op": join, "id": "windowed", "of": "left", "with": "right", "fn": "both", **stored},
        {"op": "reduce", "id": "aggregated", "of": "h", "fn": "concat"},
        {"op": join, "id": "j", "of": "aggregated", "with": "u", "fn": "both"},
        {"op": "suppress", "id": "p", "of": "t", "until": {"time_limit": 5}},
        {"op": join, "id": "late", "of": "u", "with": "p", "fn": "both"},
        *_streamed("windowed", key="time_windowed(string,10)"),
        *_streamed("j"),
        *_streamed("late"),
    )
    assert _differences(oracle, program) == []


#: Of what comes into tables joined by foreign key, the first letter of a value: changes of the key, none at all.
_ROWS: list[tuple[str, str | None, str | None, int]] = [
    ("t", "1", "a", 5),
    ("u", "a", "u1", 3),
    ("t", "2", "abc", 9),
    ("u", "b", "u2", 9),
    ("t", "1", "bcd", 6),
    ("u", "a", "u33", 7),
    ("t", "1", "b22", 2),
    ("u", "b", None, 8),
    ("u", "b", "u9", 9),
    ("t", "1", None, 1),
    ("t", None, "x", 1),
    ("u", None, None, 2),
    ("t", "3", "", 10),
    ("t", "3", "a", 11),
    ("u", "a", "", 12),
    ("t", "3", "", 13),
    ("t", "2", "zzz", 20),
    ("u", "a", "u77", 20),
    ("t", "4", "q", 20),
    ("t", "4", None, 20),
    ("u", "q", "q", 21),
    ("t", "5", None, 22),
    ("t", "2", "abc", 1),
    ("u", "a", None, 30),
    ("u", "a", None, 31),
    ("t", "2", "a", 31),
    ("u", "a", "LLL", 2),
    ("v", "2", "a", 33),
    ("t", "6", "a-value-of-more-than-sixteen-bytes", 40),
    ("u", "a", "M", 50),
]
_FOREIGN = {"extractor": "first_letter", "extractor_args": 2, "fn": "both"}


def _by_foreign_key(*steps: dict[str, Any], optimize: bool = False) -> dict[str, Any]:
    events = [{"topic": topic, "key": key, "value": value, "ts": at} for topic, key, value, at in _ROWS]
    return {**_tables(*steps, optimize=optimize), "events": events}


@_LEFT_AND_INNER
@pytest.mark.parametrize(
    "options",
    [{}, {"table_joined": "named", **_STORED}, {"materialized": {**_TEXTS, "name": "joined", "engine": "memory"}}],
    ids=str,
)
@pytest.mark.parametrize(
    "extractor",
    [
        {"extractor": "first_letter", "extractor_args": 2},
        {"extractor": "null_key_if_odd", "extractor_args": 2},
        {"extractor": "null_if_odd"},
        {"extractor": "identity"},
    ],
    ids=str,
)
def test_tables_joined_by_foreign_key_are_those_of_kafka_streams(
    oracle: Oracle, join: str, options: dict[str, Any], extractor: dict[str, Any]
) -> None:
    joined = {"op": join, "id": "j", "of": "t", "with": "u", "fn": "both", **extractor, **options}
    assert _differences(oracle, _by_foreign_key(joined, *_streamed("j"))) == []


@_LEFT_AND_INNER
@_OPTIMIZED_OR_NOT
@pytest.mark.parametrize("stored", [{"materialized": _TEXTS}, _STORED], ids=["no store", "stored"])
def test_what_was_joined_by_foreign_key_is_joined_and_derived_of(
    oracle: Oracle, join: str, optimize: bool, stored: dict[str, Any]
) -> None:
    program = _by_foreign_key(
        {"op": "filter", "id": "even", "of": "u", "fn": "value_even"},
        {"op": join, "id": "filtered", "of": "t", "with": "even", **_FOREIGN},
        {"op": join, "id": "j", "of": "t", "with": "u", **_FOREIGN, **stored},
        {"op": "outer_join", "id": "k", "of": "j", "with": "t", "fn": "both"},
        {"op": join, "id": "again", "of": "j", "with": "u", **_FOREIGN},
        {"op": join, "id": "self", "of": "t", "with": "t", **_FOREIGN},
        {"op": "group_by", "id": "g", "of": "j", "fn": "first_letter", "grouped": _TEXTS},
        {"op": "reduce", "id": "r", "of": "g", "fn": "concat", "subtract": "unconcat"},
        {"op": "left_join", "id": "s", "of": "v", "with": "j", "fn": "both"},
        *_streamed("filtered"),
        *_streamed("k"),
        *_streamed("again"),
        *_streamed("self"),
        *_streamed("r"),
        _out("s"),
        optimize=optimize,
    )
    assert _differences(oracle, program) == []


@_LEFT_AND_INNER
@pytest.mark.parametrize("filtered", [False, True])
def test_a_stream_is_joined_with_what_a_versioned_table_had_at_the_records_time(
    oracle: Oracle, join: str, filtered: bool
) -> None:
    program = _program(
        _FILTERED,
        {"op": join, "id": "j", "of": "s", "with": "f" if filtered else "t", "fn": "both"},
        _out("j"),
        materialized={**_TEXTS, "name": "versions", "versioned": 1000},
    )
    assert description_difference(oracle, program) is None
    theirs = oracle.ask(kind="run", **program)["outputs"]["out"]
    assert run_here(program)["outputs"]["out"] == theirs


@pytest.mark.seeds(30)
def test_random_joins_with_tables_are_those_of_kafka_streams(seed: int, oracle: Oracle) -> None:
    program = TableJoinGenerator(seed).generate(events=30)
    for difference in (description_difference, outcome_difference):
        found = report(oracle, program, difference)
        assert found is None, found


def test_the_changelog_of_subscriptions_has_headers_in_kafka_streams_alone(oracle: Oracle) -> None:
    """Those of the records that made them, which change no result (docs/departures.md)."""
    join = {"op": "join", "id": "j", "of": "t", "with": "u", "extractor": "first_letter", "extractor_args": 2}
    program = _tables({**join, "fn": "both", "materialized": {"name": "joined", **_TEXTS}})
    for event in program["events"]:
        event["headers"] = [["h", "eA=="]]
    theirs, ours = oracle.ask(kind="run", **program)["outputs"], run_here(program)["outputs"]
    (changelog,) = [topic for topic in ours if "SUBSCRIPTION-STATE-STORE" in topic]
    assert {tuple(map(tuple, each["headers"])) for each in theirs[changelog]} == {(("h", "eA=="),)}
    for record in theirs[changelog]:
        record["headers"] = []
    assert theirs == ours
