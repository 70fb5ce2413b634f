"""The results of a topology as rows of a DataFrame. Made in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

#: The columns that Spark's sink for Kafka takes, and the time.
SQL_SCHEMA = (
    "topic string, partition int, key binary, value binary, timestamp timestamp_ltz, "
    "headers array<struct<key: string, value: binary>>"
)
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TIME = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", _TIME),
        ("headers", _HEADERS),
    ]
)
_decode = msgspec.msgpack.Decoder(list[tuple[str, bytes | None]]).decode


def results(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Makes results of the rows that are left after the last stage. A partition that was not chosen is null."""
    for batch in batches:
        partition = batch.column("partition")
        yield pa.RecordBatch.from_arrays(
            [
                batch.column("topic"),
                pc.if_else(pc.less(partition, 0), pa.scalar(None, pa.int32()), partition),
                batch.column("key"),
                batch.column("value"),
                batch.column("timestamp").cast(pa.timestamp("ms", "UTC")).cast(_TIME),
                _unpacked(batch.column("headers")),
            ],
            schema=SCHEMA,
        )


def _unpacked(packed: pa.Array) -> pa.Array:
    if packed.null_count == len(packed):
        return pa.nulls(len(packed), _HEADERS)
    return pa.array(
        [
            None if each is None else [{"key": name, "value": value} for name, value in _decode(each)]
            for each in packed.to_pylist()
        ],
        _HEADERS,
    )
