"""Windowed programs by hand, against Kafka Streams: late records, ties, nulls, and when results go out."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from compare import description_difference, outcome_difference, report, run_here
from functions import UNLUCKY
from generate_windows import window_program
from oracle import Oracle

_RECORDS = [
    ("a", 3, 1),
    ("a", 4, 12),
    ("b", 4, 50),
    ("a", 1, 3),
    ("a", None, 52),
    ("c", 7, 44),
    ("c", 7, 41),
    ("b", 1, 55),
    (None, 3, 60),
    ("b", 2, 75),
    ("a", 9, 100),
]
_HOPPING = {"kind": "time", "size": 10, "advance": 5, "grace": 2}
_SUM: dict[str, Any] = {
    "op": "aggregate",
    "init": "zero",
    "fn": "sum",
    "materialized": {"name": "st", "value": "long"},
}


def _program(windows: dict[str, Any], aggregation: dict[str, Any], **windowed_by: Any) -> dict[str, Any]:
    return {
        "optimize": False,
        "steps": [
            {"op": "stream", "id": "s", "topics": ["in"], "consumed": {"key": "string", "value": "long"}},
            {"op": "group_by_key", "id": "g", "of": "s"},
            {"op": "windowed_by", "id": "w", "of": "g", "windows": windows, **windowed_by},
            {**aggregation, "id": "t", "of": "w"},
            {"op": "to_stream", "id": "o", "of": "t"},
            {"op": "to", "of": "o", "topic": "out", "produced": {"key": "time_windowed(string,10)", "value": "long"}},
        ],
        "inputs": {"in": {"key": "string", "value": "long"}},
        "events": [{"topic": "in", "key": key, "value": value, "ts": at} for key, value, at in _RECORDS],
    }


@pytest.mark.parametrize(
    "aggregation",
    [
        _SUM,
        {"op": "count"},
        {"op": "count", "materialized": {"key": "string"}},
        {"op": "count", "name": "counts", "materialized": {"name": "st", "retention": 500}},
        {"op": "reduce", "fn": "sum"},
        {"op": "reduce", "fn": "null_if_odd_sum", "materialized": {"name": "st"}},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "windows",
    [
        _HOPPING,
        {"kind": "time", "size": 10},
        {"kind": "time", "size": 30, "grace": 40},
        {"kind": "unlimited", "start": 10},
        {"kind": "sliding", "size": 10},
        {"kind": "sliding", "size": 5, "grace": 30},
    ],
    ids=str,
)
def test_results_stores_and_names_are_those_of_kafka_streams(
    oracle: Oracle, windows: dict[str, Any], aggregation: dict[str, Any]
) -> None:
    program = _program(windows, aggregation)
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None


@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
@pytest.mark.parametrize("advance", [0, 400, 1500])
def test_final_results_go_out_when_kafka_streams_sends_them(oracle: Oracle, advance: int, engine: str) -> None:
    # With a retention that is long enough: else Kafka Streams expires windows before it has sent them.
    kept = deepcopy(_SUM)
    kept["materialized"] |= {"retention": 10_000, "engine": engine}
    program = _program(_HOPPING, kept, emit="close")
    program["events"] = [each for event in program["events"] for each in (event, {"advance": advance})]
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None


@pytest.mark.parametrize("kind", ["time", "sliding"])
@pytest.mark.parametrize("kept", [None, 30, 40])
@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
def test_windows_that_go_out_on_close_are_read_to_the_end_of_their_retention(
    oracle: Oracle, kind: str, kept: int | None, engine: str
) -> None:
    """A join reads each table's store when the other one sends: in RocksDB, windows are there for a millisecond longer
    than in memory, where those with the least retention are gone."""
    windows: dict[str, Any] = {"kind": kind, "size": 10}
    stored: dict[str, Any] = {"key": "string", "engine": engine}
    if kept is not None:
        stored["retention"] = kept
    program = _program(windows, _SUM | {"materialized": stored | {"name": "st", "value": "long"}}, emit="close")
    program["steps"][4:] = [
        {"op": "windowed_by", "id": "v", "of": "g", "windows": windows, "emit": "close"},
        {"op": "count", "id": "u", "of": "v", "materialized": stored | {"name": "counts"}},
        {"op": "join", "id": "j", "of": "t", "with": "u", "fn": "total"},
        {"op": "to_stream", "id": "o", "of": "j"},
        program["steps"][-1],
    ]
    times = range(0, 60, 10 if kind == "sliding" else 5)
    events = [({"topic": "in", "key": "a", "value": at, "ts": at}, {"advance": 1000}) for at in times]
    program["events"] = [each for pair in events for each in pair]
    if engine == "memory" and kept is None and kind == "time":
        assert not oracle.ask(kind="run", **program)["outputs"].get("out")  # a loss that docs/departures.md lists
        assert len(run_here(program)["outputs"]["out"]) == 5
        return
    assert outcome_difference(oracle, program) is None
    assert len(run_here(program)["outputs"]["out"]) > 5


def test_no_final_result_is_lost_where_the_retention_is_the_least_that_is_possible() -> None:
    """Kafka Streams sends one of these ten: it expires the others first."""
    sent = run_here(_program(_HOPPING, _SUM, emit="close"))["outputs"]["out"]
    assert len(sent) == 10


def test_a_record_without_key_is_written_where_keys_have_windows(oracle: Oracle) -> None:
    """Kafka Streams fails for it (docs/departures.md)."""
    program = _program(_HOPPING, _SUM)
    program["steps"][-2]["fn"] = "null_key_if_odd"
    program["events"] = program["events"][:1]
    assert "NullPointerException" in str(oracle.ask(kind="run", **program)["causes"])
    assert [record["key"] for record in run_here(program)["outputs"]["out"]] == [None]


_MERGED_SUM = {**_SUM, "merge": "sum"}


@pytest.mark.parametrize("emit", ["update", "close"])
@pytest.mark.parametrize(
    "aggregation",
    [
        _MERGED_SUM,
        {"op": "count", "materialized": {"key": "string"}},
        {"op": "count", "name": "counts", "materialized": {"name": "st", "engine": "memory"}},
        {"op": "reduce", "fn": "null_if_odd_sum", "materialized": {"name": "st", "engine": "memory"}},
    ],
    ids=str,
)
@pytest.mark.parametrize("windows", [{"gap": 5}, {"gap": 10, "grace": 2}, {"gap": 3, "grace": 40}], ids=str)
def test_sessions_are_those_of_kafka_streams(
    oracle: Oracle, windows: dict[str, Any], aggregation: dict[str, Any], emit: str
) -> None:
    kept = deepcopy(aggregation)
    kept.setdefault("materialized", {})["retention"] = 10_000
    program = _program({"kind": "session", **windows}, kept, emit=emit)
    program["steps"][-1]["produced"]["key"] = "session_windowed(string)"
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None


def test_a_session_that_is_just_as_old_as_its_retention_is_as_in_kafka_streams_without_caches(oracle: Oracle) -> None:
    """Its caches keep a session longer (docs/departures.md)."""
    program = _program({"kind": "session", "gap": 30}, deepcopy(_MERGED_SUM))
    program["steps"][-1]["produced"]["key"] = "session_windowed(string)"
    records = [("b", 3, 335), ("a", 5, 305), ("a", 1, 328)]
    program["events"] = [{"topic": "in", "key": key, "value": value, "ts": at} for key, value, at in records]
    cached = oracle.ask(kind="run", cache=True, **program)["outputs"]["out"]
    assert outcome_difference(oracle, program) is None
    last = run_here(program)["outputs"]["out"][-1]
    assert last != cached[-1]
    program["steps"][-3]["materialized"]["retention"] = 100
    kept = run_here(program)["outputs"]["out"]
    assert kept[-1] == cached[-1]
    assert outcome_difference(oracle, program) is None


def test_a_session_is_kept_where_a_record_that_would_extend_it_fails(oracle: Oracle) -> None:
    """Kafka Streams loses it (docs/departures.md)."""
    program = {**_program({"kind": "session", "gap": 5}, deepcopy(_MERGED_SUM)), "survives": True}
    program["steps"][-1]["produced"]["key"] = "session_windowed(string)"
    records = [("a", 3, 0), ("a", UNLUCKY, 2)]
    program["events"] = [{"topic": "in", "key": key, "value": value, "ts": at} for key, value, at in records]
    assert run_here(program)["stores"]["st"] == [[{"key": "a", "start": 0, "end": 0}, 3]]
    assert oracle.ask(kind="run", **program)["stores"]["st"] == []


@pytest.mark.parametrize(
    ("windows", "aggregation", "key"),
    [
        ({"kind": "time", "size": 10}, _SUM, "time_windowed(string,10)"),
        ({"kind": "sliding", "size": 10}, _SUM, "time_windowed(string,10)"),
        ({"kind": "session", "gap": 5}, _MERGED_SUM, "session_windowed(string)"),
    ],
    ids=["time", "sliding", "session"],
)
def test_a_record_that_fails_sends_the_windows_that_its_time_closes(
    oracle: Oracle, windows: dict[str, Any], aggregation: dict[str, Any], key: str
) -> None:
    """In Kafka Streams they wait for a record that does not fail (docs/departures.md)."""
    program = {**_program(windows, deepcopy(aggregation), emit="close"), "survives": True}
    program["steps"][-1]["produced"]["key"] = key
    next(step for step in program["steps"] if "materialized" in step)["materialized"]["retention"] = 100_000
    records = [("a", 3, 0), ("a", UNLUCKY, 50), ("b", 4, 51)]
    events = [{"topic": "in", "key": key, "value": value, "ts": at} for key, value, at in records]
    program["events"] = events[:2]
    sent = run_here(program)["outputs"]["out"]
    assert [record["ts"] for record in sent] == [0]
    assert oracle.ask(kind="run", **program)["outputs"].get("out", []) == []
    program["events"] = events
    assert run_here(program)["outputs"]["out"] == oracle.ask(kind="run", **program)["outputs"]["out"] == sent


@pytest.mark.parametrize(
    ("windows", "key"),
    [
        (_HOPPING, "time_windowed(string,10)"),
        ({"kind": "sliding", "size": 10, "grace": 50}, "time_windowed(string,10)"),
        ({"kind": "session", "gap": 1, "grace": 50}, "session_windowed(string)"),
    ],
    ids=["hopping", "sliding", "session"],
)
def test_at_commits_a_window_that_is_deleted_is_sent_only_where_it_was_known(
    oracle: Oracle, windows: dict[str, Any], key: str
) -> None:
    """As with Kafka Streams' caches. They leave its deletion out of the changelog, too (docs/departures.md)."""
    aggregation = {**_SUM, "fn": "null_if_odd", "merge": "null_if_odd_sum"}
    if windows["kind"] != "session":
        del aggregation["merge"]
    aggregation["materialized"] = {**_SUM["materialized"], "retention": 10_000, "emit": "commit"}
    program = _program(windows, aggregation)
    program["steps"][-1]["produced"]["key"] = key
    records = [
        ("a", 1, 0),
        ("a", 2, 2),
        ("a", 4, 3),
        ("a", 5, 4),
        ("a", 7, 5),
        ("b", 2, 30),
        ("b", 3, 29),
        ("b", 2, 30),
    ]
    program["events"] = [{"topic": "in", "key": key, "value": value, "ts": at} for key, value, at in records]
    sent = run_here(program)["outputs"]["out"]
    assert any(record["value"] is None for record in sent)
    assert sent == oracle.ask(kind="run", cache=True, **program)["outputs"]["out"]


