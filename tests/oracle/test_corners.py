"""Corners of the language by hand, against Kafka Streams: bounds that are met to the millisecond, ties, deletions, and
what is read again and again from one group."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from compare import description_difference, outcome_difference, run_here
from oracle import Oracle

Step = dict[str, Any]
#: Topic, key, value and timestamp; or the milliseconds by which the wall clock goes on.
Event = tuple[str, str | None, str | None, int] | int

_TEXTS = {"key": "string", "value": "string"}
_SIDES = {**_TEXTS, "other_value": "string"}


def _stream(topic: str) -> Step:
    return {"op": "stream", "id": topic, "topics": [topic], "consumed": _TEXTS}


def _table(topic: str) -> Step:
    return {"op": "table", "id": topic, "topic": topic, "consumed": _TEXTS}


def _out(of: str, key: str = "string", value: str = "string", *, table: bool = True) -> list[Step]:
    """Writes a table, or a stream, into a topic of its own."""
    into = {"op": "to", "of": f"{of}-o" if table else of, "topic": f"out-{of}"}
    to_stream = [{"op": "to_stream", "id": f"{of}-o", "of": of}] if table else []
    return [*to_stream, {**into, "produced": {"key": key, "value": value}}]


def _windowed(windows: Step, *, suppress: Step | None = None, name: str = "t", **by: Any) -> list[Step]:
    """Joins the values of each key and window."""
    session = windows["kind"] == "session"
    fold: Step = {"op": "aggregate", "id": name, "of": f"{name}-w", "init": "empty", "fn": "join"}
    steps: list[Step] = [
        {"op": "windowed_by", "id": f"{name}-w", "of": "g", "windows": windows, **by},
        {**fold, **({"merge": "join"} if session else {}), "materialized": {**_TEXTS, "retention": 100_000}},
    ]
    if suppress is not None:
        steps.append({"op": "suppress", "id": f"{name}-u", "of": name, **suppress})
    key = "session_windowed(string)" if session else f"time_windowed(string,{windows['size']})"
    return [*steps, *_out(steps[-1]["id"], key)]


def _at_commits(steps: list[Step]) -> list[Step]:
    """The same steps, whose tables send their last updates when the task commits: after each record here."""
    return [
        {**step, "materialized": {**step["materialized"], "emit": "commit"}} if "materialized" in step else step
        for step in steps
    ]


def _of_cogroup(steps: Iterable[Step]) -> Iterator[Step]:
    """The same steps on a cogroup, which has its aggregators already."""
    return ({name: value for name, value in step.items() if name != "fn"} for step in steps)


_GROUP = [_stream("in"), {"op": "group_by_key", "id": "g", "of": "in"}]
_CLOSES: Step = {"until": "window_closes"}


def _in(*records: tuple[str | None, str | None, int]) -> list[Event]:
    return [("in", *record) for record in records]


#: From time 0 on, out of order, at the same time, at the bounds of windows of 10 ms and of their grace.
_EARLY = _in(
    ("a", "1", 0),
    ("a", "2", 5),
    ("a", "3", 3),
    ("a", "4", 0),
    ("b", "5", 9),
    ("b", "6", 10),
    ("a", "7", 10),
    ("a", "8", 20),
    ("a", "9", 11),
    ("a", None, 22),
    (None, "x", 23),
    ("b", "10", 21),
    ("a", "11", 32),
    ("a", "12", 19),
    ("a", "13", 20),
    ("a", "14", 22),
    ("b", "15", 31),
    ("b", "16", 100),
    ("a", "17", 100),
)
_WINDOWS: dict[str, Step] = {
    "tumbling": {"kind": "time", "size": 10, "grace": 2},
    "hopping": {"kind": "time", "size": 10, "advance": 3, "grace": 12},
    "sliding": {"kind": "sliding", "size": 10, "grace": 2},
    "sliding, late": {"kind": "sliding", "size": 10, "grace": 50},
    "session": {"kind": "session", "gap": 10, "grace": 0},
    "session, late": {"kind": "session", "gap": 5, "grace": 30},
}

#: Both sides at the same times, at the bounds of 10 ms before and after, and late.
_PAIRS: list[Event] = [
    ("l", "k", "l0", 0),
    ("r", "k", "r0", 0),
    ("l", "k", "l0b", 0),
    ("r", "k", "r10", 10),
    ("l", "k", "l20", 20),
    ("r", "k", "r9", 9),
    ("r", "k", "r31", 31),
    ("l", "k", "l20b", 20),
    1000,
    ("l", "k", "l31", 31),
    ("r", "j", "alone", 31),
    ("l", "i", "alone", 30),
    ("l", "i", "alone too", 30),
    400,
    ("r", "x", "tells nothing yet", 60),
    600,
    ("l", "x", "late", 41),
    ("l", "x", "tells", 60),
    ("r", "x", "tells more", 61),
    1000,
    ("r", "y", "end", 200),
]


def _pairs(kind: str, windows: Step, *, right: str = "r") -> list[Step]:
    join: Step = {"op": kind, "id": "j", "of": "l", "with": right, "fn": "both", "windows": windows}
    return [_stream("l"), _stream("r"), {**join, "stream_joined": _SIDES}, *_out("j", table=False)]


#: Rows come, change, go and come again, on both sides and out of order.
_ROWS: list[Event] = [
    ("t", "1", "a", 10),
    ("t", "2", "a", 10),
    ("u", "a", "A", 10),
    ("u", "a", "A", 10),
    ("t", "1", "b", 11),
    ("u", "b", "B", 9),
    ("t", "1", None, 12),
    ("t", "1", None, 13),
    ("u", "a", None, 5),
    ("t", "2", "b", 1),
    ("u", "a", "again", 20),
    ("t", "2", "a", 20),
    ("t", "2", "a", 21),
    ("u", "b", None, 22),
    ("u", "b", None, 22),
    ("t", "1", "", 23),
    ("t", None, "a", 24),
    ("u", None, "A", 24),
    ("t", "a", "same key", 30),
    ("u", "1", "same key", 30),
    ("t", "a", None, 30),
    ("u", "1", None, 31),
]


def _joined(kind: str, **options: Any) -> list[Step]:
    join = {"op": kind, "id": "j", "of": "t", "with": "u", "fn": "both", **options}
    return [_table("t"), _table("u"), join, *_out("j")]


_STORED = {"materialized": {**_TEXTS, "name": "joined"}}
_FOREIGN = {"extractor": "identity", "materialized": _TEXTS}
_SUPPRESSED: Step = {"op": "suppress", "id": "s", "of": "t", "until": {"time_limit": 5}}


def _suppressed(*then: Step, **limits: Any) -> list[Step]:
    return [_table("t"), _table("u"), {**_SUPPRESSED, **limits}, *then]


_BOTH_GROUPS = [
    _stream("l"),
    _stream("r"),
    {"op": "group_by_key", "id": "gl", "of": "l"},
    {"op": "group_by_key", "id": "gr", "of": "r"},
    {"op": "cogroup", "id": "c", "of": "gl", "fn": "join"},
    {"op": "cogroup", "id": "g", "of": "c", "with": "gr", "fn": "unjoin"},
]

_CORNERS: dict[str, tuple[list[Step], list[Event]]] = {
    **{f"{name} windows": ([*_GROUP, *_windowed(each)], _EARLY) for name, each in _WINDOWS.items()},
    **{
        f"{name} windows, closed": ([*_GROUP, *_windowed(each, emit="close")], _EARLY)
        for name, each in _WINDOWS.items()
    },
    **{
        f"{name} windows, suppressed": ([*_GROUP, *_windowed(each, suppress=_CLOSES)], _EARLY)
        for name, each in _WINDOWS.items()
    },
    **{
        f"{name} windows, sent at commits": ([*_GROUP, *_at_commits(_windowed(each))], _EARLY)
        for name, each in _WINDOWS.items()
    },
    "windows of all kinds of one group": (
        [*_GROUP, *(step for at, each in enumerate(_WINDOWS.values()) for step in _windowed(each, name=f"t{at}"))],
        _EARLY,
    ),
    "windows of all kinds of one cogroup": (
        [
            *_BOTH_GROUPS,
            *_of_cogroup(step for at, each in enumerate(_WINDOWS.values()) for step in _windowed(each, name=f"t{at}")),
            {"op": "aggregate", "id": "all", "of": "g", "init": "empty", "materialized": _TEXTS},
            *_out("all"),
        ],
        _PAIRS,
    ),
    **{
        f"{kind} of streams, {name}": (_pairs(kind, windows), _PAIRS)
        for kind in ("join", "left_join", "outer_join")
        for name, windows in {
            "no grace": {"size": 10},
            "late": {"size": 10, "grace": 30},
            "later": {"size": 10, "before": 1, "grace": 5},
            "earlier": {"size": 10, "after": 1, "grace": 5},
        }.items()
    },
    **{
        f"{kind} of a stream with itself": (_pairs(kind, {"size": 10}, right="l"), _PAIRS)
        for kind in ("join", "outer_join")
    },
    **{
        f"{kind} of tables, {name}": (_joined(kind, **stored), _ROWS)
        for kind in ("join", "left_join", "outer_join")
        for name, stored in {"stored": _STORED, "not stored": {}}.items()
    },
    **{f"{kind} by foreign key": (_joined(kind, **_FOREIGN), _ROWS) for kind in ("join", "left_join")},
    "rows that go while they wait": (_suppressed(*_out("s")), _ROWS),
    "one row waits": (_suppressed(*_out("s"), records=1, full="emit"), _ROWS),
    "rows of 80 bytes wait": (_suppressed(*_out("s"), bytes=80, full="emit"), _ROWS),
    "rows that wait are grouped": (
        _suppressed(
            {"op": "group_by", "id": "sg", "of": "s", "fn": "first_letter", "grouped": _TEXTS},
            {"op": "reduce", "id": "r", "of": "sg", "fn": "concat", "subtract": "unconcat"},
            *_out("r"),
        ),
        _ROWS,
    ),
    **{
        f"rows that wait are joined, {of} with {other}": (
            _suppressed({"op": "outer_join", "id": "j", "of": of, "with": other, "fn": "both"}, *_out("j")),
            _ROWS,
        )
        for of, other in (("s", "u"), ("u", "s"), ("s", "t"))
    },
    "rows that wait are joined by foreign key": (
        _suppressed({"op": "left_join", "id": "j", "of": "s", "with": "u", "fn": "both", **_FOREIGN}, *_out("j")),
        _ROWS,
    ),
    "late rows of versioned tables": (
        [
            *({**_table(each), "materialized": {**_TEXTS, "name": each, "versioned": 1000}} for each in ("t", "u")),
            {"op": "outer_join", "id": "j", "of": "t", "with": "u", "fn": "both"},
            {"op": "left_join", "id": "f", "of": "t", "with": "u", "fn": "both", **_FOREIGN},
            *_out("j"),
            *_out("f"),
        ],
        _ROWS,
    ),
}


def _event(event: Event) -> Step:
    if isinstance(event, int):
        return {"advance": event}
    return dict(zip(("topic", "key", "value", "ts"), event, strict=True))


@pytest.mark.long
@pytest.mark.parametrize("corner", _CORNERS)
def test_corners_are_those_of_kafka_streams(oracle: Oracle, corner: str) -> None:
    steps, events = _CORNERS[corner]
    topics = {event[0] for event in events if not isinstance(event, int)}
    program = {
        "optimize": False,
        # Emission at commits is what Kafka Streams' record caches do.
        "cache": any(step.get("materialized", {}).get("emit") == "commit" for step in steps),
        "steps": steps,
        "inputs": dict.fromkeys(topics, _TEXTS),
        "events": [_event(event) for event in events],
    }
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None
    outcome = run_here(program)
    assert "error" not in outcome
    written = [records for topic, records in outcome["outputs"].items() if topic.startswith("out-")]
    assert written
    assert all(len(records) > 2 for records in written)


def test_a_result_sent_at_a_commit_is_part_of_the_record_that_made_it(oracle: Oracle) -> None:
    steps = [
        _stream("in"),
        {"op": "group_by_key", "id": "g", "of": "in"},
        {"op": "count", "id": "t", "of": "g", "materialized": {**_TEXTS, "value": "long", "emit": "commit"}},
        {"op": "to_stream", "id": "s", "of": "t"},
        {"op": "process", "id": "p", "of": "s", "processor": "metadata"},
        *_out("p", table=False),
    ]
    headers = [[["one", None]], [], [["three", "dGhyZWU="]]]
    events = [
        {"topic": "in", "key": "a", "value": "v", "ts": at, "headers": each} for at, each in enumerate(headers, 5)
    ]
    program = {"optimize": False, "cache": True, "steps": steps, "inputs": {"in": _TEXTS}, "events": events}
    assert outcome_difference(oracle, program) is None
    written = run_here(program)["outputs"]["out-p"]
    assert [b64decode(record["value"])[:6] for record in written] == [b"in-0@0", b"in-0@1", b"in-0@2"]


@pytest.mark.parametrize(
    "fold",
    [{"op": "aggregate", "init": "zero", "fn": "null_if_odd"}, {"op": "reduce", "fn": "null_if_odd_sum"}],
    ids=["aggregate", "reduce"],
)
def test_at_commits_a_deletion_has_the_time_of_the_record_that_made_it(oracle: Oracle, fold: Step) -> None:
    """Also where that is late, unlike what is sent at once: so it is with Kafka Streams' caches."""
    serdes = {"key": "string", "value": "long"}
    steps = [
        {"op": "stream", "id": "in", "topics": ["in"], "consumed": serdes},
        {"op": "group_by_key", "id": "g", "of": "in"},
        {**fold, "id": "t", "of": "g", "materialized": {**serdes, "name": "st", "emit": "commit"}},
        *_out("t", value="long"),
    ]
    records = [("a", 2, 30), ("a", 3, 20), ("a", 4, 25)]
    events = [{"topic": "in", "key": key, "value": value, "ts": at} for key, value, at in records]
    program = {"optimize": False, "cache": True, "steps": steps, "inputs": {"in": serdes}, "events": events}
    assert outcome_difference(oracle, program) is None
    assert [record["ts"] for record in run_here(program)["outputs"]["out-t"]] == [30, 20, 25]


