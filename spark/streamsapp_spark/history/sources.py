"""The history of source topics: in Kafka, where the tasks read it themselves, or in a table, from which Spark brings it
to them. Used on the driver.

A table has the columns of Spark's Kafka connector: ``topic``, ``partition``, ``offset``, ``key``, ``value``,
``timestamp``, here in milliseconds, and perhaps ``headers``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, functions

from streamsapp.config import StreamsConfig
from streamsapp.errors import ManifestError
from streamsapp.manifest.history_end import LATEST
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp_spark.history.completeness import Completeness
from streamsapp_spark.history.end_offsets import PartitionOffsets, ranges
from streamsapp_spark.history.record_columns import packed_headers
from streamsapp_spark.replay.stage_rows import SOURCE, SQL_SCHEMA
from streamsapp_spark.replay.task_run import Work

KAFKA = "kafka"


class History(Protocol):
    """The records of source topics."""

    name: str

    def ranges(self, bounds: PartitionOffsets, until: str) -> tuple[HistoryRange, ...]:
        """Returns the part of each partition that there is, up to where the application goes on in Kafka."""
        ...

    def check(self, begun: Sequence[HistoryRange]) -> None:
        """Raises ``ManifestError`` if that is not the history any more that a bootstrap was begun with."""
        ...

    def records(self, part: int, work: Work) -> DataFrame | None:
        """Returns the rows that the tasks of the stage read that ``part`` stands for; ``None`` if they read Kafka."""
        ...


class KafkaHistory:
    """Takes history from the topics themselves."""

    name = KAFKA

    def ranges(self, bounds: PartitionOffsets, until: str) -> tuple[HistoryRange, ...]:
        return ranges(bounds, until)

    def check(self, begun: Sequence[HistoryRange]) -> None:
        """Returns: a task that finds its records gone says so."""

    def records(self, part: int, work: Work) -> None:
        """Returns ``None``: the tasks read Kafka themselves."""


class TableHistory:
    """Takes history from a table that the topics were written to, perhaps long ago."""

    def __init__(self, name: str, table: DataFrame, config: StreamsConfig, *, accepts_gaps: bool) -> None:
        """Takes a ``table`` whose columns were checked, and ``accepts_gaps``, which says that offsets without a row are
        right."""
        self.name = name
        self._table = table
        self._config = config
        self._accepts_gaps = accepts_gaps

    def ranges(self, bounds: PartitionOffsets, until: str) -> tuple[HistoryRange, ...]:
        """Returns the offsets that the table has. Kafka has to go on from there, without a gap."""
        if until != LATEST:
            raise ManifestError(["--until: the end of the table decides; leave it out where --from names one"])
        return self._completeness(self._table).ranges(bounds)

    def check(self, begun: Sequence[HistoryRange]) -> None:
        """Counts again: files may have been added, lost or doubled since."""
        wanted = [each for each in begun if each.until > each.start]
        if not wanted:
            return
        bounds = PartitionOffsets(self._config, {each.of for each in wanted})
        found = self._completeness(_within(self._table, dict.fromkeys(wanted, 0))).ranges(bounds)
        for before, now in zip(sorted(wanted, key=lambda each: each.of), found, strict=True):
            if before != now:
                has = f"has {before.of} from offset {now.start} to {now.until} now"
                began = f"and the bootstrap began with {before.start} to {before.until}"
                raise ManifestError([f"--from: the history {has}, {began}; bring the rows back, or `streamsapp reset`"])

    def _completeness(self, table: DataFrame) -> Completeness:
        return Completeness(table, self._config, self._accepts_gaps)

    def records(self, part: int, work: Work) -> DataFrame | None:
        to = {each: work.destinations[each.of] for each in work.ranges if each.of in work.destinations}
        wanted = {each: repartition_key for each, (repartition_key, reader) in to.items() if reader == part}
        if not wanted:
            return None
        has_headers = "headers" in self._table.columns
        # Rows may have come since the ranges were fixed: instances read these in Kafka.
        rows = _within(self._table, wanted).select(
            "repartition_key",
            functions.lit(part).cast("int").alias("reader"),
            "topic",
            "partition",
            functions.col("offset").alias("time"),
            functions.lit(SOURCE).cast("int").alias("writer"),
            functions.col("offset").alias("sequence"),
            "key",
            "value",
            "timestamp",
            *(["headers"] if has_headers else [functions.lit(None).cast("binary").alias("headers")]),
        )
        return rows.mapInArrow(_pack_headers, SQL_SCHEMA) if has_headers else rows


def _within(table: DataFrame, keys: Mapping[HistoryRange, int]) -> DataFrame:
    """Returns the rows of ranges, each with the ``repartition_key`` of its range."""
    found = functions.create_map(
        *chain.from_iterable((functions.lit(str(each.of)), _place(each, keys[each])) for each in keys)
    )
    of = functions.concat_ws("-", "topic", functions.col("partition").cast("string"))
    return (
        table.withColumn("range", found[of])
        .filter("offset >= range.start and offset < range.until")
        .withColumn("repartition_key", functions.col("range.repartition_key"))
    )


def _place(of: HistoryRange, repartition_key: int) -> Column:
    start, until = (functions.lit(each).cast("bigint") for each in (of.start, of.until))
    key = functions.lit(repartition_key).cast("int")
    return functions.struct(key.alias("repartition_key"), start.alias("start"), until.alias("until"))


def _pack_headers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Packs headers. Runs in Spark's Python workers."""
    for batch in batches:
        index = batch.schema.get_field_index("headers")
        yield batch.set_column(index, pa.field("headers", pa.binary()), packed_headers(batch.column("headers")))