@pytest.mark.parametrize(
    ("windows", "aggregation", "key"),
    [
        ({"kind": "session", "gap": 5, "grace": 0}, _MERGED_SUM, "session_windowed(string)"),
        ({"kind": "sliding", "size": 10, "grace": 2}, _SUM, "time_windowed(string,10)"),
    ],
    ids=["session", "sliding"],
)
@pytest.mark.parametrize("engine", ["rocksdb", "memory"])
def test_no_final_result_of_other_windows_is_lost(
    oracle: Oracle, windows: dict[str, Any], aggregation: dict[str, Any], key: str, engine: str
) -> None:
    """The least retention sends what a long one sends, and that is what Kafka Streams sends with a long one."""
    least, long = deepcopy(aggregation), deepcopy(aggregation)
    least["materialized"]["engine"] = long["materialized"]["engine"] = engine
    long["materialized"]["retention"] = 10_000
    outputs = []
    for each in (least, long):
        program = _program(windows, each, emit="close")
        program["steps"][-1]["produced"]["key"] = key
        outputs.append(run_here(program)["outputs"]["out"])
    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 3
    assert outcome_difference(oracle, program) is None


def _cogroup(windows: dict[str, Any] | None, *, named: bool, changed_key: bool) -> dict[str, Any]:
    """Two streams of two topics, aggregated into one table that is grouped again."""
    program = _program({}, _SUM)
    serdes = {"key": "string", "value": "long"}
    steps: list[dict[str, Any]] = []
    for each, topic in (("1", "in"), ("2", "other")):
        steps.append({"op": "stream", "id": "s" + each, "topics": [topic], "consumed": serdes})
        steps.append({"op": "group_by_key", "id": "g" + each, "of": "s" + each})
    if changed_key:
        steps[3] = {"op": "group_by", "id": "g2", "of": "s2", "fn": "same_key", "grouped": {**serdes, "name": "groups"}}
    steps.append({"op": "cogroup", "id": "c1", "of": "g1", "fn": "sum"})
    steps.append({"op": "cogroup", "id": "c2", "of": "c1", "with": "g2", "fn": "unsum"})
    if windows is not None:
        steps.append({"op": "windowed_by", "id": "w", "of": "c2", "windows": windows})
    made: dict[str, Any] = {"op": "aggregate", "id": "t", "of": "c2" if windows is None else "w", "init": "zero"}
    made["materialized"] = {**serdes, "name": "st"} if named else dict(serdes)
    if named:
        made["name"] = "both"
    if windows is not None and windows["kind"] == "session":
        made["merge"] = "sum"
    last = [{"op": "to_stream", "id": "o", "of": "t"}, {"op": "to", "of": "o", "topic": "out"}]
    events = [{**event, "topic": ("in", "other")[at % 2]} for at, event in enumerate(program["events"])]
    return {**program, "steps": [*steps, made, *last], "inputs": {"in": serdes, "other": serdes}, "events": events}


