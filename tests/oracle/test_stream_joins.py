"""Joins of two streams against Kafka Streams: names, results, their order, stores; and Kafka's table of results."""

from __future__ import annotations

import base64
from itertools import product
from typing import Any

import pytest

from compare import description_difference, outcome_difference, report, run_here
from generate_stream_joins import stream_join_program
from oracle import Oracle

_TEXTS = {"key": "string", "value": "string"}
_JOINED = {**_TEXTS, "other_value": "string"}
_RECORDS: list[tuple[str, str | None, str | None, int]] = [
    ("l", "a", "1", 5),
    ("l", "a", "2", 5),
    ("r", "b", "3", 6),
    ("r", "a", "4", 9),
    ("l", None, "5", 9),
    ("r", None, "6", 10),
    ("l", "a", None, 10),
    ("r", "ab", "7", 11),
    ("l", "ab", "8", 30),
    ("r", "a", "9", 30),
    ("l", "b", "10", 14),
    ("r", "ab", "11", 20),
    ("l", "c", "12", 31),
    ("r", "c", "13", 60),
    ("l", "c", "14", 50),
    ("l", "c", "15", 40),
    ("r", "a", "16", 100),
    ("l", "a", "17", 100),
    ("l", "b", "18", 200),
]
_WINDOWS: list[dict[str, int]] = [
    {"size": 10},
    {"size": 10, "grace": 25},
    {"size": 0, "before": 10},
    {"size": 0, "after": 10, "grace": 5},
    {"size": 10, "before": -2},
]
_KINDS = ["join", "left_join", "outer_join"]


def _program(join: dict[str, Any], *before: dict[str, Any], optimize: bool = False) -> dict[str, Any]:
    sources = [{"op": "stream", "id": topic, "topics": [topic], "consumed": _TEXTS} for topic in ("l", "r")]
    whole = {"id": "j", "of": "l", "with": "r", "fn": "both", "stream_joined": _JOINED, **join}
    return {
        "optimize": optimize,
        "steps": [*sources, *before, whole, {"op": "to", "of": "j", "topic": "out", "produced": _TEXTS}],
        "inputs": {"l": _TEXTS, "r": _TEXTS},
        "events": [{"topic": topic, "key": key, "value": value, "ts": at} for topic, key, value, at in _RECORDS],
    }


def _agree(oracle: Oracle, program: dict[str, Any]) -> None:
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None


def _results(program: dict[str, Any]) -> list[tuple[str, int]]:
    """Value and timestamp of all that comes out."""
    out = run_here(program)["outputs"].get("out", [])
    return [(base64.b64decode(record["value"]).decode(), record["ts"]) for record in out]


@pytest.mark.parametrize(("kind", "windows"), list(product(_KINDS, _WINDOWS)), ids=str)
def test_results_stores_and_names_are_those_of_kafka_streams(
    oracle: Oracle, kind: str, windows: dict[str, int]
) -> None:
    _agree(oracle, _program({"op": kind, "windows": windows}))


@pytest.mark.parametrize(
    "options",
    [{"name": "named"}, {"store_name": "kept"}, {"name": "named", "store_name": "kept"}, {"logging": False}],
    ids=str,
)
@pytest.mark.parametrize("kind", _KINDS)
def test_options_name_nodes_stores_and_topics_as_in_kafka_streams(
    oracle: Oracle, kind: str, options: dict[str, Any]
) -> None:
    changed = {"op": "select_key", "id": "k", "of": "l", "fn": "same_key"}
    join = {"op": kind, "windows": {"size": 10}, "fn": "all", "args": 3, "stream_joined": {**_JOINED, **options}}
    _agree(oracle, _program({**join, "of": "k"}, changed))


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize("kind", _KINDS)
def test_a_stream_is_joined_with_itself(oracle: Oracle, kind: str, optimize: bool) -> None:
    program = _program({"op": kind, "windows": {"size": 10}, "with": "l"}, optimize=optimize)
    program["events"] = [event for event in program["events"] if event["key"] is not None]
    _agree(oracle, program)


@pytest.mark.parametrize("optimize", [False, True])
def test_joins_of_one_stream_share_its_repartition_topic(oracle: Oracle, optimize: bool) -> None:
    changed = {"op": "select_key", "id": "k", "of": "l", "fn": "first_letter"}
    first = {"op": "left_join", "id": "f", "of": "k", "with": "r", "fn": "both", "windows": {"size": 5}}
    second = {"op": "join", "windows": {"size": 50}, "of": "k", "with": "f"}
    _agree(oracle, _program(second, changed, {**first, "stream_joined": _JOINED}, optimize=optimize))


