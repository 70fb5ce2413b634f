"""Finds the history of source topics: in Kafka, where the tasks read it themselves, or in Parquet files, from which
Spark brings it to them. Runs on the driver.

Parquet files have the columns of Spark's Kafka connector: ``topic``, ``partition``, ``offset``, ``key``, ``value``,
``timestamp`` (a time, or milliseconds) and perhaps ``headers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.types import LongType

from streamsapp.config import StreamsConfig
from streamsapp.errors import ManifestError
from streamsapp.manifest.history_end import LATEST
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp_spark.completeness import ACCEPT, Completeness
from streamsapp_spark.end_offsets import PartitionOffsets, ranges
from streamsapp_spark.session import reason
from streamsapp_spark.stage_rows import SOURCE, SQL_SCHEMA
from streamsapp_spark.task_run import Work

KAFKA = "kafka"
PARQUET = "parquet:"
_COLUMNS = {"topic", "partition", "offset", "key", "value", "timestamp"}


class History(Protocol):
    """The records of source topics."""

    name: str

    def ranges(self, bounds: PartitionOffsets, until: str) -> tuple[HistoryRange, ...]:
        """Returns the part of each partition that there is, up to where the application goes on in Kafka."""
        ...

    def records(self, part: int, work: Work) -> DataFrame | None:
        """Returns the rows that the tasks of the stage read that ``part`` stands for; ``None`` if they read Kafka."""
        ...


def check_source(source: str, *, accepts_gaps: bool) -> None:
    """Raises ``ManifestError`` if the options name no place where history could be."""
    if source != KAFKA and not (source.startswith(PARQUET) and source != PARQUET):
        raise ManifestError([f"--from: expected {KAFKA} or {PARQUET}/path, got {source!r}"])
    if source == KAFKA and accepts_gaps:
        raise ManifestError([f"{ACCEPT}: is about files; it needs --from {PARQUET}/path"])


class KafkaHistory:
    """Takes history from the topics themselves."""

    name = KAFKA

    def ranges(self, bounds: PartitionOffsets, until: str) -> tuple[HistoryRange, ...]:
        return ranges(bounds, until)

    def records(self, part: int, work: Work) -> None:
        """Returns ``None``: the tasks read Kafka themselves."""


class ParquetHistory:
    """Takes history from files that the topics were written to, perhaps long ago."""

    def __init__(self, spark: SparkSession, source: str, config: StreamsConfig, *, accepts_gaps: bool) -> None:
        """Takes ``source``, the path after ``parquet:``, and ``accepts_gaps``, which says that offsets without a row
        are right."""
        self.name = source
        self._config = config
        self._accepts_gaps = accepts_gaps
        path = source.removeprefix(PARQUET)
        try:
            self._table = spark.read.parquet(path)
        except Exception as error:
            raise ManifestError([f"--from: {path} cannot be read as Parquet: {reason(error)}"]) from error
        missing = _COLUMNS - set(self._table.columns)
        if missing:
            raise ManifestError([f"--from: {path} lacks the columns {', '.join(sorted(missing))}"])

    def ranges(self, bounds: PartitionOffsets, until: str) -> tuple[HistoryRange, ...]:
        """Returns the offsets that the files have. Kafka has to go on from there, without a gap."""
        if until != LATEST:
            raise ManifestError(["--until: the end of the files decides; leave it out with --from parquet:"])
        return Completeness(self._table, self._config, self._accepts_gaps).ranges(bounds)

    def records(self, part: int, work: Work) -> DataFrame | None:
        wanted = {each.of: work.destinations[each.of] for each in work.ranges if each.of in work.destinations}
        wanted = {partition: to for partition, to in wanted.items() if to[1] == part}
        if not wanted:
            return None
        where = functions.create_map(
            *chain.from_iterable(
                (functions.lit(str(each)), functions.lit(repartition_key))
                for each, (repartition_key, _) in wanted.items()
            )
        )
        table = self._table.withColumn(
            "repartition_key",
            where[functions.concat_ws("-", "topic", functions.col("partition").cast("string"))].cast("int"),
        ).filter("repartition_key is not null")
        kind = table.schema["timestamp"].dataType
        time = functions.col("timestamp") if isinstance(kind, LongType) else functions.expr("unix_millis(timestamp)")
        rows = table.select(
            "repartition_key",
            functions.lit(part).cast("int").alias("reader"),
            "topic",
            functions.col("partition").cast("int").alias("partition"),
            functions.col("offset").cast("bigint").alias("time"),
            functions.lit(SOURCE).cast("int").alias("writer"),
            functions.col("offset").cast("bigint").alias("sequence"),
            functions.col("key").cast("binary").alias("key"),
            functions.col("value").cast("binary").alias("value"),
            time.alias("timestamp"),
            *(["headers"] if "headers" in table.columns else [functions.lit(None).cast("binary").alias("headers")]),
        )
        return rows.mapInArrow(_pack_headers, SQL_SCHEMA) if "headers" in table.columns else rows


def _pack_headers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs headers. Runs in Spark's Python workers."""
    for batch in batches:
        packed = [
            None if not headers else msgspec.msgpack.encode([(each["key"], each["value"]) for each in headers])
            for headers in batch.column("headers").to_pylist()
        ]
        index = batch.schema.get_field_index("headers")
        yield batch.set_column(index, pa.field("headers", pa.binary()), pa.array(packed, pa.binary()))
