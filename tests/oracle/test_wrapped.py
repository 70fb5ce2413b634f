"""Processors that are wrapped by configuration (KIP-1112): every node of random programs, as in Kafka Streams."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from compare import Outcome, Program, outcome_difference, run_here
from generate_language import language_program, without_buffers
from generate_windows import window_program
from oracle import Oracle
from streamsapp import Processor, ProcessorContext, Record

_CONFIG = {"processor.wrapper.class": "Marking"}


class Marked(Processor):
    """Notes its node in a header of each record; results take the way through a context of its own."""

    def __init__(self, name: str, inner: Processor) -> None:
        self._name = name
        self._inner = inner

    def init(self, context: ProcessorContext) -> None:
        self._inner.init(context)

    def process(self, record: Record) -> None:
        self._inner.process(record.with_headers([*record.headers, ("node", self._name.encode())]))

    def close(self) -> None:
        self._inner.close()


def _without_headers_of_changelogs(program: Program, outcome: Outcome) -> Outcome:
    """An outcome whose changelogs have no headers: those that a wrapper adds are not the same there
    (docs/departures.md)."""
    for topic, records in outcome.get("outputs", {}).items():
        for record in records if topic.endswith("-changelog") else ():
            record["headers"] = []
    return outcome


def _run_wrapped(program: Program) -> Outcome:
    return run_here(program, processor_wrapper=Marked)


@pytest.mark.seeds(8)
@pytest.mark.parametrize("make", [language_program, window_program])
def test_a_wrapper_sees_every_record_at_every_node_as_in_kafka_streams(make: Any, seed: int, oracle: Oracle) -> None:
    program = {**without_buffers(make, seed), "optimize": False, "config": _CONFIG}
    difference = outcome_difference(oracle, program, _run_wrapped, _without_headers_of_changelogs)
    assert difference is None, difference


def test_a_suppression_of_kafka_streams_forgets_the_headers_that_a_wrapper_adds_to_its_records(oracle: Oracle) -> None:
    """Once it does not, docs/departures.md has to say so, and the test above need not look away."""
    texts = {"key": "string", "value": "string"}
    steps: list[dict[str, Any]] = [
        {"op": "table", "id": "t", "topic": "in", "consumed": texts},
        {"op": "suppress", "id": "s", "of": "t", "name": "held", "until": {"time_limit": 10}},
        {"op": "to_stream", "id": "o", "of": "s"},
        {"op": "to", "of": "o", "topic": "out", "produced": texts},
    ]
    events = [{"topic": "in", "key": "k", "value": "v", "ts": ts} for ts in (1, 100)]
    program: Program = {"optimize": False, "steps": steps, "inputs": {"in": texts}, "events": events}
    outcomes = oracle.ask(kind="run", **program, config=_CONFIG), _run_wrapped(program)
    theirs, ours = ([name for _, name in each["outputs"]["out"][0]["headers"]] for each in outcomes)
    held = b64encode(b"held").decode()
    assert held not in theirs
    assert [name for name in ours if name != held] == theirs
    assert held in ours
