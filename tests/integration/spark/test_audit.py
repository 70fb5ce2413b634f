"""A fault that was planted in a snapshot is found, and in a right one nothing is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from spark_apps import App
from streamsapp import Serdes, TaskId
from streamsapp.clock import SystemClock
from streamsapp.remote.snapshot_writer import SnapshotContent, SnapshotWriter
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.state.api import ValueAndTimestamp
from streamsapp.state.builders import Stores
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.task_stores import TaskStores
from streamsapp_spark.snapshots.download import bring

#: Each has several sessions of Spark's.
pytestmark = pytest.mark.timeout(1100)

PARTITIONS = 2

PROGRAM = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    words.group_by(lambda key, value: value, Grouped(key_serde=TEXT, value_serde=TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=LONG))
    return builder.build()
"""


def alter(app: App, task: str, change: Callable[[Any], object], directory: Path) -> None:
    """Publish a snapshot like the newest one but for what is changed in the store of counts."""
    chain = app.chain(task)
    _, snapshot = chain.newest()
    assert snapshot is not None
    bring(chain, snapshot, directory)
    builder = Stores.timestamped_key_value_store_builder(
        Stores.persistent_timestamped_key_value_store("counts"), Serdes.string(), Serdes.long()
    )
    stores = TaskStores(
        TaskId.parse(task),
        directory,
        [builder],
        StateResources(32 << 20),
        default_serdes=(Serdes.bytes(), Serdes.bytes()),
        context_timestamp=lambda: 0,
    )
    stores.open()
    stores.restored({}, {})
    change(stores.stores["counts"])
    list(stores.apply(stores.freeze(), {}))
    stores.checkpoint(directory / "altered")
    stores.close()
    writer = SnapshotWriter(chain, "somebody", SystemClock())
    writer.claim()
    writer.publish(directory / "altered", SnapshotContent(snapshot.stores, snapshot.inputs, snapshot.fingerprint))


def test_finds_what_is_altered_missing_or_doubled_and_nothing_in_what_is_right(
    instances: Instances, kafka: Kafka, tmp_path: Path
) -> None:
    words = kafka.create_topic("words", PARTITIONS)
    app = App(instances, kafka.unique("audited"), PROGRAM.replace("{words}", words))
    produce(kafka, words, [(b"k%d" % n, b"word%d" % (n % 50), 1_000 + n) for n in range(1_000)])
    app.bootstrap()
    instance = app.start()  # goes on, ends in good order, and is right still
    produce(kafka, words, [(b"k%d" % n, b"word%d" % (n % 50), 3_000 + n) for n in range(100)])
    app.processed(words)
    app.processed(f"{app.name}-counts-repartition")
    instance.close(30)
    code, said, errors = app.run("audit", "--master", "local[2]", "-o", "json")
    summary = json.loads(said.splitlines()[-1])
    assert (code, summary["keys"], summary["differences"], summary["faults"]) == (0, 50, 0, []), (said, errors[-4000:])

    of_partition = [[word for word in map("word{}".format, range(50)) if _partition(word) == each] for each in (0, 1)]
    (altered, missing, *_), (doubled, *_) = of_partition

    def change(store: Any) -> None:
        store.put(altered, ValueAndTimestamp(7, 3_000))
        store.delete(missing)

    def count_twice(store: Any) -> None:
        count, time = store.get(doubled)
        store.put(doubled, ValueAndTimestamp(count + 1, time))
        store.put("more", ValueAndTimestamp(1, 5))

    alter(app, "1_0", change, tmp_path / "one")
    alter(app, "1_1", count_twice, tmp_path / "two")
    code, said, errors = app.run("audit", "--master", "local[2]", "--store", "counts")
    assert code == 1, errors[-4000:]
    *lines, last = said.splitlines()
    assert last == f"{app.name}: 4 differences in 51 keys of counts, {PARTITIONS} tasks"
    expected = (
        f"task 1_0, store counts, key {altered!r}: expected 22 of time 30",
        f"task 1_0, store counts, key {missing!r}: expected 22 of time 30",
        f"task 1_1, store counts, key {doubled!r}: expected 22 of time 30",
        "task 1_1, store counts, key 'more': expected nothing, found 1 of time 5 (inputs ",
    )
    assert all(any(line.startswith(start) for line in lines) for start in expected)
    assert [("found 7 of" in line, "found nothing" in line, "found 23 of" in line) for line in lines].count(
        (False, False, False)
    ) == 1
    code, _, errors = app.run("audit", "--store", "count")
    assert code == 2
    assert "--store: no snapshot holds a store 'count'; the stores that snapshots hold: counts" in errors


