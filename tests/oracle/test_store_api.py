"""Window, session and versioned stores as processors use them: every form of reading, against Kafka Streams."""

from __future__ import annotations

from base64 import b64decode
from random import Random
from typing import Any

import pytest

from compare import description_difference, outcome_difference, report, run_here
from oracle import Oracle

_STORES: dict[str, dict[str, Any]] = {
    "window": {"kind": "window", "size": 10},
    "duplicates": {"kind": "window", "size": 10, "duplicates": True},
    "session": {"kind": "session"},
    "headed": {"kind": "headed"},
    "headed_window": {"kind": "headed_window", "size": 10},
    "headed_session": {"kind": "headed_session"},
    "versioned": {"kind": "versioned"},
    "segments": {"kind": "versioned", "segment": 20},
}


def _program(kind: str, seed: int, engine: str, retention: int, events: int = 30) -> dict[str, Any]:
    """A processor that writes a store and reads it in every way; some records are late, some of another time."""
    random = Random(seed)
    store = {"op": "store", "name": "st", "key": "string", "value": "long", "retention": retention, **_STORES[kind]}
    if engine == "memory":
        store["engine"] = engine
    serdes = {"key": "string", "value": "long"}
    records: list[dict[str, Any]] = []
    time = random.choice([0, 100, 100_000])
    for _ in range(events):
        time += random.choice([0, 1, 2, 5, 20, random.choice([100, 70_000])])
        at = max(0, time - random.choice([0, 0, 0, 1, 4, 15, 60, 3000]))
        key, value = random.choice(["a", "b", "ab", "", None]), random.choice([*range(1, 12), None])
        if kind == "duplicates" and (value is None or value % 5 == 0):
            value = 1  # a record that is not put: then Kafka Streams finds no earlier one (docs/departures.md)
        record = {"topic": "in", "key": key, "value": value, "ts": at}
        if kind.startswith("headed"):
            record["headers"] = random.choice([[], [["h", None]], [["h", "eA=="], ["h", ""]]])
        # A deletion at the very time of a version is a departure (docs/departures.md).
        if store["kind"] != "versioned" or all((each["key"], each["ts"]) != (key, at) for each in records):
            records.append(record)
    return {
        "optimize": False,
        "steps": [
            store,
            {"op": "stream", "id": "s", "topics": ["in"], "consumed": serdes},
            {"op": "process_values", "id": "p", "of": "s", "processor": store["kind"] + "_api", "stores": ["st"]},
            {"op": "to", "of": "p", "topic": "out", "produced": {"key": "string", "value": "string"}},
        ],
        "inputs": {"in": serdes},
        "events": records,
    }


def _without_changelog(oracle: Oracle, program: dict[str, Any]) -> str | None:
    """Leaves the changelog out: records that come too late are in Kafka Streams' changelog, though no store takes
    them."""
    program = {**program, "steps": [{**program["steps"][0], "logging": False}, *program["steps"][1:]]}
    return outcome_difference(oracle, program)


@pytest.mark.seeds(6)
@pytest.mark.parametrize("retention", [50, 130_000])
@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("window", "rocksdb"),
        ("window", "memory"),
        ("session", "rocksdb"),
        ("session", "memory"),
        ("versioned", "rocksdb"),
        ("duplicates", "rocksdb"),
        ("segments", "rocksdb"),
        ("headed", "rocksdb"),
        ("headed", "memory"),
        ("headed_window", "rocksdb"),
        ("headed_window", "memory"),
        ("headed_session", "rocksdb"),
        ("headed_session", "memory"),
    ],
)
def test_stores_are_read_as_in_kafka_streams(oracle: Oracle, kind: str, engine: str, retention: int, seed: int) -> None:
    program = _program(kind, seed, engine, retention)
    assert description_difference(oracle, program) is None
    difference = report(oracle, program, _without_changelog)
    assert difference is None, difference


@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("window", "rocksdb"),
        ("session", "memory"),
        ("versioned", "rocksdb"),
        ("headed", "rocksdb"),
        ("headed_window", "rocksdb"),
        ("headed_session", "rocksdb"),
    ],
)
def test_changelogs_are_those_of_kafka_streams(oracle: Oracle, kind: str, engine: str) -> None:
    difference = report(oracle, _program(kind, 3, engine, 10_000_000), outcome_difference)
    assert difference is None, difference


def test_the_last_of_duplicates_is_fetched(oracle: Oracle) -> None:
    """Also where another window was put later, which hides it from Kafka Streams (docs/departures.md)."""
    program = _program("duplicates", 1, "rocksdb", 1000)
    puts = [("a", 1, 10), ("a", 2, 10), ("b", 3, 11), ("a", None, 10)]
    program["events"] = [{"topic": "in", "key": key, "value": value, "ts": at} for key, value, at in puts]
    found = [
        [b64decode(record["value"]).split()[0] for record in outcome["outputs"]["out"]]
        for outcome in (run_here(program), oracle.ask(kind="run", **program))
    ]
    assert found == [[b"1", b"2", b"3", b"2"], [b"1", b"2", b"3", b"null"]]


