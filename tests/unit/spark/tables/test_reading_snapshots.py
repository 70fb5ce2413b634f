"""Snapshots as tables, planned from the object store alone: nothing answers at the manifest's Kafka."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from stored_apps import StoredApp
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.remote.bootstraps import VERSION, BootstrapBegun, BootstrapDone, Bootstraps, TaskDone
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.state.api import ValueAndTimestamp
from streamsapp_spark.datasource import StreamsAppDataSource, _columns
from streamsapp_spark.tables.json_schema import fault_in
from streamsapp_spark.tables.snapshot_reader import SnapshotReader

CODE = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(TEXT, TEXT))
    words.group_by(lambda key, value: value, Grouped(TEXT, TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=LONG))
    builder.table("orders", Consumed(TEXT, Serdes.json()),
        Materialized("orders", key_serde=TEXT, value_serde=Serdes.json()))
    words.group_by_key(Grouped(TEXT, TEXT)).windowed_by(TimeWindows.of(10, grace=100_000)).count(
        Materialized("windows", key_serde=TEXT, value_serde=LONG))
    words.to_table(Materialized("versions", key_serde=TEXT, value_serde=TEXT, versioned=1000))
    return builder.build()
"""

T = 1_700_000_000_000
PARTITIONS = 4


@pytest.fixture
def stored(tmp_path: Path) -> StoredApp:
    return StoredApp(tmp_path / "app", CODE)


def at(value: Any, time: int) -> ValueAndTimestamp:
    return ValueAndTimestamp(value, time)


def read(app: StoredApp, store: str, fields: pa.DataType | None = None, **options: str) -> list[dict[str, Any]]:
    """Rows as Spark gets them; ``fields`` is what Spark makes of the option ``schema``."""
    given = {"manifest": str(app.manifest), "store": store, **options}
    source = StreamsAppDataSource(given)
    source.schema()
    columns = _columns(app.app, given)
    types = {"key": pa.string(), "change": pa.string(), "task": pa.string()}
    types |= dict.fromkeys(("value", "old_value", "new_value"), fields or VALUES[store])
    schema = from_arrow_schema(pa.schema([(name, types.get(name, pa.int64())) for name in columns.names]))
    assert isinstance(schema, StructType)
    reader = source.reader(schema)
    assert isinstance(reader, SnapshotReader)
    batches = [batch for partition in reader.partitions() for batch in reader.read(partition)]
    return [row for batch in batches for row in batch.to_pylist()]


VALUES = {"counts": pa.int64(), "orders": pa.string(), "windows": pa.int64(), "versions": pa.string()}


def task_of(app: StoredApp, store: str, partition: int = 0) -> str:
    (part,) = [number for number, part in app.app.parts.items() if store in {each.name for each in part.stores}]
    return f"{part}_{partition}"


def values(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in rows}


def test_the_columns_are_told_without_kafka(stored: StoredApp) -> None:
    source = StreamsAppDataSource({"manifest": str(stored.manifest), "store": "windows"})
    assert source.schema() == (
        "`key` string, `window_start` bigint, `window_end` bigint, `value` bigint, `timestamp` bigint, `task` string, "
        "`offset` bigint"
    )


def test_a_time_or_a_number_chooses_the_newest_snapshot_that_is_not_after_it(stored: StoredApp) -> None:
    task = task_of(stored, "counts")
    first = stored.snapshot(task, T, {"counts": [("a", at(1, 5))]})
    second = stored.snapshot(task, T + 1_000, {"counts": [("a", at(2, 6))]})
    assert values(read(stored, "counts")) == {"a": 2}
    for as_of in (str(first), str(second - 1), str(T), str(T + 999), "2023-11-14T22:13:20.500Z", "2023-11-14 22:13:20"):
        assert values(read(stored, "counts", asOf=as_of)) == {"a": 1}, as_of
    for as_of in (str(second), str(second + 10), str(T + 1_000), "2023-11-14T23:13:21+01:00"):
        assert values(read(stored, "counts", asOf=as_of)) == {"a": 2}, as_of
    with pytest.raises(StreamsError, match=rf"task {task} has no snapshot as of 2023-11-14T22:13:19.999Z: the oldest"):
        read(stored, "counts", asOf=str(T - 1))
    for text in ("yesterday", "9" * 5_000):
        with pytest.raises(ConfigError, match=rf"option 'asOf': expected a time .* got '{text}'"):
            read(stored, "counts", asOf=text)