COUNTED_IN_WINDOWS = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT)).group_by_key(Grouped(TEXT, TEXT))
    words.windowed_by(TimeWindows.of(1_000)).count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    return builder.build()
"""


def _records_in_snapshots(app: App) -> int:
    """The number of input records that the newest snapshots of all tasks have."""
    newest = [app.chain(f"0_{number}").newest()[1] for number in range(PARTITIONS)]
    return sum(point.offset for each in newest if each is not None for point in each.inputs)


def test_windows_that_are_over_and_still_in_a_snapshot_are_no_differences(instances: Instances, kafka: Kafka) -> None:
    words = kafka.create_topic("words", PARTITIONS)
    app = App(instances, kafka.unique("windows"), COUNTED_IN_WINDOWS.replace("{words}", words))
    instance = app.start()
    for second in range(5):  # of one segment, which is deleted as a whole, and written in epochs of their own
        produce(kafka, words, [(b"k%d" % n, b"x", 1_000 * (second + 1) + n) for n in range(50)])
        eventually(lambda: _records_in_snapshots(app) == 50 * (second + 1), "snapshots of all that was written")  # noqa: B023
    instance.close(30)
    code, said, errors = app.run("audit", "--master", "local[2]")
    assert (code, said.splitlines()) == (
        0,
        [f"{app.name}: no differences in 50 keys of counts, {PARTITIONS} tasks"],
    ), errors[-4000:]


COUNTED_BY_KEY = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    words.group_by_key(Grouped(TEXT, TEXT)).count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    return builder.build()
"""


@pytest.mark.long
def test_a_task_that_has_read_nothing_and_one_that_is_damaged_leave_the_others_compared(
    instances: Instances, kafka: Kafka, tmp_path: Path
) -> None:
    words = kafka.create_topic("words", 3)
    app = App(instances, kafka.unique("partly"), COUNTED_BY_KEY.replace("{words}", words))
    for partition in (0, 1):  # nothing is in the third one
        keys = [b"k%d-%d" % (partition, number % 5) for number in range(20)]
        kafka.produce(words, [(key, b"x") for key in keys], partition)
    instance = app.start()
    app.processed(words)
    instance.close(30)
    code, said, errors = app.run("audit", "--master", "local[2]")
    assert (code, said.splitlines()) == (
        0,
        [f"{app.name}: no differences in 10 keys of counts, 3 tasks"],
    ), errors[-4000:]

    shutil.rmtree(app.objects / app.name / "0_2")
    alter(app, "0_1", lambda store: store.delete("k1-3"), tmp_path / "altered")
    _, snapshot = app.chain("0_0").newest()
    assert snapshot is not None
    (current,) = [file for file in snapshot.files if file.name == "CURRENT"]
    (app.objects / app.chain("0_0").file_key(current)).write_bytes(b"MANIFEST-9\n")
    code, said, errors = app.run("audit", "--master", "local[2]", "-o", "json")
    difference, summary = map(json.loads, said.splitlines())
    assert code == 1, errors[-4000:]
    assert (difference["task"], difference["key"], difference["found"]) == ("0_1", "'k1-3'", "nothing")
    assert (summary["tasks"], summary["keys"], summary["differences"]) == (1, 5, 1)
    assert summary["notes"] == ["task 0_2: it has read nothing yet, so there is nothing to compare"]
    (fault,) = summary["faults"]
    assert fault.startswith(f"task 0_0: snapshot {snapshot.number} is damaged: ")


def _partition(word: str) -> int:
    return partition_for(word.encode(), PARTITIONS)