def test_a_record_that_fails_alone_is_dropped_and_the_others_go_on(oracle: Oracle) -> None:
    """In Kafka Streams it fails again and again, and takes others with it (docs/departures.md)."""
    program = {**_program({"op": "left_join", "windows": {"size": 10}}), "survives": True}
    records = [("l", "a", "boom", 0), ("l", "b", "fine", 20), ("l", "c", "alone", 22), ("l", "d", "last", 40)]
    program["events"] = [{"topic": topic, "key": key, "value": value, "ts": at} for topic, key, value, at in records]
    assert _results(program) == [("fine/null", 20), ("alone/null", 22)]
    assert "out" not in oracle.ask(kind="run", **program)["outputs"]


def _supplied(name: str, **other: Any) -> dict[str, Any]:
    return {"name": name, "size": 13, "retention": 20, "duplicates": True, **other}


@pytest.mark.parametrize("kind", ["join", "left_join", "outer_join"])
@pytest.mark.parametrize(
    "suppliers",
    [
        {"this": _supplied("mine"), "other": _supplied("yours", engine="memory")},
        {"this": _supplied("mine", engine="memory"), "store_name": "named", "name": "joined"},
        {"other": _supplied("yours"), "store_name": "named"},
        {"other": _supplied("yours", engine="memory"), "logging": False},
    ],
    ids="-".join,
)
def test_stores_that_suppliers_name_have_kafka_streams_names_and_records(
    oracle: Oracle, kind: str, suppliers: dict[str, Any]
) -> None:
    windows = {"size": 10, "before": 3, "grace": 7}
    program = _program({"op": kind, "windows": windows, "stream_joined": {**_JOINED, **suppliers}})
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None
    described = run_here(program)["describe"]
    assert all(f"stores: [{suppliers[side]['name']}" in described for side in suppliers.keys() & {"this", "other"})


@pytest.mark.parametrize(
    ("supplier", "fault"),
    [
        ({"size": 12}, "join: store mine has windows of 12 ms, kept for 20 ms; these JoinWindows need 13 ms"),
        ({"retention": 21}, "join: store mine has windows of 13 ms, kept for 21 ms; these JoinWindows need 13 ms"),
        ({"duplicates": False}, "join: store mine would keep one record of a key and time; make its supplier with"),
    ],
)
def test_a_supplier_of_other_windows_is_refused_as_in_kafka_streams(
    oracle: Oracle, supplier: dict[str, Any], fault: str
) -> None:
    windows = {"size": 10, "before": 3, "grace": 7}
    joined = {**_JOINED, "this": _supplied("mine", **supplier)}
    program = _program({"op": "join", "windows": windows, "stream_joined": joined})
    assert oracle.ask(kind="describe", **program)["error"] == "StreamsException"
    assert run_here(program)["message"].startswith(fault)


@pytest.mark.seeds(25)
def test_random_joins_agree_with_kafka_streams(seed: int, oracle: Oracle) -> None:
    program = stream_join_program(seed)
    assert description_difference(oracle, program) is None
    difference = report(oracle, program, outcome_difference)
    assert difference is None, difference


# ---- Kafka's table of the results of joins ---------------------------------------------------------------------

_TABLE: list[tuple[str, str | None, list[str]]] = [
    ("l", None, []),
    ("r", None, []),
    ("l", "A", []),
    ("r", "a", ["A/a"]),
    ("l", "B", ["B/a"]),
    ("r", "b", ["A/b", "B/b"]),
    ("l", None, []),
    ("r", None, []),
    ("l", "C", ["C/a", "C/b"]),
    ("r", "c", ["A/c", "B/c", "C/c"]),
    ("r", None, []),
    ("l", None, []),
    ("r", None, []),
    ("r", "d", ["A/d", "B/d", "C/d"]),
    ("l", "D", ["D/a", "D/b", "D/c", "D/d"]),
]


