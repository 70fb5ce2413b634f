"""A topology replayed stage after stage gives what it gives record by record."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from compare import Program, _encoded, _headers, run_here
from generate_dsl import dsl_program
from options import serde
from programs import build
from staged_replay import Staged
from streamsapp import StreamsConfig, TopicPartition, Topology
from streamsapp.record import RawRecord
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.tasks.output import OutputRecord

EVENTS = 40


def in_order(program: Program) -> Program:
    """With records in the order of time, and no wall-clock time between them."""
    records = [event for event in program["events"] if "advance" not in event]
    for number, event in enumerate(records):
        event["ts"] = 1_000 + 10 * number
    return {**program, "events": records}


def records_of(program: Program, topology: Topology) -> dict[TopicPartition, list[RawRecord]]:
    found: defaultdict[TopicPartition, list[RawRecord]] = defaultdict(list)
    for event in program["events"]:
        partition = TopicPartition(event["topic"], 0)
        of = program["inputs"][event["topic"]]
        key, value = (_bytes(event, side, of) for side in ("key", "value"))
        found[partition].append(RawRecord(*partition, len(found[partition]), key, value, event["ts"], _headers(event)))
    return dict(found)


def _bytes(event: dict[str, Any], side: str, of: dict[str, str]) -> bytes | None:
    value = event[side]
    return None if value is None else serde(of[side]).serialize(value)


def comparable(program: Program) -> bool:
    """Not with times that are not those of the records, which the test driver takes in the order in which it gets them;
    nor with global stores, which are complete here before the first record; nor what tells the time of the clock."""
    text = json.dumps(program)
    return not any(word in text for word in ("extractor", "global_", "_raw", '"metadata"'))


SEEDS = [seed for seed in range(120) if comparable(dsl_program(seed, size=12, events=EVENTS))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_gives_the_same_state_and_the_same_results(seed: int, tmp_path: Path) -> None:
    program = in_order(dsl_program(seed, size=12, events=EVENTS))
    live = run_here(program)
    staged = replayed(program, tmp_path, results=True)
    stores = {name: _shown(entries) for (name, _), entries in staged.stores.items()}
    assert {name: entries for name, entries in live["stores"].items() if name in stores} == {
        name: entries for name, entries in stores.items() if name in live["stores"]
    }
    written = {topic: sorted(map(_record, records), key=str) for topic, records in staged.outputs.items()}
    # Which of two sub-topologies writes to a topic first is not said.
    expected = {topic: sorted(records, key=str) for topic, records in live["outputs"].items() if topic[:4] != "app-"}
    assert written == expected


@pytest.mark.parametrize("seed", SEEDS)
def test_the_state_is_the_same_when_results_are_left_out(seed: int, tmp_path: Path) -> None:
    program = in_order(dsl_program(seed, size=12, events=EVENTS))
    whole, without = (replayed(program, tmp_path / str(results), results=results) for results in (True, False))
    assert without.stores == whole.stores
    assert not without.outputs


def replayed(program: Program, directory: Path, *, results: bool) -> Staged:
    topology = build(program)
    config = StreamsConfig(application_id="app", bootstrap_servers="unused:9092", state_dir=directory)
    topics = {topic for part in topology.sub_topologies(program["inputs"]) for s in part.sources for topic in s.topics}
    partitions = dict.fromkeys({*topics, *program["inputs"]}, 1)
    staged = Staged(topology, config, records_of(program, topology), partitions, directory, results=results)
    staged.run()
    return staged


def _shown(entries: list[tuple[Any, Any]]) -> list[list[Any]]:
    return [
        [key, {"value": value.value, "timestamp": value.timestamp} if isinstance(value, ValueAndTimestamp) else value]
        for key, value in entries
    ]


def _record(record: OutputRecord) -> dict[str, Any]:
    headers = [[name, _encoded(value)] for name, value in record[7] or []]
    return {"key": _encoded(record[2]), "value": _encoded(record[1]), "ts": record[6], "headers": headers}
