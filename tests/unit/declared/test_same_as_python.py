"""A declared program is the program in Python: the same description byte for byte, the same results and state."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import compare
from classics import CLASSICS
from declarations import Declarer
from generate_dsl import dsl_program
from generate_language import language_program
from generate_raw import raw_program
from generate_stream_joins import stream_join_program
from generate_supplied import supplied_program
from generate_suppress import suppress_program
from generate_table_joins import TableJoinGenerator
from generate_versioned import VersionedGenerator
from generate_windows import window_program
from streamsapp.declared.build_graph import build_graph
from streamsapp.declared.build_steps import build_steps
from streamsapp.topology.builder import Topology

EVENTS = 12

_PLACES = {
    "manifest field": re.compile(r" \(added at (?:steps\[\d+\]|graph)[^()]*\)"),
    "line of Python": re.compile(r" \(added at [^()]*\.py:\d+\)"),
}

#: A graph is written kind by kind.
_ORDER = ("global_store", "read_only_store", "source", "processor", "sink", "store", "connect")


class InMemory:
    """Finds code in a namespace."""

    def __init__(self, code: SimpleNamespace) -> None:
        self._code = code

    def find(self, name: str, field: str) -> Any:
        return getattr(self._code, name.partition(":")[2])

    def run(self, function: Callable[[], Any], doing: str, field: str) -> Any:
        return function()


def declared(program: dict[str, Any]) -> Topology:
    declarer = Declarer()
    if program["api"] == "topology":
        return build_graph(declarer.graph(program), "graph", InMemory(declarer.code))
    optimize = {True: "all", False: "none"}.get(program["optimize"], program["optimize"])
    return build_steps(declarer.steps(program), "steps", InMemory(declarer.code), optimize=optimize)


def check(program: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    in_python = compare.run_here(program)
    with monkeypatch.context() as patch:
        patch.setattr(compare, "build", declared)
        as_data = compare.run_here(program)
    if "describe" not in in_python:
        assert refused_alike(as_data, in_python), (as_data, in_python)
        return
    assert as_data["describe"] == in_python["describe"]
    assert without_place(as_data, "manifest field") == without_place(in_python, "line of Python")


def refused_alike(as_data: dict[str, Any], in_python: dict[str, Any]) -> bool:
    """Some random programs are none, as Kafka Streams says too, when they are built or when their tasks start. A graph
    is refused in words of its own fields."""
    if without_place(as_data, "manifest field") == without_place(in_python, "line of Python"):
        return bool(as_data["error"] == "TopologyError")
    if (as_data["error"], in_python["error"]) != ("ManifestError", "TopologyError"):
        return False
    said = str(without_place(as_data, "manifest field")["message"])
    return said.startswith("graph.") or said == f"steps: {without_place(in_python, 'line of Python')['message']}"


def without_place(outcome: dict[str, Any], written: str) -> dict[str, Any]:
    """The error of a node shows what the user wrote; the two programs differ in that."""
    return {name: _PLACES[written].sub("", value) if name == "message" else value for name, value in outcome.items()}


@pytest.mark.parametrize("name", CLASSICS)
def test_a_classic_is_the_same_as_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(CLASSICS[name], monkeypatch)


@pytest.mark.seeds(30)
def test_random_programs_of_the_dsl_are_the_same_as_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(dsl_program(seed, size=12, events=EVENTS), monkeypatch)


@pytest.mark.seeds(20)
def test_random_programs_with_windows_and_suppression_are_the_same_as_steps(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(suppress_program(seed, events=EVENTS), monkeypatch)


@pytest.mark.seeds(4)
@pytest.mark.parametrize(
    "make",
    [
        language_program,
        supplied_program,
        window_program,
        stream_join_program,
        lambda seed, events: TableJoinGenerator(seed).generate(events),
        lambda seed, events: VersionedGenerator(seed).generate(events),
        lambda seed, events: VersionedGenerator(seed).tables(events),
    ],
    ids=["language", "supplied", "windows", "stream joins", "table joins", "versioned joins", "versioned tables"],
)
def test_random_programs_of_the_whole_language_are_the_same_as_steps(
    make: Callable[..., dict[str, Any]], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    check(make(seed, events=EVENTS), monkeypatch)


_SERDES = {"key": "string", "value": "long"}
_IN = {"op": "stream", "id": "s", "topics": ["in"], "consumed": _SERDES}
_OUT = {"op": "to", "of": "o", "topic": "out", "produced": _SERDES}
_KEPT = {"materialized": {"name": "st", "value": "long"}}
_SIDES = {**_SERDES, "other_value": "long"}


def _by(windows: dict[str, Any]) -> dict[str, Any]:
    return {"op": "windowed_by", "id": "w", "of": "d", "windows": windows}


_SUM = {"op": "aggregate", "init": "zero", "fn": "sum", **_KEPT}


@pytest.mark.parametrize(
    "steps",
    [
        *(
            [
                {"op": "group_by_key", "id": "g", "of": "s"},
                {"op": "windowed_by", "id": "w", "of": "g", "windows": windows, **emit},
                {**aggregation, "id": "t", "of": "w"},
                {"op": "to_stream", "id": "o", "of": "t", "fn": "text_of_value"},
            ]
            for windows, aggregation in (
                ({"kind": "time", "size": 10, "advance": 5, "grace": 3}, {"op": "count"}),
                ({"kind": "time", "size": 10}, {"op": "reduce", "fn": "sum", **_KEPT}),
                ({"kind": "time", "size": 10}, {"op": "count", "materialized": {"name": "st", "retention": 5000}}),
                ({"kind": "sliding", "size": 10, "grace": 3}, _SUM),
                ({"kind": "session", "gap": 5, "grace": 3}, {**_SUM, "merge": "sum"}),
                ({"kind": "session", "gap": 5}, {"op": "count"}),
            )
            for emit in ({}, {"emit": "close"}, {"emit": "update"})
        ),
        [
            {"op": "group_by_key", "id": "g", "of": "s"},
            {"op": "windowed_by", "id": "w", "of": "g", "windows": {"kind": "unlimited", "start": 10}},
            {**_SUM, "id": "t", "of": "w"},
            {"op": "to_stream", "id": "o", "of": "t", "fn": "text_of_value"},
        ],
        *(
            [
                {"op": "table", "id": "t", "topic": "rows", "consumed": _SERDES},
                {"op": op, "id": "o", "of": "s", "with": "t", "fn": "total", "joined": {"name": "j", **_SERDES}},
            ]
            for op in ("join", "left_join")
        ),
        [
            {
                "op": "table",
                "id": "t",
                "topic": "rows",
                "consumed": _SERDES,
                "materialized": {"name": "st", "versioned": 50},
            },
            {"op": "join", "id": "o", "of": "s", "with": "t", "fn": "total", "joined": {"grace": 20, **_SERDES}},
        ],
        *(
            [
                {"op": "table", "id": "t", "topic": "rows", "consumed": _SERDES},
                {"op": "table", "id": "u", "topic": "others", "consumed": _SERDES},
                {"op": op, "id": "j", "of": "t", "with": "u", "fn": "total", **kept},
                {"op": "to_stream", "id": "o", "of": "j"},
            ]
            for op in ("join", "left_join", "outer_join")
            for kept in ({}, {"name": "both", "materialized": {"name": "st", "key": "string", "value": "long"}})
        ),
        *(
            [
                {"op": "stream", "id": "r", "topics": ["others"], "consumed": _SERDES},
                {"op": op, "id": "o", "of": "s", "with": "r", "fn": "total", **windows, **joined},
            ]
            for op in ("join", "left_join", "outer_join")
            for windows in (
                {"windows": {"size": 20, "grace": 5}},
                {"windows": {"size": 9, "before": 30, "after": -3}},
            )
            for joined in ({"stream_joined": _SIDES}, {"stream_joined": {"name": "j", "store_name": "st", **_SIDES}})
        ),
        [
            {
                "op": "join",
                "id": "o",
                "of": "s",
                "with": "s",
                "fn": "total",
                "windows": {"size": 9},
                "stream_joined": _SIDES,
            },
        ],
        *(
            [
                {"op": "table", "id": "t", "topic": "rows", "consumed": _SERDES},
                {"op": "table", "id": "u", "topic": "others", "consumed": _SERDES},
                {"op": op, "id": "j", "of": "t", "with": "u", "fn": "total", "extractor": "first_letter", **by},
                {"op": "to_stream", "id": "o", "of": "j"},
            ]
            for op in ("join", "left_join")
            for by in ({"extractor_args": 2}, {"table_joined": "j", "extractor_args": 2, **_KEPT})
        ),
        *(
            [
                {"op": "stream", "id": "r", "topics": ["others"], "consumed": _SERDES},
                {"op": "group_by_key", "id": "g", "of": "s"},
                {"op": "group_by_key", "id": "h", "of": "r"},
                {"op": "cogroup", "id": "c", "of": "g", "fn": "sum"},
                {"op": "cogroup", "id": "d", "of": "c", "with": "h", "fn": "sum"},
                *windows,
                {
                    "op": "aggregate",
                    "id": "t",
                    "of": "w" if windows else "d",
                    "init": "zero",
                    **merge,
                    **_KEPT,
                },
                {"op": "to_stream", "id": "o", "of": "t", **named},
            ]
            for windows, merge, named in (
                ([], {}, {}),
                ([_by({"kind": "time", "size": 10, "grace": 3})], {}, {"fn": "text_of_value"}),
                ([_by({"kind": "sliding", "size": 10})], {}, {"fn": "text_of_value"}),
                ([_by({"kind": "session", "gap": 5})], {"merge": "sum"}, {"fn": "text_of_value"}),
            )
        ),
    ],
    ids=lambda steps: "-".join(step["op"] for step in steps),
)
def test_windows_and_joins_are_the_same_as_steps(steps: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    check(
        {
            "api": "dsl",
            "optimize": False,
            "steps": [_IN, *steps, _OUT],
            "inputs": {"in": _SERDES, "rows": _SERDES, "others": _SERDES},
            "events": [
                {"topic": topic, "key": key, "value": at, "ts": at * 3}
                for at, (topic, key) in enumerate(
                    [("rows", "a"), ("others", "a"), ("in", "a"), ("in", "b"), ("in", "a"), ("rows", "b")] * 4
                )
            ],
        },
        monkeypatch,
    )


@pytest.mark.seeds(30)
def test_random_programs_of_the_topology_api_are_the_same_as_a_graph(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = raw_program(seed, size=10, events=EVENTS, read_only=True)
    check({**program, "steps": sorted(program["steps"], key=lambda step: _ORDER.index(step["op"]))}, monkeypatch)