def test_changes_are_the_keys_that_differ_between_two_snapshots(stored: StoredApp) -> None:
    task = task_of(stored, "counts")
    old = [("same", at(1, 5)), ("more", at(1, 5)), ("gone", at(3, 5))]
    first = stored.snapshot(task, T, {"counts": old})
    stored.snapshot(task, T + 1_000, {"counts": [("more", at(2, 6)), ("gone", None), ("new", at(1, 7))]})
    rows = read(stored, "counts", changes=str(first))
    found = [(row["key"], row["change"], row["old_value"], row["new_value"], row["timestamp"]) for row in rows]
    assert found == [("gone", "delete", 3, None, None), ("more", "update", 1, 2, 6), ("new", "insert", None, 1, 7)]
    assert {row["task"] for row in rows} == {task}
    assert read(stored, "counts", changes=str(first), asOf=str(first)) == []
    with pytest.raises(ConfigError, match=r"option 'changes': .* is after .*: of task"):
        read(stored, "counts", changes=str(T + 1_000), asOf=str(T))


def test_changes_of_windows_have_their_bounds_and_those_of_versions_are_refused(stored: StoredApp) -> None:
    task = task_of(stored, "windows")
    first = stored.snapshot(task, T, {"windows": [("a", at(1, 5), 0)], "versions": [("a", "x", 5)]})
    stored.snapshot(task, T + 1_000, {"windows": [("a", at(2, 6), 0), ("a", at(1, 15), 10)]})
    rows = read(stored, "windows", changes=str(first))
    found = [(row["window_start"], row["window_end"], row["change"], row["new_value"]) for row in rows]
    assert found == [(0, 10, "update", 2), (10, 20, "insert", 1)]
    with pytest.raises(ConfigError, match="option 'changes': store versions keeps versions"):
        read(stored, "versions", changes=str(first))


ORDER = pa.struct([("size", pa.int32()), ("tags", pa.list_(pa.string()))])


def test_json_values_have_the_types_of_a_schema(stored: StoredApp) -> None:
    order = {"size": 3, "tags": ["a", None], "more": True}
    task = task_of(stored, "orders")
    first = stored.snapshot(task, T, {"orders": [("k", at(order, 5)), ("none", at({}, 6))]})
    options = {"manifest": str(stored.manifest), "store": "orders", "schema": "size int, tags array<string>"}
    assert "`value` struct<size int, tags array<string>>" in StreamsAppDataSource(options).schema()
    rows = read(stored, "orders", ORDER, schema="size int, tags array<string>")
    assert values(rows) == {"k": {"size": 3, "tags": ["a", None]}, "none": {"size": None, "tags": None}}
    stored.snapshot(task, T + 1, {"orders": [("k", at({"size": 4}, 7))]})
    (changed,) = read(stored, "orders", ORDER, schema="size int, tags array<string>", changes=str(first))
    assert (changed["old_value"]["size"], changed["new_value"]["size"]) == (3, 4)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"size": 1.5}, "value.size is 1.5, and the schema says int32"),
        ({"size": "3"}, "value.size is '3'"),
        ({"size": True}, "value.size is True"),
        ({"size": 1 << 31}, "value.size is 2147483648"),
        ({"tags": ["a", 7]}, r"value.tags\[1\] is 7, and the schema says string"),
        ([["size", 1]], r"value is \[\['size', 1\]\], and the schema says struct"),
    ],
)
def test_a_row_that_does_not_fit_the_schema_is_named(stored: StoredApp, value: Any, fault: str) -> None:
    task = task_of(stored, "orders")
    stored.snapshot(task, T, {"orders": [("good", at({"size": 1}, 5)), ("odd", at(value, 5))]})
    with pytest.raises(StreamsError, match=rf"option 'schema': task {task}, key 'odd': {fault}"):
        read(stored, "orders", ORDER, schema="size int, tags array<string>")


def test_a_number_that_a_float_cannot_hold_is_a_fault_and_does_not_become_infinite() -> None:
    assert fault_in(-3.4e38, pa.float32()) is None
    assert fault_in(1e39, pa.float32()) == "value is 1e+39, and the schema says float"
    assert fault_in(1e308, pa.float64()) is None


def test_a_schema_that_cannot_be_is_refused(stored: StoredApp) -> None:
    with pytest.raises(ConfigError, match="option 'schema': the values of store counts are long, not JSON"):
        read(stored, "counts", schema="size int")
    times = pa.struct([("at", pa.struct([("day", pa.timestamp("us"))]))])
    with pytest.raises(ConfigError, match=r"option 'schema': value\.at\.day is timestamp"):
        read(stored, "orders", times, schema="at struct<day timestamp_ntz>")
    numbered = pa.struct([("of", pa.map_(pa.int64(), pa.string()))])
    with pytest.raises(ConfigError, match=r"value\.of is a map whose keys are int64"):
        read(stored, "orders", numbered, schema="of map<bigint, string>")


