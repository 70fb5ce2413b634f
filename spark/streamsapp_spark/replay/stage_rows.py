"""The rows that go from one stage to the next: records of internal topics in the order in which their reader shall have
them, and at the head of each Spark partition the task that it is for.

Written and read in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa

from streamsapp.outgoing import OutputRecord
from streamsapp.record import InputRecord, TaskId, TopicPartition
from streamsapp.tasks.fed_records import fed_record
from streamsapp_spark.replay.partitioning import partition_of
from streamsapp_spark.replay.shuffle_records import Packed, PackedRecord, in_order, pack

#: ``repartition_key`` leads to the reader's Spark partition, ``reader`` is its sub-topology. Records of a partition are
#: read in the order of ``time``, ``writer``, ``sequence``: as if all writers had run side by side, each in its own
#: order. Rows of a writer carry many records in ``value`` and have the place of the first.
SCHEMA = pa.schema(
    [
        ("repartition_key", pa.int32()),
        ("reader", pa.int32()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("time", pa.int64()),
        ("writer", pa.int32()),
        ("sequence", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", pa.binary()),
    ]
)
#: The same for Spark.
SQL_SCHEMA = (
    "repartition_key int, reader int, topic string, partition int, time bigint, writer int, sequence bigint, "
    "key binary, value binary, timestamp bigint, headers binary"
)
#: The writer of records that are history themselves; their ``sequence`` is the offset.
SOURCE = -1
ORDER = ("topic", "partition", "time", "writer", "sequence")

#: The reader of rows that are for the driver.
NOBODY = -1

#: No topic's name, and before all of them: such a row names the task.
_TASK = ""
_EARLIEST = -(1 << 63)

#: Records in a row at most, and the size of a value from which on a row ends with it: Spark keeps many rows in memory.
_PACKED, _LARGE = 128, 1_024
#: Keys whose partition is remembered.
_KNOWN = 100_000

Row = tuple[Any, ...]


def task_row(task_id: TaskId, repartition_key: int) -> Row:
    """Returns the row that comes first where the task is."""
    return (repartition_key, task_id.subtopology, _TASK, task_id.partition, _EARLIEST, 0, 0, None, None, 0, None)


def message_batch(messages: Sequence[bytes]) -> pa.RecordBatch:
    """Returns rows for the driver."""
    rows: list[Row] = [(0, NOBODY, _TASK, 0, 0, 0, 0, None, message, 0, None) for message in messages]
    return batch_of(rows)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Returns rows as Spark takes them, at least one."""
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class _Bucket(list[PackedRecord]):
    """The records that wait to be packed for one partition."""

    __slots__ = ("partition",)

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__()
        self.partition = partition


class _Topic:
    """One internal topic, as one task writes it."""

    def __init__(self, name: str, partitions: int) -> None:
        self.buckets = [_Bucket(TopicPartition(name, number)) for number in range(partitions)]
        self.time = _EARLIEST
        self.known: dict[bytes, _Bucket] = {}

    def bucket(self, record: OutputRecord, sequence: int) -> _Bucket:
        found = self.buckets[partition_of(record, len(self.buckets), sequence)]
        if record[2] is not None and record[3] < 0:
            if len(self.known) >= _KNOWN:
                self.known.clear()
            self.known[record[2]] = found
        return found


