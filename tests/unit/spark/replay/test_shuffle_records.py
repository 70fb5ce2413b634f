"""Records of internal topics, packed into rows by their writers, come back in their reader's order."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest

from streamsapp import TaskId, TopicPartition
from streamsapp.outgoing import OutputRecord
from streamsapp_spark.replay.stage_rows import ORDER, SCHEMA, SOURCE, InputRows, OutputRows, task_row

PARTITIONS = 2
SLOTS = {TopicPartition("words", number): (number, 1) for number in range(PARTITIONS)}


def record(value: bytes, timestamp: int, key: bytes | None = b"key") -> OutputRecord:
    return ("words", value, key, -1, None, None, timestamp, None)


def written(writer: int, records: list[OutputRecord]) -> list[pa.RecordBatch]:
    rows = OutputRows(TaskId(0, writer), {"words": PARTITIONS}, SLOTS)
    return [*rows.batches(records), *rows.rest()]


def read(batches: list[pa.RecordBatch], partition: int) -> list[tuple[int, bytes | None]]:
    """Offset and value, as the reader of a partition gets them from rows that Spark has sorted."""
    of = TopicPartition("words", partition)
    rows = [row for batch in batches for row in batch.to_pylist() if row["partition"] == partition]
    rows.sort(key=lambda row: tuple(row[name] for name in ORDER))
    rows.insert(0, dict(zip(SCHEMA.names, task_row(TaskId(1, partition), 0), strict=True)))
    shuffled = InputRows(pa.RecordBatch.from_pylist(rows[at : at + 5], SCHEMA) for at in range(0, len(rows), 5))
    shuffled.task()
    if shuffled.partition() is None:
        return []
    return [(each.offset(), each.value()) for records in shuffled.records(of) for each in records]


@pytest.mark.seeds(3)
def test_records_of_several_writers_come_by_time_then_writer_then_as_they_were_written(seed: int) -> None:
    rng = random.Random(seed)
    spread = rng.choice((3, 400, 100_000))
    expected: list[tuple[int, int, int, bytes]] = []
    batches: list[pa.RecordBatch] = []
    for writer in range(3):
        # Mostly forward in time, some late ones, and stretches that other writers have nothing of.
        start = rng.randrange(spread)
        times = [start + number // rng.choice((1, 1, 7)) - rng.choice((0, 0, 0, 50)) for number in range(6_000)]
        records = [record(b"%d/%d" % (writer, number), max(0, time)) for number, time in enumerate(times)]
        latest = 0
        for number, each in enumerate(records):
            latest = max(latest, each[6])
            expected.append((latest, writer, number, each[1] or b""))
        batches += written(writer, records)
    [partition] = {row["partition"] for batch in batches for row in batch.to_pylist()}
    assert read(batches, partition) == [(offset, value) for offset, (*_, value) in enumerate(sorted(expected))]


def test_a_row_carries_many_small_records_and_one_large_one() -> None:
    small = [record(b"x", number) for number in range(1_000)]
    large = [record(b"x" * 100_000, number) for number in range(10)]
    assert sum(batch.num_rows for batch in written(0, small)) < 20
    assert sum(batch.num_rows for batch in written(0, large)) == 10


def test_key_partition_time_and_headers_are_those_that_were_written() -> None:
    chosen: OutputRecord = ("words", None, b"k", 1, None, None, 77, [("name", b"value"), ("empty", None)])
    of = TopicPartition("words", 1)
    rows = [dict(zip(SCHEMA.names, task_row(TaskId(1, 1), 0), strict=True)), *written(0, [chosen])[0].to_pylist()]
    shuffled = InputRows([pa.RecordBatch.from_pylist(rows, SCHEMA)])
    shuffled.task()
    [[found]] = shuffled.records(of)
    assert (found.topic(), found.partition(), found.key(), found.value(), found.timestamp()[1]) == (*of, b"k", None, 77)
    assert found.headers() == [("name", b"value"), ("empty", None)]


def test_records_without_a_key_go_to_every_partition_in_turn() -> None:
    batches = written(0, [record(b"%d" % number, number, None) for number in range(6)])
    assert [value for _, value in read(batches, 0)] == [b"0", b"2", b"4"]
    assert [value for _, value in read(batches, 1)] == [b"1", b"3", b"5"]


def test_records_of_history_keep_their_own_offsets() -> None:
    rows = [(0, 1, "words", 0, offset, SOURCE, offset, b"k", b"v", 1_000 + offset, None) for offset in (3, 4, 9)]
    all_rows = [dict(zip(SCHEMA.names, each, strict=True)) for each in (task_row(TaskId(1, 0), 0), *rows)]
    shuffled = InputRows([pa.RecordBatch.from_pylist(all_rows, SCHEMA)])
    shuffled.task()
    [records] = shuffled.records(TopicPartition("words", 0))
    assert [each.offset() for each in records] == [3, 4, 9]
    assert all(earlier.timestamp() < later.timestamp() for earlier, later in pairwise(records))
