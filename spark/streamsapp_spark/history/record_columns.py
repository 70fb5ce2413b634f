"""The columns of a DataFrame whose rows are the records of topics: those of Spark's source for Kafka.

Checked and selected on the driver, for topics that are bound to streaming DataFrames and for tables of history; headers
are packed in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from streamsapp.errors import ConfigError

_BYTES, _WHOLE = (StringType, BinaryType), (ByteType, ShortType, IntegerType, LongType)
_HEADERS = "array<struct<key: string, value: binary>>"
_TYPES: dict[str, tuple[tuple[type[DataType], ...], str]] = {
    "topic": ((StringType,), "string"),
    "key": (_BYTES, "string or binary, as the topology's serde reads it"),
    "value": (_BYTES, "string or binary, as the topology's serde reads it"),
    "timestamp": ((TimestampType, TimestampNTZType, LongType), "timestamp, or bigint for milliseconds"),
    "headers": ((ArrayType,), _HEADERS),
    "partition": (_WHOLE, "int"),
    "offset": (_WHOLE, "bigint"),
}


def check_columns(named: str, frame: DataFrame, required: Iterable[str]) -> None:
    """Raises ``ConfigError``, which begins with ``named``, for a DataFrame that lacks a column that is required, or has
    one of another type."""
    for name in required:
        if name not in frame.columns:
            has = ", ".join(frame.columns)
            raise ConfigError(f"{named}: its DataFrame has no column {name!r}; select one: it has {has}")
    for name in _TYPES.keys() & frame.columns:
        kinds, wanted = _TYPES[name]
        kind = frame.schema[name].dataType
        if not isinstance(kind, kinds) or (isinstance(kind, ArrayType) and not _is_header(kind.elementType)):
            raise ConfigError(f"{named}: column {name!r} is {kind.simpleString()}, and has to be {wanted}; cast it")


def record_columns(frame: DataFrame, *more: str) -> DataFrame:
    """Selects key and value as bytes, the timestamp in milliseconds, partition, offset and headers, which are null
    where there are none, and ``more`` columns as they are. The columns have been checked."""
    there = set(frame.columns)
    return frame.select(
        functions.col("key").cast("binary").alias("key"),
        functions.col("value").cast("binary").alias("value"),
        _milliseconds(frame).alias("timestamp"),
        *(_or_null(name, kind, there) for name, kind in (("partition", "int"), ("offset", "bigint"))),
        _or_null("headers", _HEADERS, there),
        *more,
    )


def _is_header(kind: DataType) -> bool:
    return isinstance(kind, StructType) and kind.names == ["key", "value"]  # a cast of structs goes by position


def _milliseconds(frame: DataFrame) -> Column:
    """A timestamp that names no zone is one of the session's (``spark.sql.session.timeZone``), as in a cast."""
    plain = isinstance(frame.schema["timestamp"].dataType, LongType)
    return functions.col("timestamp") if plain else functions.expr("unix_millis(cast(timestamp AS timestamp_ltz))")


def _or_null(name: str, kind: str, there: set[str]) -> Column:
    return (functions.col(name) if name in there else functions.lit(None)).cast(kind).alias(name)


def packed_headers(headers: pa.Array) -> pa.Array:
    """Returns the headers as rows carry them from stage to stage."""
    if headers.null_count == len(headers):
        return pa.nulls(len(headers), pa.binary())
    packed = [
        None if not each else msgspec.msgpack.encode([(header["key"], header["value"]) for header in each])
        for each in headers.to_pylist()
    ]
    return pa.array(packed, pa.binary())
