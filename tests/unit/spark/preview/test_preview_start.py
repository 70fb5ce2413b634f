"""A preview begins at the newest snapshots that leave enough to read, or at the first record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from memory_objects import MemoryObjects
from streamsapp import Consumed, Grouped, Materialized, Serdes, StreamsBuilder, StreamsConfig, TaskId, TopicPartition
from streamsapp.errors import StreamsError
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.snapshot import InputPoint, Snapshot, SnapshotFile, object_name, timestamp
from streamsapp.runtime.application_layout import lay_out
from streamsapp_spark.preview.start import FROM_FIRST, Start, StartFacts, StartPlanner, Wanted
from streamsapp_spark.replay.stages import Stages

TEXT = Serdes.string()
CONFIG = StreamsConfig(application_id="app", bootstrap_servers="none:9092")
IN, TABLE = TopicPartition("in", 0), TopicPartition("table", 0)
REPARTITION = TopicPartition("app-counts-repartition", 0)
T = 1_700_000_000_000


def stages() -> Stages:
    """0 has no state and writes for 1, which counts; 2 keeps a table, for itself."""
    builder = StreamsBuilder()
    words = builder.stream("in", Consumed(TEXT, TEXT))
    words.group_by(lambda key, value: value, Grouped(TEXT, TEXT)).count(Materialized("counts"))
    builder.table("table", Consumed(TEXT, TEXT), Materialized("table"))
    layout, _ = lay_out(builder.build(), CONFIG, {"in": 1, "table": 1}, str)
    return Stages(layout)


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


def snapshot(objects: MemoryObjects, task: str, number: int, at: Mapping[TopicPartition, int], time: int = T) -> None:
    """Puts a snapshot there that stands at these offsets."""
    digest = "0" * 64
    names = ("CURRENT", "MANIFEST-000005")
    files = tuple(SnapshotFile(name, 1, digest, object_name("1-" + "0" * 16, number, name, digest)) for name in names)
    described = Snapshot(
        version=1,
        application_id="app",
        task=task,
        number=number,
        epoch=1,
        writer="0" * 16,
        instance="pod-1",
        created_at=timestamp(time),
        written_at=timestamp(time),
        fingerprint="f",
        stores={},
        inputs=tuple(InputPoint(*partition, offset, "AQID") for partition, offset in at.items()),
        files=files,
    )
    ManifestChain(objects, "app", TaskId.parse(task)).append(described)


def start(objects: MemoryObjects, wanted: Wanted, lows: dict[TopicPartition, int] | None = None, **facts: Any) -> Start:
    """Chooses where topics end at 1,000."""
    highs = {IN: 1_000, TABLE: 1_000, **facts.pop("highs", {})}
    known = {"committed": {IN: 900}, "since": {}, **facts}
    facts_ = StartFacts("app", objects, lows={IN: 0, TABLE: 0, **(lows or {})}, highs=highs, **known)
    return StartPlanner(stages(), facts_, wanted).choose()


def test_the_newest_snapshot_that_leaves_enough_records_is_taken(objects: MemoryObjects) -> None:
    snapshot(objects, "1_0", 2, {REPARTITION: 900})
    for number, offset in ((2, 700), (3, 800), (4, 990)):
        snapshot(objects, "2_0", number, {TABLE: offset})
    found = start(objects, Wanted(100))
    assert found.snapshots == {TaskId(1, 0): 2, TaskId(2, 0): 3}
    # Of the task without state the committed offset counts: there the one behind it stands.
    assert found.positions == {IN: (900, ""), REPARTITION: (900, "AQID"), TABLE: (800, "AQID")}
    assert not found.notes


def test_the_newest_snapshot_that_is_old_enough_is_taken(objects: MemoryObjects) -> None:
    snapshot(objects, "1_0", 2, {REPARTITION: 900})
    for number, time in ((2, T), (3, T + 1_000), (4, T + 2_000)):
        snapshot(objects, "2_0", number, {TABLE: 500 + number}, time)
    assert start(objects, Wanted(100, since_ms=T + 1_500)).snapshots == {TaskId(1, 0): 2, TaskId(2, 0): 3}


def test_where_no_snapshot_leaves_enough_the_first_record_is_the_beginning(objects: MemoryObjects) -> None:
    snapshot(objects, "1_0", 2, {REPARTITION: 900})
    snapshot(objects, "2_0", 2, {TABLE: 990})
    found = start(objects, Wanted(500))
    assert (found.snapshots, found.positions) == ({}, {IN: (0, ""), TABLE: (0, "")})
    assert [note.partition(":")[0] for note in found.notes] == ["tasks 0_0, 1_0", "task 2_0"]


@pytest.mark.parametrize(
    ("lows", "highs"), [({TABLE: 1}, {}), ({}, {TABLE: FROM_FIRST + 1})], ids=["deleted", "too long"]
)
def test_a_topic_whose_first_record_is_gone_or_far_begins_with_the_oldest_snapshot(
    objects: MemoryObjects, lows: dict[TopicPartition, int], highs: dict[TopicPartition, int]
) -> None:
    snapshot(objects, "1_0", 2, {REPARTITION: 900})
    for number, offset in ((2, 995), (3, 999)):
        snapshot(objects, "2_0", number, {TABLE: max(highs.get(TABLE, 0) - 5, offset)})
    found = start(objects, Wanted(50), lows, highs=highs)
    assert found.snapshots[TaskId(2, 0)] == 2
    assert found.notes == ["task 2_0: the oldest snapshots that there are leave 5 records to read"]


def test_a_snapshot_after_which_records_were_deleted_is_not_begun_with(objects: MemoryObjects) -> None:
    snapshot(objects, "1_0", 2, {REPARTITION: 900})
    snapshot(objects, "2_0", 2, {TABLE: 400})
    with pytest.raises(StreamsError, match="task 2_0: no snapshot to begin with whose input is still there"):
        start(objects, Wanted(50), {TABLE: 401})
