"""Versioned tables against Kafka Streams: joins as of a record's time, with a grace for late updates of the table."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest

from compare import description_difference, outcome_difference, report, run_here
from generate_versioned import VersionedGenerator
from oracle import Oracle

_TEXTS = {"key": "string", "value": "string"}


def _program(history: int, *steps: dict[str, Any], events: list[tuple[str, str | None, str | None, int]]) -> Any:
    return {
        "optimize": False,
        "steps": [
            {"op": "stream", "id": "s", "topics": ["s"], "consumed": _TEXTS},
            {
                "op": "table",
                "id": "t",
                "topic": "t",
                "consumed": _TEXTS,
                "materialized": {**_TEXTS, "name": "versions", "versioned": history},
            },
            *steps,
        ],
        "inputs": {"s": _TEXTS, "t": _TEXTS},
        "events": [{"topic": topic, "key": key, "value": value, "ts": at} for topic, key, value, at in events],
    }


def _join(join: str, **joined: Any) -> list[dict[str, Any]]:
    return [
        {"op": join, "id": "j", "of": "s", "with": "t", "fn": "both", "joined": {**_TEXTS, **joined}},
        {"op": "to", "of": "j", "topic": "out", "produced": _TEXTS},
    ]


@pytest.mark.parametrize("join", ["join", "left_join"])
@pytest.mark.parametrize("name", [{}, {"name": "named"}], ids=["unnamed", "named"])
def test_a_record_waits_for_late_updates_of_a_versioned_table_as_in_kafka_streams(
    oracle: Oracle, join: str, name: dict[str, str]
) -> None:
    events: list[tuple[str, str | None, str | None, int]] = [
        ("s", "a", "waits", 2000),
        ("t", "a", "too new", 2005),
        ("s", "b", "waits too", 2001),
        ("t", "a", "late", 1999),
        ("s", "b", "at the edge", 2010),
        ("s", "c", "moves time on", 2011),
        ("s", "c", "far too late", 1990),
        ("s", None, None, 3000),
        ("s", "c", None, 4000),
        ("t", "c", "row", 2001),
        ("s", "c", "moves all on", 2100),
    ]
    program = _program(500, *_join(join, grace=10, **name), events=events)
    assert description_difference(oracle, program) is None
    assert outcome_difference(oracle, program) is None
    assert len(run_here(program)["outputs"]["out"]) == (5 if join == "left_join" else 2)


def test_a_record_without_key_that_nothing_can_wait_for_is_sent_at_once(oracle: Oracle) -> None:
    """Kafka Streams fails for it (docs/departures.md)."""
    program = _program(500, *_join("left_join", grace=10), events=[("s", None, "x", 1)])
    assert "error" in oracle.ask(kind="run", **program)
    assert len(run_here(program)["outputs"]["out"]) == 1


def test_a_record_that_fails_after_it_waited_is_dropped_and_the_others_go_on(oracle: Oracle) -> None:
    """In Kafka Streams it stays, and fails again for every record that comes (docs/departures.md)."""
    events: list[Any] = [("s", "a", "boom", 10), ("s", "a", "fine", 11), ("s", "b", "next", 20), ("s", "c", "last", 40)]
    program = {**_program(500, *_join("left_join", grace=5), events=events), "survives": True}
    assert "out" not in oracle.ask(kind="run", **program)["outputs"]
    sent = [b64decode(record["value"]) for record in run_here(program)["outputs"]["out"]]
    assert sent == [b"fine/null", b"next/null"]


@pytest.mark.parametrize(("versioned", "grace"), [(None, 5), (5, 6)])
def test_a_grace_that_a_table_cannot_serve_is_refused_as_in_kafka_streams(
    oracle: Oracle, versioned: int | None, grace: int
) -> None:
    program = _program(versioned or 0, *_join("join", grace=grace), events=[])
    if versioned is None:
        del program["steps"][1]["materialized"]["versioned"]
    theirs, ours = oracle.ask(kind="describe", **program), run_here(program)
    assert theirs["error"].endswith("IllegalArgumentException")
    assert ours["error"] == "TopologyError"


@pytest.mark.parametrize(
    "derived", [{"op": "filter", "fn": "value_even"}, {"op": "map_values", "fn": "exclaim"}], ids=str
)
@pytest.mark.parametrize("kept", [{}, {"materialized": _TEXTS}], ids=["not kept", "kept without a name"])
def test_late_changes_pass_a_table_that_is_kept_without_a_name_as_in_kafka_streams(
    oracle: Oracle, derived: dict[str, Any], kept: dict[str, Any]
) -> None:
    program = _program(
        1000,
        {**derived, "id": "d", "of": "t", **kept},
        {"op": "group_by", "id": "g", "of": "d", "fn": "first_letter", "grouped": _TEXTS},
        {"op": "reduce", "id": "r", "of": "g", "fn": "concat", "subtract": "unconcat"},
        {"op": "to_stream", "id": "o", "of": "r"},
        {"op": "to", "of": "o", "topic": "out", "produced": _TEXTS},
        events=[("t", "a", "aa", 100), ("t", "a", "bb", 50), ("t", "a", "ac", 200), ("t", "b", None, 100)],
    )
    assert outcome_difference(oracle, program) is None
    assert len(run_here(program)["outputs"]["out"]) == (4 if kept else 2)


@pytest.mark.parametrize("kept", [{}, {"materialized": {**_TEXTS, "name": "kept"}}], ids=["not kept", "kept"])
def test_a_filter_below_a_join_of_versioned_tables_sends_no_deletion_of_what_never_was(
    oracle: Oracle, kept: dict[str, Any]
) -> None:
    """A join is no versioned table, whatever is joined."""
    steps: list[dict[str, Any]] = [
        {"op": "join", "id": "j", "of": "t", "with": "t", "fn": "both", **kept},
        {"op": "filter", "id": "f", "of": "j", "fn": "key_even"},
        {"op": "to_stream", "id": "o", "of": "f"},
        {"op": "to", "of": "o", "topic": "out", "produced": _TEXTS},
    ]
    events = [("t", "odd", "a", 10), ("t", "even", "b", 11), ("t", "odd", "c", 9), ("t", "even", None, 12)]
    program = _program(500, *steps, events=[*events])
    assert outcome_difference(oracle, program) is None
    assert all(b64decode(record["key"]) == b"even" for record in run_here(program)["outputs"]["out"])


@pytest.mark.seeds(30)
def test_random_joins_with_versioned_tables_are_those_of_kafka_streams(seed: int, oracle: Oracle) -> None:
    program = VersionedGenerator(seed).generate(events=30)
    for difference in (description_difference, outcome_difference):
        found = report(oracle, program, difference)
        assert found is None, found


@pytest.mark.seeds(40)
def test_random_tables_of_versioned_tables_are_those_of_kafka_streams(seed: int, oracle: Oracle) -> None:
    program = VersionedGenerator(seed).tables(events=25)
    for difference in (description_difference, outcome_difference):
        found = report(oracle, program, difference)
        assert found is None, found
