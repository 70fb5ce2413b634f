"""Programs of the second day, as users write them. They have windows, joins and suppression in a row, versions as of a
time, foreign keys with nothing behind them, tombstones everywhere, records at the edges of windows.

Used by ``classics``. Records come late, at the same times, and without key or value; the same ones at every run.
"""

from __future__ import annotations

from random import Random
from typing import Any

Program = dict[str, Any]
Step = dict[str, Any]

_TEXTS = {"key": "string", "value": "string"}
_SIDES = {**_TEXTS, "other_value": "string"}
_COUNTED = {"key": "string", "value": "long"}
_WINDOWED = {"key": "time_windowed(string,10)", "value": "string"}
_VERSIONS = {**_TEXTS, "versioned": 500}
_CLOSES: Step = {"op": "suppress", "id": "closed", "of": "t", "until": "window_closes"}
_LETTER: Step = {"extractor": "first_letter", "extractor_args": 2, "fn": "both", "materialized": _TEXTS}


def _stream(topic: str) -> Step:
    return {"op": "stream", "id": topic, "topics": [topic], "consumed": _TEXTS}


def _table(topic: str, **kept: Any) -> Step:
    stored = {"materialized": {**_TEXTS, "name": f"{topic}-store", **kept}} if kept else {}
    return {"op": "table", "id": topic, "topic": topic, "consumed": _TEXTS, **stored}


def _grouped(of: str) -> Step:
    return {"op": "group_by_key", "id": f"{of}-groups", "of": of, "grouped": _TEXTS}


def _in_windows(of: str, kind: str, size: int, grace: int, made: str = "t", **by: Any) -> list[Step]:
    """The texts of each key and window of a stream, in one text that begins with a plus."""
    windows = {"kind": kind, "gap" if kind == "session" else "size": size, "grace": grace}
    fold: Step = {"op": "aggregate", "id": made, "of": f"{made}-windows", "init": "empty", "fn": "join"}
    return [
        _grouped(of),
        {"op": "windowed_by", "id": f"{made}-windows", "of": f"{of}-groups", "windows": windows, **by},
        {**fold, **({"merge": "join"} if kind == "session" else {}), "materialized": {**_TEXTS, "retention": 100_000}},
    ]


def _out(of: str, *, table: bool = False, **serdes: str) -> list[Step]:
    stream = f"{of}-stream" if table else of
    rows: list[Step] = [{"op": "to_stream", "id": stream, "of": of}] if table else []
    return [*rows, {"op": "to", "of": stream, "topic": f"out-{of}", "produced": {**_TEXTS, **serdes}}]


def _records(topics: list[str], keys: list[str | None]) -> list[Step]:
    random, time, events = Random(7), 0, list[Step]()
    for number in range(50):
        time += random.choice([0, 0, 1, 3, 5, 10, 10, 20])
        value = random.choice(["1", "22", "a b", "x", None])
        event: Step = {
            "topic": random.choice(topics),
            "key": random.choice(keys),
            "value": value and f"{value}{number}",
        }
        events.append({**event, "ts": max(0, time - random.choice([0, 0, 0, 5, 10, 11, 20]))})
        if number % 12 == 11:
            events.append({"advance": random.choice([50, 1500])})
    return events


def _program(steps: list[Step], keys: list[str | None] | None = None) -> Program:
    read = [topic for step in steps if "consumed" in step for topic in step.get("topics", [step.get("topic")])]
    inputs = dict.fromkeys(read, _TEXTS)
    events = _records(read, keys or ["a", "1", "+", None])
    return {"api": "dsl", "optimize": False, "steps": steps, "inputs": inputs, "events": events}