def test_groups_of_versioned_tables_leave_out_what_comes_out_of_order(oracle: Oracle) -> None:
    program = _program("versioned", 5, "rocksdb", 1)
    serdes = {"key": "string", "value": "long"}
    materialized = {"name": "st", "versioned": 10_000, "logging": False, **serdes}
    steps = [
        {"op": "table", "id": "t", "topic": "in", "consumed": serdes, "materialized": materialized},
        {"op": "map_values", "id": "m", "of": "t", "fn": "add_one"},
        {"op": "group_by", "id": "g", "of": "m", "fn": "numbers", "grouped": {"key": "long", "value": "long"}},
        {"op": "reduce", "id": "r", "of": "g", "fn": "sum", "subtract": "minus", "materialized": {"name": "sums"}},
        {"op": "to_stream", "id": "o", "of": "r"},
        {"op": "to", "of": "o", "topic": "out"},
    ]
    program = {**program, "steps": steps}
    difference = report(oracle, program, outcome_difference)
    assert difference is None, difference


@pytest.mark.parametrize(
    "join",
    [{"op": "outer_join"}, {"op": "left_join", "extractor": "same_key", "extractor_args": 2}],
    ids=["by key", "by foreign key"],
)
def test_joins_of_versioned_tables_leave_out_what_comes_out_of_order(oracle: Oracle, join: dict[str, Any]) -> None:
    program = _program("versioned", 5, "rocksdb", 1)
    serdes = {"key": "string", "value": "long"}
    kept = {"versioned": 10_000, "logging": False, **serdes}
    steps: list[dict[str, Any]] = [
        {"op": "table", "id": "a", "topic": "in", "consumed": serdes, "materialized": {"name": "st", **kept}},
        {"op": "table", "id": "b", "topic": "other", "consumed": serdes, "materialized": {"name": "st2", **kept}},
        {**join, "id": "j", "of": "a", "with": "b", "fn": "total", "materialized": {"name": "joined", **serdes}},
        {"op": "to_stream", "id": "o", "of": "j"},
        {"op": "to", "of": "o", "topic": "out", "produced": serdes},
    ]
    events = [{**event, "topic": ("in", "other")[at % 3 == 0]} for at, event in enumerate(program["events"])]
    program = {**program, "steps": steps, "inputs": {"in": serdes, "other": serdes}, "events": events}
    difference = report(oracle, program, outcome_difference)
    assert difference is None, difference


@pytest.mark.parametrize("history", [0, 30, 10_000_000])
@pytest.mark.parametrize("made_by", ["table", "to_table"])
def test_updates_of_versioned_tables_are_those_of_kafka_streams(oracle: Oracle, made_by: str, history: int) -> None:
    program = _program("versioned", 5, "rocksdb", 1)
    serdes = {"key": "string", "value": "long"}
    materialized = {"name": "st", "versioned": history, "logging": history > 1000, **serdes}
    table: list[dict[str, Any]] = [
        {"op": "table", "id": "t", "topic": "in", "consumed": serdes, "materialized": materialized}
    ]
    if made_by == "to_table":
        table = [
            {"op": "stream", "id": "s", "topics": ["in"], "consumed": serdes},
            {"op": "to_table", "id": "t", "of": "s", "materialized": materialized},
        ]
    steps = [*table, {"op": "to_stream", "id": "o", "of": "t"}, {"op": "to", "of": "o", "topic": "out"}]
    program = {**program, "steps": steps}
    assert description_difference(oracle, program) is None
    difference = report(oracle, program, outcome_difference)
    assert difference is None, difference


def test_a_deletion_at_the_time_of_the_latest_version_stays_later_than_what_is_older(oracle: Oracle) -> None:
    """Kafka Streams forgets it, so that an older value comes back as the latest (docs/departures.md)."""
    program = _program("versioned", 1, "rocksdb", 1000)
    program["events"] = [
        {"topic": "in", "key": "a", "value": value, "ts": at} for value, at in ((10, 100), (3, 100), (2, 99))
    ]
    sides = [oracle.ask(kind="run", **program), run_here(program)]
    theirs, ours = (b64decode(side["outputs"]["out"][-1]["value"]).decode().split() for side in sides)
    assert theirs[:2] == ["p-1", "2@99"]
    assert ours[:2] == ["p100", "none"]


def test_what_comes_too_late_for_a_store_is_in_the_changelog_of_kafka_streams_alone(oracle: Oracle) -> None:
    """Where the segment of a window is over (docs/departures.md)."""
    program = _program("window", 1, "rocksdb", 50)
    hours = 3_600_000
    puts = [("a", 9 * hours), ("late", hours), ("b", 9 * hours)]
    program["events"] = [{"topic": "in", "key": key, "value": 1, "ts": at} for key, at in puts]
    keys = [
        [b64decode(record["key"])[:-12] for record in outcome["outputs"]["app-st-changelog"]]
        for outcome in (run_here(program), oracle.ask(kind="run", **program))
    ]
    assert keys == [[b"a", b"b"], [b"a", b"late", b"b"]]