def test_keys_are_read_from_the_tasks_that_can_have_them(stored: StoredApp) -> None:
    words = [f"w{number}" for number in range(20)]
    for partition in range(PARTITIONS):
        mine = [word for word in words if partition_for(word.encode(), PARTITIONS) == partition]
        stored.snapshot(task_of(stored, "counts", partition), T, {"counts": [(word, at(1, 5)) for word in mine]})
    assert len(read(stored, "counts")) == len(words)
    wanted = words[0]
    others = set(range(PARTITIONS)) - {partition_for(wanted.encode(), PARTITIONS)}
    for partition in others:  # which are not looked at
        shutil.rmtree(stored.folder / "objects" / "stored" / task_of(stored, "counts", partition) / "files")
    assert values(read(stored, "counts", keys=json.dumps([wanted]), partitions=str(PARTITIONS))) == {wanted: 1}
    with pytest.raises(StreamsError, match="is damaged"):
        read(stored, "counts")
    with pytest.raises(ConfigError, match="option 'keys': expected a JSON array of keys"):
        read(stored, "counts", keys="[1]")


def test_keys_of_topics_that_others_write_are_looked_for_in_every_task(stored: StoredApp) -> None:
    for partition in range(2):  # the same keys are in both: their producer has a partitioner of its own
        orders = [("a", at({"at": partition}, 5)), ("b", at({}, 5))]
        stored.snapshot(task_of(stored, "orders", partition), T, {"orders": orders})
    rows = read(stored, "orders", keys='["a", "c"]')
    assert [(row["key"], row["value"]) for row in rows] == [("a", '{"at":0}'), ("a", '{"at":1}')]


def test_a_task_without_snapshots_below_one_that_has_them_is_named(stored: StoredApp) -> None:
    with pytest.raises(StreamsError, match="has store counts, has a snapshot"):
        read(stored, "counts")
    stored.snapshot(task_of(stored, "counts", 2), T, {"counts": [("a", at(1, 5))]})
    with pytest.raises(StreamsError, match=f"task {task_of(stored, 'counts')} has no snapshot, and task"):
        read(stored, "counts")


def test_last_tasks_without_snapshots_are_named_where_anybody_knows_of_them(
    stored: StoredApp, caplog: pytest.LogCaptureFixture
) -> None:
    words = [f"w{number}" for number in range(20)]
    # Of the three tasks that are there, its hash would choose another one.
    word = next(it for it in words if (partition_for(it.encode(), PARTITIONS), partition_for(it.encode(), 3)) == (1, 0))
    tasks = [task_of(stored, "counts", partition) for partition in range(PARTITIONS)]
    for task in tasks[:3]:
        stored.snapshot(task, T, {"counts": [(word, at(1, 5))] if task == tasks[1] else [("other", at(1, 5))]})
    assert values(read(stored, "counts", keys=json.dumps([word]))) == {word: 1}
    assert "how many tasks store counts has is not known" in caplog.text
    with pytest.raises(StreamsError, match=f"task {tasks[3]} has no snapshot, and store counts has {PARTITIONS} tasks"):
        read(stored, "counts", partitions=str(PARTITIONS))
    with pytest.raises(StreamsError, match=f"task {tasks[2]} has a snapshot, and store counts has 2 tasks"):
        read(stored, "counts", partitions="2")
    for text in ("0", "many", "9" * 5_000):
        with pytest.raises(ConfigError, match="option 'partitions': expected 'kafka', or the number of tasks"):
            read(stored, "counts", partitions=text)


def test_the_tasks_that_a_bootstrap_has_noted_are_known(stored: StoredApp) -> None:
    tasks = [task_of(stored, "counts", partition) for partition in range(PARTITIONS)]
    bootstrap = Bootstraps(stored.app.objects, "stored").begin(1, BootstrapBegun(VERSION, "then", "kafka", (), {}))
    bootstrap.finish(BootstrapDone(VERSION, "now", tuple(TaskDone(VERSION, task, (), 0, 0, 0) for task in tasks)))
    stored.snapshot(tasks[0], T, {"counts": [("a", at(1, 5))]})
    with pytest.raises(StreamsError, match=f"task {tasks[1]} has no snapshot, and store counts has {PARTITIONS} tasks"):
        read(stored, "counts")