SECOND_DAY: dict[str, Program] = {
    "closed windows joined with a table": _program(
        [
            _stream("visits"),
            _table("names"),
            *_in_windows("visits", "time", 10, 0),
            _CLOSES,
            {"op": "to_stream", "id": "keyed", "of": "closed", "fn": "first_letter"},
            {"op": "left_join", "id": "named", "of": "keyed", "with": "names", "fn": "both", "joined": _SIDES},
            *_out("named"),
        ]
    ),
    "two windowed tables joined": _program(
        [
            _stream("l"),
            _stream("r"),
            *_in_windows("l", "time", 10, 10),
            *_in_windows("r", "time", 10, 10, "u"),
            {"op": "outer_join", "id": "both", "of": "t", "with": "u", "fn": "both"},
            *_out("both", table=True, **_WINDOWED),
        ]
    ),
    "windows looked up in a global table": _program(
        [
            {"op": "global_table", "id": "known", "topic": "known", "consumed": _TEXTS, "materialized": {"name": "k"}},
            _stream("visits"),
            *_in_windows("visits", "sliding", 10, 5),
            {"op": "to_stream", "id": "keyed", "of": "t", "fn": "first_letter"},
            {"op": "join", "id": "found", "of": "keyed", "with": "known", "selector": "first_letter", "fn": "both"},
            *_out("found"),
        ]
    ),
    "one group of three cogrouped into sessions": _program(
        [
            *(_stream(topic) for topic in "abc"),
            *(_grouped(topic) for topic in "abc"),
            {"op": "cogroup", "id": "one", "of": "a-groups", "fn": "join"},
            {"op": "cogroup", "id": "two", "of": "one", "with": "b-groups", "fn": "join"},
            {"op": "cogroup", "id": "three", "of": "two", "with": "c-groups", "fn": "join"},
            {"op": "windowed_by", "id": "w", "of": "three", "windows": {"kind": "session", "gap": 10, "grace": 20}},
            {"op": "aggregate", "id": "t", "of": "w", "init": "empty", "merge": "join", "materialized": _TEXTS},
            *_out("t", table=True, key="session_windowed(string)"),
        ]
    ),
    "foreign keys into what was aggregated, and on from there": _program(
        [
            _stream("lines"),
            _grouped("lines"),
            {"op": "reduce", "id": "t", "of": "lines-groups", "fn": "concat", "materialized": {**_TEXTS, "name": "k"}},
            _table("orders"),
            {"op": "left_join", "id": "j", "of": "orders", "with": "t", **_LETTER},
            {"op": "join", "id": "jj", "of": "j", "with": "orders", **_LETTER},
            *_out("j", table=True),
            *_out("jj", table=True),
        ]
    ),
    "versions joined, kept, and read as of a time": _program(
        [
            _table("p", **_VERSIONS),
            _table("q", **_VERSIONS),
            _stream("s"),
            {"op": "outer_join", "id": "j", "of": "p", "with": "q", "fn": "both"},
            {"op": "filter", "id": "f", "of": "p", "fn": "value_even", "materialized": {**_VERSIONS, "name": "kept"}},
            {"op": "join", "id": "one", "of": "s", "with": "p", "fn": "both", "joined": {**_SIDES, "grace": 20}},
            {"op": "left_join", "id": "two", "of": "one", "with": "f", "fn": "both", "joined": {**_SIDES, "grace": 0}},
            *_out("j", table=True),
            *_out("two"),
        ],
        ["a", "b", "1"],
    ),
    "tombstones through tables to an aggregate": _program(
        [
            _table("a"),
            _table("b"),
            {"op": "outer_join", "id": "j", "of": "a", "with": "b", "fn": "both"},
            {"op": "filter", "id": "f", "of": "j", "fn": "value_even", "materialized": {**_TEXTS, "name": "fs"}},
            {"op": "map_values", "id": "m", "of": "f", "fn": "null_if_odd"},
            {"op": "group_by", "id": "g", "of": "m", "fn": "first_letter", "grouped": _TEXTS},
            {"op": "reduce", "id": "t", "of": "g", "fn": "concat", "subtract": "unconcat", "materialized": _TEXTS},
            *_out("t", table=True),
        ]
    ),
    "calls by both times in front of closed windows": _program(
        [
            _stream("s"),
            {"op": "process", "id": "p", "of": "s", "processor": "tick_stream_time", "interval": 10},
            {"op": "process", "id": "q", "of": "p", "processor": "tick_wall_clock", "interval": 20},
            *_in_windows("q", "time", 10, 0, emit="close"),
            *_out("t", table=True, **_WINDOWED),
        ],
        ["a", "b"],
    ),
}
