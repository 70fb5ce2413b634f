"""A declared program with one field removed or replaced is refused in words of its fields, or it runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

import compare
from declarations import Declarer
from generate_dsl import dsl_program
from generate_language import language_program
from generate_raw import raw_program
from generate_stream_joins import stream_join_program
from generate_supplied import supplied_program
from generate_versioned import VersionedGenerator
from streamsapp.declared.build_graph import build_graph
from streamsapp.declared.build_steps import build_steps
from streamsapp.errors import ManifestError
from streamsapp.manifest.entrypoint import checked
from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import SinkNode, SourceNode

_OTHERS: list[Any] = [
    *(None, True, False, 0, 1, -1, 1.5, (1 << 63) - 1),
    *("", "x", "string", "s", "code:none", "code:ignore", "sum", [], {}, [None], ["x"], {"x": 1}, {"split": ","}),
]
#: The field of a fault.
_FIELD = re.compile(r"(steps|graph)[.:\[]")


class Found:
    """Finds code in a namespace, and reports what is not there."""

    def __init__(self, code: SimpleNamespace) -> None:
        self._code = code

    def find(self, name: str, field: str) -> Any:
        found = getattr(self._code, name.partition(":")[2], None)
        if found is None:
            raise ManifestError([f"{field}: there is no {name}"])
        return found

    def run(self, function: Callable[[], Any], doing: str, field: str) -> Any:
        """Reports the errors of the user's code. Building raises none but ours."""
        if doing == "building the topology":
            return function()
        try:
            return function()
        except Exception as error:
            raise ManifestError([f"{field}: {doing} raised {error!r}"]) from error


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every field and every item, each with what it is in."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in list(items):
        yield document, name
        if isinstance(value, dict | list):
            yield from places(value)


def damaged(document: Any, random: Random) -> Any:
    """The document without one of its fields, or with something else there: perhaps another part of it."""
    document = deepcopy(document)
    everywhere = list(places(document))
    holder, name = random.choice(everywhere)
    if random.random() < 0.3:
        del holder[name]
        return document
    other, of = random.choice(everywhere)
    holder[name] = random.choice([*_OTHERS, *[deepcopy(other[of])] * 5])
    return document


def built(program: dict[str, Any], declarer: Declarer, random: Random) -> Topology | list[str]:
    """The topology of the program with one field changed, or its faults."""
    code = Found(declarer.code)
    try:
        if program["api"] == "topology":
            return checked(build_graph(damaged(declarer.graph(program), random), "graph", code), "graph")
        return checked(build_steps(damaged(declarer.steps(program), random), "steps", code), "steps")
    except ManifestError as error:
        return list(error.faults)


def reads_what_it_writes(topology: Topology) -> bool:
    """Such a program goes on for ever."""
    nodes = [node for part in topology.sub_topologies() for node in part.nodes]
    written = {str(node.topic) for node in nodes if isinstance(node, SinkNode)}
    users = {topic for topic in written if not topic.endswith(("-repartition", "-topic"))}
    return any(
        not users.isdisjoint(node.topics) or (node.pattern and any(map(node.pattern.fullmatch, users)))
        for node in nodes
        if isinstance(node, SourceNode)
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: dsl_program(seed, size=12, events=6),
        lambda seed: raw_program(seed, size=10, events=6, read_only=True),
        lambda seed: language_program(seed, events=6),
        lambda seed: supplied_program(seed, events=6),
        lambda seed: stream_join_program(seed, events=6),
        lambda seed: VersionedGenerator(seed).generate(events=6),
    ],
    ids=["dsl", "graph", "language", "supplied", "stream joins", "versioned joins"],
)
@pytest.mark.seeds(8)
def test_a_program_with_one_field_changed_is_refused_by_its_fields_or_runs(
    make: Callable[[int], dict[str, Any]], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, declarer = make(seed), Declarer()
    made = built(program, declarer, Random(seed))
    if isinstance(made, list):
        assert made
        assert [fault for fault in made if not _FIELD.match(fault)] == []
        return
    if reads_what_it_writes(made):
        return
    monkeypatch.setattr(compare, "build", lambda program: made)
    # Its task may not start, and its records may fail, each in words that a user understands.
    assert compare.run_here({**program, "steps": []})
