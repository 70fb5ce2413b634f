"""An audit replays time markers up to where snapshots and commits stand, and names tasks whose markers have gone on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from memory_objects import MemoryObjects
from streamsapp import Consumed, Grouped, Materialized, Serdes, StreamsBuilder, StreamsConfig, TaskId, TopicPartition
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.snapshot import InputPoint, Snapshot, SnapshotFile, object_name, timestamp
from streamsapp.runtime.application_layout import lay_out
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp_spark.audit.plan import AuditFacts, AuditPlan, AuditPlanner
from streamsapp_spark.replay.stages import Stages

TEXT = Serdes.string()
CONFIG = StreamsConfig(application_id="app", bootstrap_servers="none:9092")
IN, REPARTITION = TopicPartition("in", 0), TopicPartition("app-again-repartition", 0)
T = 1_700_000_000_000


def stages(*, counts_first: bool) -> Stages:
    """0 is marked where its source is silent, and writes for 1, which counts; 0 may count, too."""
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed("source", TEXT, TEXT, idle_after=1_000))
    if counts_first:
        counted = stream.group_by_key(Grouped(TEXT, TEXT)).count(Materialized("first")).to_stream()
        stream = counted.map_values(str)
    stream.group_by(lambda key, value: value, Grouped("again", TEXT, TEXT)).count(Materialized("second"))
    layout, _ = lay_out(builder.build(), CONFIG, {"in": 1}, str)
    return Stages(layout)


def snapshot(objects: MemoryObjects, task: str, at: TopicPartition, time: int) -> None:
    """Puts a snapshot there that stands at offset 10, at a time."""
    digest = "0" * 64
    names = ("CURRENT", "MANIFEST-000005")
    described = Snapshot(
        version=1,
        application_id="app",
        task=task,
        number=2,
        epoch=1,
        writer="0" * 16,
        instance="pod-1",
        created_at=timestamp(T),
        written_at=timestamp(T),
        fingerprint="f",
        stores={},
        inputs=(InputPoint(*at, 10, OffsetMetadata(time).encode()),),
        files=tuple(SnapshotFile(name, 1, digest, object_name("1-" + "0" * 16, 2, name, digest)) for name in names),
    )
    ManifestChain(objects, "app", TaskId.parse(task)).append(described)


def plan(objects: MemoryObjects, committed_time: int, *, counts_first: bool = True) -> AuditPlan:
    """Plans where everything that is there was read."""
    bounds: Any = SimpleNamespace(lows={IN: 0, REPARTITION: 0}, highs={IN: 10, REPARTITION: 10})
    committed = {IN: 10, REPARTITION: 10}
    facts = AuditFacts(CONFIG, objects, committed, {IN: committed_time}, bounds, None, None, runs=False)
    return AuditPlanner(stages(counts_first=counts_first), facts, None).plan()


def test_markers_are_replayed_up_to_the_time_where_the_snapshot_stands() -> None:
    objects = MemoryObjects()
    snapshot(objects, "0_0", IN, T)
    snapshot(objects, "1_0", REPARTITION, T)
    found = plan(objects, T)
    assert (found.faults, set(found.snapshots)) == ([], {"0_0", "1_0"})
    assert found.times[IN] == T


def test_a_task_whose_markers_have_gone_on_since_its_snapshot_keeps_only_its_readers_from_being_compared() -> None:
    objects = MemoryObjects()
    snapshot(objects, "0_0", IN, T)
    snapshot(objects, "1_0", REPARTITION, T)
    found = plan(objects, T + 1)
    assert set(found.snapshots) == {"0_0"}
    (fault,) = found.faults
    assert fault.startswith("task 0_0: since its snapshot, time markers of in-0 have moved time on; nothing runs")


def test_a_task_that_keeps_nothing_but_markers_is_replayed_up_to_its_commit() -> None:
    objects = MemoryObjects()
    snapshot(objects, "1_0", REPARTITION, T)
    found = plan(objects, T + 1, counts_first=False)
    assert (found.faults, set(found.snapshots), found.tasks) == ([], {"1_0"}, {TaskId(0, 0), TaskId(1, 0)})
    assert found.times[IN] == T + 1