@pytest.mark.parametrize(
    ("kind", "after_the_windows"),
    [("join", []), ("left_join", ["E/null"]), ("outer_join", ["E/null", "null/e"])],
)
def test_results_are_those_of_kafkas_table(oracle: Oracle, kind: str, after_the_windows: list[str]) -> None:
    """All 15 inputs are within one window; then ``E`` and ``e`` find nothing, which ``F`` makes known."""
    records = [(side, value, second * 1000) for second, (side, value, _) in enumerate(_TABLE, 1)]
    records += [("l", "E", 40_000), ("r", "e", 60_000), ("l", "F", 80_000)]
    program = _program({"op": kind, "windows": {"size": 15_000}})
    program["events"] = [{"topic": side, "key": "k", "value": value, "ts": at} for side, value, at in records]
    expected = [result for _, _, results in _TABLE for result in results]
    assert [value for value, _ in _results(program)] == expected + after_the_windows
    assert outcome_difference(oracle, program) is None


# ---- departures ------------------------------------------------------------------------------------------------


def _in_order(join: dict[str, Any], *, optimize: bool) -> set[tuple[str, int]]:
    """Results of records that come in the order of their times, none of them late."""
    program = _program({**join, "with": "l"}, optimize=optimize)
    program["events"].sort(key=lambda event: event["ts"])
    return set(_results(program))


@pytest.mark.parametrize(
    ("kind", "windows", "some"),
    [
        ("join", {"size": 10}, {("8/8", 30)}),
        ("left_join", {"size": 10}, {("5/null", 9)}),
        ("outer_join", {"size": 10}, {("5/null", 9), ("null/5", 9)}),
    ],
    ids=["inner", "left", "outer"],
)
def test_optimising_a_join_with_itself_changes_no_result(
    kind: str, windows: dict[str, int], some: set[tuple[str, int]]
) -> None:
    join = {"op": kind, "windows": windows}
    optimised = _in_order(join, optimize=True)
    assert optimised == _in_order(join, optimize=False)
    assert some <= optimised


def test_a_record_outside_of_its_own_window_is_not_joined_with_itself() -> None:
    found = _in_order({"op": "join", "windows": {"size": 10, "before": -4}}, optimize=True)
    assert found == {("12/15", 40), ("15/14", 50)}


def test_a_record_that_fails_expires_what_comes_too_late_after_it_with_optimisation_and_without(
    oracle: Oracle,
) -> None:
    """Optimised, Kafka Streams forgets the time of the record that failed (docs/departures.md)."""
    program = {**_program({"op": "join", "with": "l", "windows": {"size": 10}}), "survives": True}
    records = [("a", "boom", 100), ("b", "late", 50), ("c", "fine", 100)]
    program["events"] = [{"topic": "l", "key": key, "value": value, "ts": at} for key, value, at in records]
    for optimize, sent_there in ((False, 1), (True, 2)):
        program["optimize"] = optimize
        assert len(oracle.ask(kind="run", **program)["outputs"]["out"]) == sent_there
        assert _results(program) == [("fine/fine", 100)]


def test_records_of_the_same_time_are_joined_in_windows_of_no_length() -> None:
    assert _results(_program({"op": "join", "windows": {"size": 0}})) == [("17/16", 100)]


def test_a_record_without_value_expires_nothing() -> None:
    program = _program(
        {"op": "join", "windows": {"size": 10, "grace": 5}, "stream_joined": {**_JOINED, "engine": "memory"}}
    )
    records = [("r", "kept", 100), ("r", None, 130), ("l", "late", 105)]
    program["events"] = [{"topic": topic, "key": "k", "value": value, "ts": at} for topic, value, at in records]
    assert _results(program) == [("late/kept", 105)]


@pytest.mark.parametrize(
    ("windows", "records", "results"),
    [
        # Kafka Streams keeps records for 10 ms, and the second record is that much later.
        ({"size": 0, "after": 10}, [("l", "1", 120), ("l", "2", 130), ("r", "3", 130)], [("1/3", 130), ("2/3", 130)]),
        # It keeps them for 27 ms, though a partner may come 30 ms later.
        ({"size": 30, "before": -3}, [("l", "1", 100), ("l", "2", 128), ("r", "3", 130)], [("1/3", 130)]),
        ({"size": 30, "after": -3}, [("r", "1", 100), ("r", "2", 128), ("l", "3", 130)], [("3/1", 130)]),
    ],
    ids=["one-sided", "later", "earlier"],
)
def test_windows_on_one_side_lose_no_pair(
    windows: dict[str, int], records: list[tuple[str, str, int]], results: list[tuple[str, int]]
) -> None:
    program = _program({"op": "join", "windows": windows})
    program["events"] = [{"topic": topic, "key": "k", "value": value, "ts": at} for topic, value, at in records]
    assert _results(program) == results
