"""Processors that are wrapped by configuration (KIP-1112): every node of random programs, as in Kafka Streams."""

from __future__ import annotations

from typing import Any

import pytest

from compare import outcome_difference, run_here
from generate_language import language_program
from generate_windows import window_program
from oracle import Oracle
from streamsapp import Processor, ProcessorContext, Record


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


@pytest.mark.seeds(8)
@pytest.mark.parametrize("make", [language_program, window_program])
def test_a_wrapper_sees_every_record_at_every_node_as_in_kafka_streams(
    make: Any, seed: int, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = {**make(seed), "optimize": False, "config": {"processor.wrapper.class": "Marking"}}
    monkeypatch.setattr("compare.run_here", lambda given: run_here(given, processor_wrapper=Marked))
    difference = outcome_difference(oracle, program)
    assert difference is None, difference
