"""Topics whose records were copied to files, and which Kafka has forgotten since.

Called by the tests of history that is not in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import TopicPartition
from pyarrow import parquet

from kafka_cluster import Kafka


def once(partition: int, offset: int) -> int:
    """Every record has one row."""
    return 1


def archive(
    kafka: Kafka,
    topic: str,
    path: Path,
    rows: Callable[[int, int], int] = once,
    *more: tuple[Any, ...],
    zone: str | None = "UTC",
) -> int:
    """Writes the records of a topic as Spark's Kafka connector would, and ``more`` rows. ``rows`` says by partition and
    offset how many rows a record has. Returns the number of rows. Without a ``zone`` times are ``TIMESTAMP_NTZ``."""
    columns: dict[str, list[Any]] = {name: [] for name in ("topic", "partition", "offset", "key", "value", "timestamp")}
    for message in reversed(kafka.read(topic)):  # in any order
        time = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
        row = (topic, message.partition(), message.offset(), message.key(), message.value(), time)
        copies = rows(message.partition() or 0, message.offset() or 0)
        for name, value in zip(columns, row, strict=True):
            columns[name] += [value] * copies
    for row in more:
        for name, value in zip(columns, row, strict=True):
            columns[name].append(value)
    path.mkdir(exist_ok=True)
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("key", pa.binary()),
                        ("value", pa.binary()), ("timestamp", pa.timestamp("us", zone))])  # fmt: skip
    parquet.write_table(pa.table(columns, schema=schema), path / "part.parquet")
    return len(columns["offset"])


def forget(kafka: Kafka, topic: str, *partitions: int) -> None:
    """Delete all records of these partitions."""
    ends: dict[int, int] = {}
    for message in kafka.read(topic):
        if message.partition() in partitions:
            ends[message.partition() or 0] = (message.offset() or 0) + 1
    for future in kafka.admin.delete_records([TopicPartition(topic, *each) for each in ends.items()]).values():
        future.result()
