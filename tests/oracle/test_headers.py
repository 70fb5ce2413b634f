"""Stores with headers (KIP-1271, KIP-1285): random programs with ``dsl.store.format`` are those of Kafka Streams."""

from __future__ import annotations

from typing import Any

import pytest

from compare import Outcome, Program, outcome_difference, run_here
from generate_dsl import dsl_program
from generate_language import language_program, without_buffers
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