def test_at_commits_windows_are_sent_in_the_order_of_their_last_updates(oracle: Oracle) -> None:
    """A record is counted three milliseconds too early, at its own time, and too early again: two windows change before
    one commit."""
    steps = [
        _stream("in"),
        {"op": "process_values", "id": "p", "of": "in", "processor": "late"},
        {"op": "merge", "id": "m", "of": "in", "with": "p"},
        {"op": "process_values", "id": "q", "of": "in", "processor": "late"},
        {"op": "merge", "id": "n", "of": "m", "with": "q"},
        {"op": "group_by_key", "id": "g", "of": "n"},
        {"op": "windowed_by", "id": "w", "of": "g", "windows": {"kind": "time", "size": 2, "grace": 9}},
        {"op": "count", "id": "t", "of": "w", "materialized": {**_TEXTS, "value": "long", "emit": "commit"}},
        *_out("t", "time_windowed(string,2)", "long"),
    ]
    events = [{"topic": "in", "key": "a", "value": "v", "ts": at} for at in (3, 7, 20)]
    program = {"optimize": False, "cache": True, "steps": steps, "inputs": {"in": _TEXTS}, "events": events}
    assert outcome_difference(oracle, program) is None
    assert [record["ts"] for record in run_here(program)["outputs"]["out-t"]] == [3, 0, 7, 4, 20, 17]


