"""A topology over the rows of batches gives what it gives record by record, however often a batch is run."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from operator import add
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, BinaryType, LongType, StringType, StructField, StructType

from batched_topology import BatchedTopology
from compare import Program, _encoded, run_as_instances
from generate_dsl import dsl_program
from programs import build
from replayed_programs import in_order, records_of
from streamsapp import (
    Consumed,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    PunctuationType,
    Record,
    Serdes,
    StreamsBuilder,
    Topology,
)
from streamsapp.errors import ConfigError, StreamsError, TopologyError
from streamsapp.record import RawRecord
from streamsapp_spark.dataframes.program import bound_application
from streamsapp_spark.dataframes.sources import check_bound

BATCHES = 3
TEXT = Serdes.string()


def comparable(program: Program) -> bool:
    """Programs without global stores, which are refused; without other times than the records' own, which order
    batches; without callbacks by stream time, which the driver has one of for all sub-topologies; without offsets or
    the time of the clock in results; without failing records, which end a batch."""
    text = json.dumps(program)
    words = ("extractor", "global_", "_raw", "stream_time", '"metadata"', '"survives"')
    return not any(word in text for word in words)


SEEDS = [seed for seed in range(24) if comparable(dsl_program(seed, size=12, events=24))]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_program_gives_in_batches_what_the_test_driver_gives(seed: int, tmp_path: Path) -> None:
    program = in_order(dsl_program(seed, size=12, events=24))
    topology = build(program)
    live = run_as_instances(program)
    whole = sorted((each for of in records_of(program).values() for each in of), key=lambda each: each.timestamp_ms)
    topics = {topic for part in topology.sub_topologies(program["inputs"]) for s in part.sources for topic in s.topics}
    query = BatchedTopology(topology, dict.fromkeys({*topics, *program["inputs"]}, 1), tmp_path)
    random, found = Random(seed), []
    cuts = sorted(random.sample(range(len(whole)), BATCHES - 1))
    for batch, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(whole)], strict=True)):
        inputs: dict[str, list[dict[str, Any]]] = {}
        for each in whole[start:end]:
            if each.topic() in query.app.layout.sources:
                inputs.setdefault(each.topic(), []).append(row_of(each))
        first, again = (query.run(batch, inputs, seed) for seed in (1, 2))
        assert shown(first) == shown(again)
        found += first
    expected = {topic: sorted(records, key=str) for topic, records in live["outputs"].items() if topic[:4] != "app-"}
    assert {topic: sorted(records, key=str) for topic, records in shown(found).items()} == expected


def row_of(record: RawRecord) -> dict[str, Any]:
    """Returns a record as the row of a DataFrame."""
    headers = [{"key": name, "value": value} for name, value in record.headers() or ()]
    return {
        "key": record.key(), "value": record.value(), "timestamp": record.timestamp_ms, "headers": headers or None
    }  # fmt: skip


def shown(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Results by topic, in the form of the test driver's."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=str):
        found.setdefault(row["topic"], []).append(
            {
                "key": _encoded(row["key"]),
                "value": _encoded(row["value"]),
                "ts": round(row["timestamp"].timestamp() * 1000),
                "headers": [[each["key"], _encoded(each["value"])] for each in row["headers"] or ()],
            }
        )
    return found


# ---- state -----------------------------------------------------------------------------------------------------


def counting(store: str = "counts") -> Topology:
    builder = StreamsBuilder()
    counts = builder.stream("words", Consumed(TEXT, TEXT)).group_by_key().count(
        Materialized(store, key_serde=TEXT, value_serde=Serdes.long(), store="memory")
    )  # fmt: skip
    counts.to_stream().map_values(str).to("out", Produced(TEXT, TEXT))
    return builder.build()


def rows(*keys: str, timestamp: int = 0) -> list[dict[str, Any]]:
    return [{"key": key.encode(), "value": b"x", "timestamp": timestamp} for key in keys]


def values(found: list[dict[str, Any]]) -> list[tuple[bytes, bytes]]:
    return sorted((row["key"], row["value"]) for row in found)


def test_a_batch_that_is_run_again_begins_with_the_state_before_it_and_older_states_go(tmp_path: Path) -> None:
    query = BatchedTopology(counting(), {"words": 2}, tmp_path)
    query.run(0, {"words": rows("a", "b")})
    for batch in range(1, 21):
        inputs = {"words": rows("a", "b") if batch % 3 else []}
        assert values(query.run(batch, inputs, 1)) == values(query.run(batch, inputs, 2))
    assert values(query.run(21, {"words": rows("a", "b")})) == [(b"a", b"16"), (b"b", b"16")]
    assert len(list((tmp_path / "state").rglob("manifests/*.json"))) == 2 * 3
    needed = {name for manifest in (tmp_path / "state").rglob("*.json") for name in _objects(manifest)}
    there = {path.name for path in (tmp_path / "state").rglob("files/*/*")}
    assert needed <= there
    assert len(there) < 4 * len(needed)


def _objects(manifest: Path) -> list[str]:
    return [Path(file["object"]).name for file in json.loads(manifest.read_bytes())["files"]]


def test_a_state_that_an_attempt_wrote_too_late_is_deleted_some_batches_later(tmp_path: Path) -> None:
    query = BatchedTopology(counting(), {"words": 1}, tmp_path)
    query.run(0, {"words": rows("a")})
    (manifest,) = (tmp_path / "state").rglob("manifests/*.json")
    late = manifest.read_bytes()
    for batch in range(1, 19):
        query.run(batch, {})
    assert not manifest.exists()
    manifest.write_bytes(late)
    query.run(19, {})
    assert len(list(manifest.parent.iterdir())) == 3


def test_stores_lie_in_the_folder_of_the_session_and_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    query = BatchedTopology(counting(), {"words": 1}, tmp_path)
    assert [values(query.run(batch, {"words": rows("a")})) for batch in range(2)] == [[(b"a", b"1")], [(b"a", b"2")]]
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["0_0"]


def test_a_state_of_another_time_or_topology_is_refused(tmp_path: Path) -> None:
    query = BatchedTopology(counting(), {"words": 1}, tmp_path)
    for batch in range(3):
        query.run(batch, {"words": rows("a")})
    with pytest.raises(StreamsError, match=r"state of task 0_0 is that of batch 2, and Spark runs batch 1: an older"):
        query.run(1, {"words": rows("a")})
    with pytest.raises(StreamsError, match=r"task 0_0 has no state after batch 3 .*has to read all of it"):
        query.run(4, {"words": rows("a")})
    with pytest.raises(ConfigError, match=r"another topology .*new checkpointLocation"):
        BatchedTopology(counting("other"), {"words": 1}, tmp_path).run(3, {"words": rows("a")})
    # A query with a checkpoint of its own begins for itself.
    assert values(BatchedTopology(counting(), {"words": 1}, tmp_path, "r").run(0, {"words": rows("a")})) == [
        (b"a", b"1")
    ]


def test_a_process_of_other_versions_than_the_drivers_runs_nothing(tmp_path: Path) -> None:
    program = BatchedTopology(counting(), {"words": 1}, tmp_path).program
    other = tuple((dict(program.versions) | {"pyspark": "3.5.0"}).items())
    with pytest.raises(ConfigError, match=r"the executor has pyspark .* instead of 3\.5\.0: .*same image"):
        bound_application(replace(program, versions=other))


def test_other_partitions_are_refused_even_if_there_are_as_many_tasks(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream(["words", "more"], Consumed(TEXT, TEXT)).group_by_key().count(Materialized("counts"))
    topology = builder.build()
    BatchedTopology(topology, {"words": 2, "more": 2}, tmp_path).run(0, {"more": rows("a", "b")})
    with pytest.raises(ConfigError, match=r"another topology or of other partitions= .*put the old ones back"):
        BatchedTopology(topology, {"words": 2, "more": 1}, tmp_path).run(1, {"more": rows("a", "b")})


class Ticking(Processor):
    """Forwards when it is called by time."""

    def __init__(self, kind: PunctuationType) -> None:
        self._kind = kind

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        context.schedule(100, self._kind, lambda now: context.forward(Record("tick", str(now), now)))

    def process(self, record: Record) -> None:
        metadata = self._context.record_metadata
        assert metadata is not None
        self._context.forward(record.with_value(str(metadata.offset)))


def ticking(kind: PunctuationType) -> Topology:
    builder = StreamsBuilder()
    builder.stream("words", Consumed(TEXT, TEXT)).process(lambda: Ticking(kind)).to("out", Produced(TEXT, TEXT))
    return builder.build()


def test_time_and_offsets_go_on_from_batch_to_batch(tmp_path: Path) -> None:
    query = BatchedTopology(ticking(PunctuationType.STREAM_TIME), {"words": 1}, tmp_path)
    told = [
        query.run(batch, {"words": rows("a", timestamp=time)}) for batch, time in enumerate((50, 90, 110, 120, 250))
    ]
    ticks = [[value for key, value in values(found) if key == b"tick"] for found in told]
    assert ticks == [[b"50"], [], [b"110"], [], [b"250"]]
    assert [value for found in told for key, value in values(found) if key == b"a"] == [b"%d" % n for n in range(5)]


def test_callbacks_by_wall_clock_are_refused(tmp_path: Path) -> None:
    query = BatchedTopology(ticking(PunctuationType.WALL_CLOCK_TIME), {"words": 1}, tmp_path)
    with pytest.raises(TopologyError, match="callbacks by wall clock, which nothing calls between batches"):
        query.run(0, {"words": rows("a")})


class Later(Ticking):
    """Schedules for the first time when there is a record."""

    def init(self, context: ProcessorContext) -> None:
        self._later = context

    def process(self, record: Record) -> None:
        super().init(self._later)


def test_so_are_those_that_a_record_schedules(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("words", Consumed(TEXT, TEXT)).process(lambda: Later(PunctuationType.WALL_CLOCK_TIME))
    query = BatchedTopology(builder.build(), {"words": 1}, tmp_path)
    with pytest.raises(TopologyError, match="callbacks by wall clock, which nothing calls between batches"):
        query.run(0, {"words": rows("a")})
    assert not list((tmp_path / "state").iterdir())


# ---- rows ------------------------------------------------------------------------------------------------------


def test_rows_are_taken_by_offset_where_they_have_one_and_go_to_the_partition_they_name(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    builder.stream("words", Consumed(TEXT, TEXT)).group_by_key().reduce(add).to_stream().to("out", Produced(TEXT, TEXT))
    query = BatchedTopology(builder.build(), {"words": 3}, tmp_path)
    given = [
        {"key": b"a", "value": b"%d" % offset, "timestamp": 9 - offset, "partition": 2, "offset": offset}
        for offset in range(5)
    ]
    assert values(query.run(0, {"words": given}))[-1] == (b"a", b"01234")
    points = [json.loads(path.read_bytes())["inputs"] for path in (tmp_path / "state").rglob("*.json")]
    assert sorted((point["partition"], point["offset"]) for (point,) in points) == [(0, 0), (1, 0), (2, 5)]


def with_headers(*parts: StructField) -> DataFrame:
    """As much of a DataFrame as is looked at before anything runs."""
    names = [StructField(name, StringType()) for name in ("key", "value")]
    columns = [*names, StructField("timestamp", LongType()), StructField("headers", ArrayType(StructType([*parts])))]
    schema = StructType(columns)
    return cast(DataFrame, SimpleNamespace(isStreaming=True, schema=schema, columns=schema.names))


def test_headers_whose_parts_are_in_another_order_are_refused() -> None:
    name, value = StructField("key", StringType()), StructField("value", BinaryType())
    check_bound("words", with_headers(name, value))
    with pytest.raises(ConfigError, match=r"'headers' is .*, and has to be array<struct<key: string, value: binary>>"):
        check_bound("words", with_headers(value, name))


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"timestamp": None}, "topic words: 1 rows have no timestamp"),
        ({"offset": None}, "topic words: 1 rows have no offset"),
        ({"partition": 2}, "a row has partition 2, and the topic has 2; say how many"),
    ],
)
def test_a_row_that_is_no_record_ends_the_batch(row: dict[str, Any], fault: str, tmp_path: Path) -> None:
    query = BatchedTopology(counting(), {"words": 2}, tmp_path)
    with pytest.raises(StreamsError, match=fault):
        query.run(0, {"words": [{"key": b"a", "value": b"b", "timestamp": 1} | row]})
    assert not list((tmp_path / "state").iterdir())
