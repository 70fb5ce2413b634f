"""A topology replayed stage after stage gives what it gives record by record."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compare import Program, _encoded, handlers, run_as_instances, shown_value
from generate_dsl import dsl_program
from hurried_rows import HURRIED
from programs import build
from replayed_programs import in_order, records_of
from staged_replay import Staged
from streamsapp import (
    Consumed,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    TopicPartition,
)
from streamsapp.dsl.ktable import KTable
from streamsapp.outgoing import OutputRecord
from streamsapp.record import RawRecord

EVENTS = 40


def comparable(program: Program) -> bool:
    """Programs without other times than the records' own, as the test driver takes records in the order of arrival;
    without global stores, which are complete here before the first record; without the time of the clock in results;
    with several tasks, without calls by stream time: the test driver's one task has the stream time of all topics."""
    text = json.dumps(program)
    alone = len(build(program).sub_topologies(program["inputs"])) == 1
    return (alone or "stream_time" not in text) and not any(
        word in text for word in ("extractor", "global_", '"metadata"')
    )


#: One program in three in `make test`.
SEEDS = [
    pytest.param(seed, marks=pytest.mark.long if seed % 3 else ())
    for seed in range(120)
    if comparable(dsl_program(seed, size=12, events=EVENTS))
]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_gives_the_same_state_and_the_same_results(seed: int, tmp_path: Path) -> None:
    program = in_order(dsl_program(seed, size=12, events=EVENTS))
    live = run_as_instances(program)
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


def foreign_key_joins(seed: int) -> Program:
    """Tables that change their foreign keys, joined twice; the results are grouped anew and come back to a join."""
    random = Random(seed)
    texts = {"key": "string", "value": "string"}
    kept = {"materialized": {**texts, "name": "first"}}
    by_value = {"extractor": "first_letter", "extractor_args": 2, "fn": "both"}
    steps = [
        {"op": "table", "id": "t", "topic": "t", "consumed": texts},
        {"op": "table", "id": "u", "topic": "u", "consumed": texts},
        {"op": random.choice(["join", "left_join"]), "id": "j", "of": "t", "with": "u", **by_value, **kept},
        {"op": random.choice(["join", "left_join"]), "id": "k", "of": "j", "with": "u", **by_value},
        {"op": "group_by", "id": "g", "of": "j", "fn": "first_letter", "grouped": texts},
        {"op": "reduce", "id": "r", "of": "g", "fn": "concat", "subtract": "unconcat"},
        {"op": "to_stream", "id": "ks", "of": "k"},
        {"op": "to", "id": "ko", "of": "ks", "topic": "joined", "produced": texts},
        {"op": "to_stream", "id": "rs", "of": "r"},
        {"op": "to", "id": "ro", "of": "rs", "topic": "reduced", "produced": texts},
    ]
    values = ["a", "abc", "b", "b22", "c", None]
    rows = [("t", random.choice("123456"), random.choice(values)) for _ in range(EVENTS)]
    others = [("u", random.choice("abcd"), random.choice(values)) for _ in range(EVENTS)]
    updates = random.sample([*rows, *others], 2 * EVENTS)
    events = [{"topic": topic, "key": key, "value": value, "ts": 0} for topic, key, value in updates]
    return {"steps": steps, "inputs": dict.fromkeys(("t", "u"), texts), "events": events, "optimize": False}


@pytest.mark.parametrize("seed", range(8))
def test_foreign_key_joins_give_the_same_state_and_the_same_results(seed: int, tmp_path: Path) -> None:
    program = in_order(foreign_key_joins(seed))
    live, staged = run_as_instances(program), replayed(program, tmp_path, results=True)
    assert any(staged.stages.looped(group) for stage in staged.stages.in_order for group in staged.stages.groups(stage))
    stores = {name: _shown(entries) for (name, _), entries in staged.stores.items() if name in live["stores"]}
    assert stores == {name: entries for name, entries in live["stores"].items() if name in stores}
    assert stores["first"]
    written = {topic: list(map(_record, records)) for topic, records in staged.outputs.items()}
    assert written["reduced"] == live["outputs"]["reduced"]
    # A foreign row is sent to both joins, and which of them hears of it first is not said: the last results are.
    last, expected = ({each["key"]: each["value"] for each in of["joined"]} for of in (written, live["outputs"]))
    assert last == expected