def test_at_commits_sessions_have_the_headers_of_the_record_that_came_last(oracle: Oracle) -> None:
    steps = [
        _stream("in"),
        {"op": "group_by_key", "id": "g", "of": "in"},
        *_at_commits(_windowed({"kind": "session", "gap": 5, "grace": 9})),
    ]
    headers = [[["one", None]], [], [["three", "dGhyZWU="]]]
    events = [
        {"topic": "in", "key": "a", "value": "v", "ts": at, "headers": each}
        for at, each in zip((5, 7, 30), headers, strict=True)
    ]
    program = {"optimize": False, "cache": True, "steps": steps, "inputs": {"in": _TEXTS}, "events": events}
    assert outcome_difference(oracle, program) is None
    written = run_here(program)["outputs"]["out-t"]
    assert [record["headers"] for record in written] == [headers[0], headers[1], headers[1], headers[2]]


def test_at_commits_a_group_that_goes_has_the_time_of_the_row_that_left_it(oracle: Oracle) -> None:
    serdes = {"key": "string", "value": "long"}
    steps = [
        {"op": "table", "id": "in", "topic": "in", "consumed": serdes},
        {"op": "group_by", "id": "g", "of": "in", "fn": "first_letter", "grouped": serdes},
        {"op": "reduce", "id": "t", "of": "g", "fn": "null_if_odd_sum", "subtract": "minus",
         "materialized": {**serdes, "name": "st", "emit": "commit"}},
        *_out("t", value="long"),
    ]  # fmt: skip
    records = [("a", 20, 30), ("b", 25, 20)]
    events = [{"topic": "in", "key": key, "value": value, "ts": at} for key, value, at in records]
    program = {"optimize": False, "cache": True, "steps": steps, "inputs": {"in": serdes}, "events": events}
    assert outcome_difference(oracle, program) is None