@pytest.mark.parametrize("changed_key", [True, False])
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "windows",
    [None, _HOPPING, {"kind": "sliding", "size": 10, "grace": 5}, {"kind": "session", "gap": 5, "grace": 9}],
    ids=str,
)
def test_cogroups_are_those_of_kafka_streams(
    oracle: Oracle, windows: dict[str, Any] | None, named: bool, changed_key: bool
) -> None:
    program = _cogroup(windows, named=named, changed_key=changed_key)
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None


def test_a_session_that_came_and_went_within_one_commit_is_not_in_the_changelog(oracle: Oracle) -> None:
    """Kafka Streams writes it and its deletion (docs/departures.md)."""
    serdes = {"key": "string", "value": "string"}
    join = {"op": "outer_join", "id": "j", "of": "s", "with": "s", "fn": "right"}
    merged = {"merge": "null_if_odd_sum", "materialized": {"name": "st", "key": "string", "value": "long"}}
    program: dict[str, Any] = {
        "optimize": False,
        "steps": [
            {"op": "stream", "id": "s", "topics": ["in"], "consumed": serdes},
            {**join, "windows": {"size": 5, "grace": 9}, "stream_joined": {**serdes, "other_value": "string"}},
            {"op": "group_by_key", "id": "g", "of": "j", "grouped": serdes},
            {"op": "windowed_by", "id": "w", "of": "g", "windows": {"kind": "session", "gap": 5, "grace": 9}},
            {"op": "aggregate", "id": "t", "of": "w", "init": "zero", "fn": "null_if_odd", **merged},
        ],
        "inputs": {"in": serdes},
        "events": [
            {"topic": "in", "key": "k", "value": value, "ts": at} for value, at in (("odd", 432), ("even", 427))
        ],
    }
    theirs, ours = (
        run["outputs"]["app-st-changelog"] for run in (oracle.ask(kind="run", **program), run_here(program))
    )
    came, went = [record for record in theirs if record not in ours]
    assert came["key"] == went["key"]
    assert came["value"] is not None
    assert went["value"] is None
    assert [record for record in theirs if record not in (came, went)] == ours
    assert outcome_difference(oracle, program) is None


@pytest.mark.seeds(25)
def test_random_windowed_programs_are_those_of_kafka_streams(seed: int, oracle: Oracle) -> None:
    program = window_program(seed)
    difference = report(oracle, program, description_difference) or report(oracle, program, outcome_difference)
    assert difference is None, difference
