"""Binds topics to streaming DataFrames: what columns they need, and where their rows go.

Called on the driver; rows are placed in Spark's Python workers. Rows have no order of their own: those of one partition
are taken by ``offset`` if there is such a column, else by timestamp, then by the bytes of key, value and headers. So a
batch that is run again, on more or fewer cores, is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from streamsapp.errors import ConfigError, DeserializationError
from streamsapp.record import TopicPartition
from streamsapp.serdes.murmur2 import partition_for
from streamsapp_spark.history.record_columns import check_columns, packed_headers, record_columns
from streamsapp_spark.replay.stage_rows import SCHEMA, SOURCE, SQL_SCHEMA

_REQUIRED = ("key", "value", "timestamp")


@dataclass(frozen=True)
class BoundTopic:
    """A topic whose records are the rows of a DataFrame."""

    name: str
    #: The number that leads to the reader of each partition, and the reader's stage.
    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, name: str, partitions: int, destinations: Mapping[TopicPartition, tuple[int, int]]) -> BoundTopic:
        return cls(name, tuple(destinations[TopicPartition(name, number)] for number in range(partitions)))

    def rows(self, frame: DataFrame) -> DataFrame:
        """Returns the rows for the stage that reads them."""
        return record_columns(frame).mapInArrow(partial(placed, self, "offset" in frame.columns), SQL_SCHEMA)


def check_bound(topic: str, frame: DataFrame) -> None:
    """Raises ``ConfigError`` for a DataFrame that cannot be the records of a topic."""
    if not frame.isStreaming:
        raise ConfigError(f"inputs: {topic}: its DataFrame does not stream; make it with spark.readStream")
    check_columns(f"inputs: {topic}", frame, _REQUIRED)


# ---- in workers ------------------------------------------------------------------------------------------------


def placed(topic: BoundTopic, has_offsets: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Places rows that have the columns of ``BoundTopic.rows``. Raises ``DeserializationError`` for rows that are no
    records."""
    for batch in batches:
        if not batch.num_rows:
            continue
        needed = ("timestamp", "offset") if has_offsets else ("timestamp",)
        for name in needed:
            if batch.column(name).null_count:
                raise DeserializationError(f"topic {topic.name}: {batch.column(name).null_count} rows have no {name}")
        yield _rows(topic, batch, batch.column("offset") if has_offsets else None)


def _rows(topic: BoundTopic, batch: pa.RecordBatch, offsets: pa.Array | None) -> pa.RecordBatch:
    partitions = _partitions(topic, batch)
    keys, readers = (pa.array(each, pa.int32()).take(partitions) for each in zip(*topic.places, strict=True))
    size, timestamps = batch.num_rows, batch.column("timestamp")
    columns = {
        "repartition_key": keys,
        "reader": readers,
        "topic": pa.repeat(topic.name, size),
        "partition": partitions,
        "time": timestamps if offsets is None else offsets,
        "writer": pa.repeat(pa.scalar(SOURCE, pa.int32()), size),
        # Without offsets the reader numbers its rows.
        "sequence": pa.repeat(pa.scalar(-1, pa.int64()), size) if offsets is None else offsets,
        "key": batch.column("key"),
        "value": batch.column("value"),
        "timestamp": timestamps,
        "headers": packed_headers(batch.column("headers")),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in SCHEMA], schema=SCHEMA)


def _partitions(topic: BoundTopic, batch: pa.RecordBatch) -> pa.Array:
    """Returns the partition of each row: the one that it names, else that of its key as Kafka's producer chooses it,
    without a key that of its value."""
    count, given = len(topic.places), batch.column("partition")
    places = pc.coalesce(batch.column("key"), batch.column("value")).dictionary_encode()
    chosen = pa.array([partition_for(each, count) for each in places.dictionary.to_pylist()], pa.int32())
    partitions = pc.coalesce(given, chosen.take(places.indices), pa.scalar(0, pa.int32()))
    bounds = pc.min_max(partitions).as_py()
    if bounds["min"] < 0 or bounds["max"] >= count:
        wrong = bounds["min"] if bounds["min"] < 0 else bounds["max"]
        raise DeserializationError(
            f"topic {topic.name}: a row has partition {wrong}, and the topic has {count}; say how many there are with "
            f"partitions={{{topic.name!r}: ...}}, before the query is first started"
        )
    return partitions
