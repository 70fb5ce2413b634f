"""The rows that go from one stage to the next: records of internal topics in the order in which their reader shall have
them, and at the head of each Spark partition the task that it is for.

Written and read in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from streamsapp.record import InputRecord, TaskId, TopicPartition
from streamsapp.tasks.output import OutputRecord
from streamsapp.testing.raw_record import RawRecord
from streamsapp_spark.placing import partition_of

#: ``slot`` leads to the reader's Spark partition, ``reader`` is its sub-topology. Records of a partition are read in
#: the order of ``time``, ``writer``, ``sequence``: as if all writers had run side by side, each in its own order.
SCHEMA = pa.schema(
    [
        ("slot", pa.int32()),
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
    "slot int, reader int, topic string, partition int, time bigint, writer int, sequence bigint, "
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

Row = tuple[Any, ...]


def task_row(task_id: TaskId, slot: int) -> Row:
    """The row that comes first where the task is."""
    return (slot, task_id.subtopology, _TASK, task_id.partition, _EARLIEST, 0, 0, None, None, 0, None)


def message_batch(messages: Sequence[bytes]) -> pa.RecordBatch:
    """Rows for the driver."""
    rows: list[Row] = [(0, NOBODY, _TASK, 0, 0, 0, 0, None, message, 0, None) for message in messages]
    return _batch(rows)


def _batch(rows: Sequence[Row]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


class OutputRows:
    """What one task writes to internal topics, as rows."""

    def __init__(
        self, task_id: TaskId, partitions: dict[str, int], slots: dict[TopicPartition, tuple[int, int]]
    ) -> None:
        """``partitions`` has how many each internal topic has, ``slots`` where each leads and its reader."""
        self._task = task_id
        self._partitions = partitions
        self._slots = slots
        self._sequence = 0
        self._times: dict[str, int] = {}

    def batch(self, records: Sequence[OutputRecord]) -> pa.RecordBatch:
        """The rows of records, at least one, in the order in which they were written."""
        return _batch([self._row(record) for record in records])

    def _row(self, record: OutputRecord) -> Row:
        topic, value, key, _, _, _, timestamp, headers = record
        sequence = self._sequence
        self._sequence += 1
        partition = partition_of(record, self._partitions[topic], sequence)
        slot, reader = self._slots[TopicPartition(topic, partition)]
        # A writer's own order must hold, whatever timestamps its records have.
        time = self._times[topic] = max(self._times.get(topic, _EARLIEST), timestamp)
        packed = msgspec.msgpack.encode(headers) if headers else None
        return (slot, reader, topic, partition, time, self._task.partition + (self._task.subtopology << 20),
                sequence, key, value, timestamp, packed)  # fmt: skip


_headers = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]])


class InputRows:
    """The rows of one Spark partition: first its task, then records, partition after partition."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = (batch for batch in batches if batch.num_rows)
        self._batch: pa.RecordBatch | None = None
        self._at = 0

    def task(self) -> TaskId | None:
        """The task; ``None`` where there are no rows."""
        batch = self._current()
        if batch is None:
            return None
        task_id = TaskId(batch.column("reader")[0].as_py(), batch.column("partition")[0].as_py())
        assert batch.column("topic")[0].as_py() == _TASK
        self._at = 1
        return task_id

    def partition(self) -> TopicPartition | None:
        """Whose records come next; ``None`` at the end."""
        batch = self._current()
        if batch is None:
            return None
        return TopicPartition(batch.column("topic")[self._at].as_py(), batch.column("partition")[self._at].as_py())

    def records(self, of: TopicPartition) -> Iterator[Sequence[InputRecord]]:
        """The records of the partition that comes next."""
        offset = 0
        while self.partition() == of:
            batch = self._current()
            assert batch is not None
            records = list(_records(batch.slice(self._at), of, offset))
            self._at += len(records)
            offset += len(records)
            yield records

    def _current(self) -> pa.RecordBatch | None:
        """The batch with the next row."""
        if self._batch is None or self._at >= self._batch.num_rows:
            self._batch, self._at = next(self._batches, None), 0
        return self._batch


_COLUMNS = ("topic", "partition", "writer", "sequence", "key", "value", "timestamp", "headers")


def _records(batch: pa.RecordBatch, of: TopicPartition, offset: int) -> Iterator[RawRecord]:
    """The records of a partition that a batch begins with. Those of internal topics get numbers from ``offset`` on."""
    columns = [batch.column(name).to_pylist() for name in _COLUMNS]
    for topic, partition, writer, sequence, key, value, timestamp, headers in zip(*columns, strict=True):
        if (topic, partition) != of:
            return
        decoded = None if headers is None else _headers.decode(headers)
        yield RawRecord(topic, partition, sequence if writer == SOURCE else offset, key, value, timestamp, decoded)
        offset += 1