class OutputRows:
    """The rows that one task writes to internal topics."""

    def __init__(
        self, task_id: TaskId, partitions: dict[str, int], destinations: dict[TopicPartition, tuple[int, int]]
    ) -> None:
        """Takes in ``partitions`` how many each internal topic has, in ``destinations`` the Spark partition and the
        reader of each."""
        self._writer = task_id.partition + (task_id.subtopology << 20)
        self._topics = {name: _Topic(name, number) for name, number in partitions.items()}
        self._destinations = destinations
        self._sequence = self._rows = 0

    def batches(self, records: Sequence[OutputRecord]) -> list[pa.RecordBatch]:
        """Yields the rows that are full with these records; those of other topics are passed over."""
        rows: list[Row] = []
        topics, sequence = self._topics, self._sequence
        for record in records:
            topic, value, key, partition, _, _, timestamp, headers = record
            to = topics.get(topic)
            if to is None:
                continue
            if timestamp > to.time:
                to.time = timestamp
            bucket = to.known.get(key) if partition < 0 and key is not None else None
            if bucket is None:
                bucket = to.bucket(record, sequence)
            sequence += 1
            bucket.append((to.time, key, value, timestamp, headers))
            if len(bucket) >= _PACKED or (value is not None and len(value) >= _LARGE):
                rows.append(self._row(bucket))
        self._sequence = sequence
        return [batch_of(rows)] if rows else []

    def rest(self) -> list[pa.RecordBatch]:
        """Yields the rows that are not full, at the end."""
        rows = [self._row(bucket) for topic in self._topics.values() for bucket in topic.buckets if bucket]
        return [batch_of(rows)] if rows else []

    def _row(self, bucket: _Bucket) -> Row:
        topic, partition = bucket.partition
        repartition_key, reader = self._destinations[bucket.partition]
        time, packed = bucket[0][0], pack(bucket)
        bucket.clear()
        self._rows += 1
        return (repartition_key, reader, topic, partition, time, self._writer, self._rows, None, packed, 0, None)


_headers = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])


class InputRows:
    """The rows of one Spark partition: first its task, then records, partition after partition."""

    def __init__(
        self, batches: Iterable[pa.RecordBatch], firsts: Mapping[TopicPartition, int] = MappingProxyType({})
    ) -> None:
        """Takes in ``firsts`` the offsets from which on records of internal topics are numbered."""
        self._batches = (batch for batch in batches if batch.num_rows)
        self._firsts = firsts
        self._batch: pa.RecordBatch | None = None
        self._at = 0

    def task(self) -> TaskId | None:
        """Returns the task; ``None`` if there are no rows."""
        batch = self._current()
        if batch is None:
            return None
        task_id = TaskId(batch.column("reader")[0].as_py(), batch.column("partition")[0].as_py())
        assert batch.column("topic")[0].as_py() == _TASK
        self._at = 1
        return task_id

    def partition(self) -> TopicPartition | None:
        """Returns the partition whose records come next; ``None`` at the end."""
        batch = self._current()
        if batch is None:
            return None
        return TopicPartition(batch.column("topic")[self._at].as_py(), batch.column("partition")[self._at].as_py())

    def records(self, of: TopicPartition) -> Iterator[Sequence[InputRecord]]:
        """Yields the records of the partition that comes next."""
        batch = self._current()
        assert batch is not None
        return (
            self._source_records(of)
            if batch.column("writer")[self._at].as_py() == SOURCE
            else in_order(self._packed(of), of, self._firsts.get(of, 0))
        )

    def _source_records(self, of: TopicPartition) -> Iterator[Sequence[InputRecord]]:
        while self.partition() == of:
            batch = self._current()
            assert batch is not None
            records = list(_records(batch.slice(self._at), of))
            self._at += len(records)
            yield records

    def _packed(self, of: TopicPartition) -> Iterator[Packed]:
        while self.partition() == of:
            batch = self._current()
            assert batch is not None
            columns = [batch.slice(self._at).column(name).to_pylist() for name in _PACKED_COLUMNS]
            for topic, partition, time, writer, packed in zip(*columns, strict=True):
                if (topic, partition) != of:
                    break
                self._at += 1
                yield Packed(time, writer, packed)

    def _current(self) -> pa.RecordBatch | None:
        """Returns the batch with the next row."""
        if self._batch is None or self._at >= self._batch.num_rows:
            self._batch, self._at = next(self._batches, None), 0
        return self._batch


_PACKED_COLUMNS = ("topic", "partition", "time", "writer", "value")
_SOURCE_COLUMNS = ("topic", "partition", "sequence", "key", "value", "timestamp", "headers")


def _records(batch: pa.RecordBatch, of: TopicPartition) -> Iterator[InputRecord]:
    """Yields the records of a partition that a batch begins with."""
    columns = [batch.column(name).to_pylist() for name in _SOURCE_COLUMNS]
    for topic, partition, sequence, key, value, timestamp, headers in zip(*columns, strict=True):
        if (topic, partition) != of:
            return
        decoded = None if headers is None else _headers.decode(headers)
        yield fed_record(topic, partition, sequence, key, value, timestamp, decoded)
