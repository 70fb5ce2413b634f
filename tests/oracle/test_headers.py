"""Stores with headers (KIP-1271, KIP-1285): random programs with ``dsl.store.format`` are those of Kafka Streams."""

from __future__ import annotations

from typing import Any

import pytest

from compare import Outcome, Program, outcome_difference, run_here
from generate_dsl import dsl_program
from generate_language import language_program, without_buffers
from generate_suppress import suppress_program
from generate_windows import window_program
from oracle import Oracle
from programs import build

_CONFIG = {"dsl.store.format": "HEADERS"}


def _of_tables(program: Program) -> set[str]:
    """The changelogs of tables, whose rows Kafka Streams puts without headers (docs/departures.md)."""
    stores = (store for part in build(program).sub_topologies() for store in part.stores)
    return {f"app-{store.name}-changelog" for store in stores if store.of_table}


def _masked(program: Program, outcome: Outcome) -> Outcome:
    if outputs := outcome.get("outputs"):
        for topic in _of_tables(program) & outputs.keys():
            for record in outputs[topic]:
                record["headers"] = []
    for entry in (entry for entries in outcome.get("stores", {}).values() for entry in entries):
        if isinstance(entry[1], dict) and entry[1].pop("headers", None) is not None and len(entry[1]) == 1:
            entry[1] = entry[1]["value"]  # a session, which has no headers there if its store is in memory
    return outcome


def _run_with_headers(program: Program) -> Outcome:
    return run_here(program, dsl_store_format="headers")


def _unbounded(program: Program) -> Program:
    """The program without bounds of buffers in bytes, which also count headers of old values in Kafka Streams."""
    steps = [{name: part for name, part in step.items() if name != "bytes"} for step in program["steps"]]
    return {**program, "steps": steps, "config": _CONFIG}


def _masked_with_buffers(program: Program, outcome: Outcome) -> Outcome:
    """Beside rows of tables, the headers of old values in the changelogs of suppressions, which nothing here reads."""
    masked = _masked(program, outcome)
    for topic, records in masked.get("outputs", {}).items():
        for record in records if topic.endswith("-changelog") else ():
            record["headers"] = [each for each in record["headers"] if not each[0].startswith("vh.")]
    return masked


@pytest.mark.seeds(10)
@pytest.mark.parametrize("make", [suppress_program, language_program])
def test_programs_that_hold_back_rows_with_headers_are_those_of_kafka_streams(
    make: Any, seed: int, oracle: Oracle
) -> None:
    program = _unbounded(make(seed))
    difference = outcome_difference(oracle, program, _run_with_headers, _masked_with_buffers)
    assert difference is None, difference


@pytest.mark.seeds(10)
@pytest.mark.parametrize("make", [dsl_program, language_program, window_program])
def test_programs_whose_stores_keep_headers_are_those_of_kafka_streams(make: Any, seed: int, oracle: Oracle) -> None:
    program = {**without_buffers(make, seed), "config": _CONFIG}
    difference = outcome_difference(oracle, program, _run_with_headers, _masked)
    assert difference is None, difference


def test_kafka_streams_keeps_no_headers_of_the_rows_of_tables(oracle: Oracle) -> None:
    """Once it does, docs/departures.md has to say so, and the test above need not look away."""
    texts = {"key": "string", "value": "string"}
    steps = [{"op": "table", "id": "t", "topic": "in", "consumed": texts, "materialized": {"name": "rows", **texts}}]
    headers = [["h", "eA=="]]
    events = [
        {"topic": "in", "key": "k", "value": value, "ts": ts, "headers": headers} for ts, value in ((1, "v"), (2, None))
    ]
    program: Program = {"optimize": False, "steps": steps, "inputs": {"in": texts}, "events": events}
    theirs = oracle.ask(kind="run", **program, config=_CONFIG)
    ours = _run_with_headers(program)
    changelogs = [each["outputs"]["app-rows-changelog"] for each in (theirs, ours)]
    assert [[record["headers"] for record in each] for each in changelogs] == [[[], headers], [headers, headers]]
