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
from generate_raw import raw_program
from streamsapp.declared.build_graph import build_graph
from streamsapp.declared.build_steps import build_steps
from streamsapp.topology.builder import Topology

EVENTS = 12

_PLACES = {
    "manifest field": re.compile(r" \(added at (?:steps\[\d+\]|graph)[^()]*\)"),
    "line of Python": re.compile(r" \(added at [^()]*\.py:\d+\)"),
}

#: A graph is written kind by kind.
_ORDER = ("global_store", "source", "processor", "sink", "store", "connect")


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
    return build_steps(declarer.steps(program), "steps", InMemory(declarer.code))


def check(program: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    program = {**program, "optimize": False}
    in_python = compare.run_here(program)
    with monkeypatch.context() as patch:
        patch.setattr(compare, "build", declared)
        as_data = compare.run_here(program)
    assert as_data["describe"] == in_python["describe"]
    assert without_place(as_data, "manifest field") == without_place(in_python, "line of Python")


def without_place(outcome: dict[str, Any], written: str) -> dict[str, Any]:
    """A node that fails is told with what the user wrote, which is what the two differ in."""
    return {name: _PLACES[written].sub("", value) if name == "message" else value for name, value in outcome.items()}


@pytest.mark.parametrize("name", CLASSICS)
def test_a_classic_is_the_same_as_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check(CLASSICS[name], monkeypatch)


@pytest.mark.seeds(30)
def test_random_programs_of_the_dsl_are_the_same_as_steps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(dsl_program(seed, size=12, events=EVENTS), monkeypatch)


@pytest.mark.seeds(30)
def test_random_programs_of_the_topology_api_are_the_same_as_a_graph(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = raw_program(seed, size=10, events=EVENTS)
    check({**program, "steps": sorted(program["steps"], key=lambda step: _ORDER.index(step["op"]))}, monkeypatch)