def test_rows_that_change_at_one_time_keep_no_result_of_before(tmp_path: Path) -> None:
    """All of them may come before the first answer; and with a time of its own each comes after the answer before."""
    for number, (names, apart) in enumerate(product((("rows", "others"), ("others", "rows")), (0, 10))):
        kept = hurried(tmp_path / f"{number}", names, apart)
        assert kept == {"of the same partner": "a2/A", "back": "a1/A"}, (names, apart)


def hurried(directory: Path, names: tuple[str, str], apart: int) -> dict[str, str]:
    """The results that are left of rows whose changes have so many milliseconds between them. Which task goes first is
    a matter of the tables' order."""
    text = Serdes.string()
    builder = StreamsBuilder()
    tables: dict[str, KTable[str, str]] = {
        name: builder.table(name, Consumed(text, text), Materialized(name, text, text)) for name in names
    }
    left, right = tables["rows"], tables["others"]
    kept = Materialized[str, str]("kept", text, text)
    joined = left.join(right, lambda row: None if row == "none" else row[0], lambda a, b: f"{a}/{b}", materialized=kept)
    joined.to_stream().to("joined", Produced(text, text))
    config = StreamsConfig(application_id="app", bootstrap_servers="unused:9092", state_dir=directory)
    changes = [*((key, "a1") for key in HURRIED), *((key, value) for key in HURRIED for value in HURRIED[key])]
    rows = [
        RawRecord(
            "rows",
            0,
            each,
            key.encode(),
            None if value is None else value.encode(),
            1_500 if each < len(HURRIED) else 2_000 + apart * each,
            [],
        )
        for each, (key, value) in enumerate(changes)
    ]
    others = [RawRecord("others", 0, 0, b"a", b"A", 1_000, [])]
    of = {TopicPartition("rows", 0): rows, TopicPartition("others", 0): others}
    staged = Staged(builder.build(), config, of, {"rows": 1, "others": 1}, directory)
    staged.run()
    [found] = [entries for (name, _), entries in staged.stores.items() if name == "kept"]
    return {key: value.value for key, value in found}


def test_rows_without_a_partner_are_sent_as_their_windows_close_however_fast_records_come(tmp_path: Path) -> None:
    text = Serdes.string()
    builder = StreamsBuilder()
    one, other = (builder.stream(topic, Consumed(text, text)) for topic in ("one", "other"))
    options = StreamJoined(text, text, text)
    joined = one.left_join(other, lambda mine, its: f"{mine}+{its}", JoinWindows.of(10), options)
    joined.to("results", Produced(text, text))
    config = StreamsConfig(application_id="app", bootstrap_servers="unused:9092", state_dir=tmp_path)
    records = [RawRecord("one", 0, each, b"k", b"%d" % each, 1_000 * each + 1, []) for each in range(4)]
    of = {TopicPartition("one", 0): records, TopicPartition("other", 0): []}
    staged = Staged(builder.build(), config, of, {"one": 1, "other": 1}, tmp_path)
    staged.run()
    assert [record[1] for record in staged.outputs["results"]] == [b"0+None", b"1+None", b"2+None"]


def replayed(program: Program, directory: Path, *, results: bool) -> Staged:
    topology = build(program)
    going_on = handlers(program)
    config = StreamsConfig(application_id="app", bootstrap_servers="unused:9092", state_dir=directory, **going_on)
    topics = {topic for part in topology.sub_topologies(program["inputs"]) for s in part.sources for topic in s.topics}
    partitions = dict.fromkeys({*topics, *program["inputs"]}, 1)
    staged = Staged(topology, config, records_of(program), partitions, directory, results=results)
    staged.run()
    return staged


def _shown(entries: list[tuple[Any, Any]]) -> list[list[Any]]:
    return [[key, shown_value(value)] for key, value in entries]


def _record(record: OutputRecord) -> dict[str, Any]:
    headers = [[name, _encoded(value)] for name, value in record[7] or []]
    return {"key": _encoded(record[2]), "value": _encoded(record[1]), "ts": record[6], "headers": headers}
