"""Checks that a table of history holds every record of their partitions exactly once.

Called on the driver before a bootstrap begins. One pass over three columns counts; only where a count is wrong the
offsets themselves are looked up. An offset without a row is not always a loss: compaction, markers of transactions and
aborted records leave such gaps. Kafka is asked as long as it has that part of the topic; else the user has to say so.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession, Window, functions

from streamsapp.config import StreamsConfig
from streamsapp.errors import ManifestError
from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp_spark.history.end_offsets import PartitionOffsets
from streamsapp_spark.replay.task_inputs import from_kafka
from streamsapp_spark.session.java_process import reason

log = logging.getLogger(__name__)

ACCEPT = "--accept-missing-offsets"

#: Offsets, or gaps, that a message names.
_NAMED = 5
_ADAPTIVE = "spark.sql.adaptive.enabled"
#: Gaps of one partition that are compared with Kafka; so many are a topic of transactions, and its user knows.
_MOST_GAPS = 1_000_000


class MissingOffsets(NamedTuple):
    """A range of offsets without a row: from ``start`` up to, and without, ``end``."""

    start: int
    end: int

    def __str__(self) -> str:
        return str(self.start) if self.end == self.start + 1 else f"{self.start} to {self.end - 1}"


@dataclass(frozen=True)
class _Count:
    """The rows of one partition."""

    low: int
    high: int
    rows: int
    offsets: int


@dataclass(frozen=True)
class Completeness:
    """Checks the rows of ``table``, whose columns are those of Spark's Kafka connector."""

    table: DataFrame
    config: StreamsConfig
    #: Says whether the user has said that offsets without a row, and partitions without any, are right.
    accepts_gaps: bool

    def ranges(self, bounds: PartitionOffsets) -> tuple[HistoryRange, ...]:
        """Returns the offsets that the table has of every partition; ``ManifestError`` names every fault."""
        with adaptive(self.table.sparkSession):
            return self._ranges(bounds)

    def _ranges(self, bounds: PartitionOffsets) -> tuple[HistoryRange, ...]:
        counts, faults = self._counts(bounds.highs)
        ranges = []
        for partition in sorted(bounds.highs):
            low, high = bounds.lows[partition], bounds.highs[partition]
            count = counts.get(partition)
            if count is None:
                ranges.append(HistoryRange(*partition, low, low))
                faults += self._missing(partition, low, high)
            else:
                ranges.append(HistoryRange(*partition, count.low, count.high))
                faults += self._faults(partition, count, low, high)
        if faults:
            raise ManifestError([f"--from: {fault}" for fault in faults])
        return tuple(ranges)

    # ---- counting ----------------------------------------------------------------------------------------------

    def _counts(self, wanted: Collection[TopicPartition]) -> tuple[dict[TopicPartition, _Count], list[str]]:
        topics = sorted({each.topic for each in wanted})
        incomplete = functions.col("offset").isNull() | (functions.col("offset") < 0)
        incomplete |= functions.col("timestamp").isNull()
        aggregates = (
            functions.min("offset").alias("low"),
            functions.max("offset").alias("high"),
            functions.count("*").alias("rows"),
            functions.count_distinct("offset").alias("offsets"),
            functions.count_if(incomplete).alias("incomplete"),
        )
        rows = self.table.filter(functions.col("topic").isin(topics)).groupBy("topic", "partition").agg(*aggregates)
        counts, faults = {}, []
        for row in collected(rows):
            named = f"{row['topic']}-{row['partition']}"
            if row["partition"] is None or row["incomplete"]:
                number = row["incomplete"] or row["rows"]
                raise ManifestError([f"--from: {named}: {number:,} rows lack a partition, an offset or a timestamp"])
            if (partition := TopicPartition(row["topic"], row["partition"])) not in wanted:
                faults.append(f"the history has records of {named}, a partition that the topic does not have in Kafka")
            else:
                counts[partition] = _Count(row["low"], row["high"] + 1, row["rows"], row["offsets"])
        return counts, faults

    # ---- judging -----------------------------------------------------------------------------------------------

    def _missing(self, partition: TopicPartition, low: int, high: int) -> Iterator[str]:
        """Returns the missing offsets of a partition without rows; one in which there never was a record has none."""
        if high and not self.accepts_gaps:
            yield (
                f"the history has nothing of {partition}, which ends at offset {high} in Kafka: add its rows, or, if "
                f"none of its records is history, say so with {ACCEPT}; instances then begin with it at offset {low}"
            )

    def _faults(self, partition: TopicPartition, count: _Count, low: int, high: int) -> Iterator[str]:
        if not low <= count.high <= high:
            yield (
                f"the history has {partition} up to offset {count.high}, and Kafka has {low} to {high}: there is a gap "
                "between the two, or they are of another topic"
            )
            return
        if count.rows > count.offsets:
            yield (
                f"{partition}: {count.rows - count.offsets:,} rows are there more than once, first of the offsets "
                f"{self._doubled(partition)}: take out the copies"
            )
        if count.low > low or count.offsets < count.high - count.low:
            if not self.accepts_gaps:
                yield from self._judged(partition, self._gaps(partition, min(low, count.low)), low)
        elif count.low:
            log.warning("%s begins at offset %d: what was before it is not part of the state", partition, count.low)

    def _judged(self, partition: TopicPartition, gaps: Sequence[MissingOffsets], low: int) -> Iterator[str]:
        """Returns gaps that hold records in Kafka, and gaps that Kafka knows nothing of any more."""
        unknown = [MissingOffsets(gap.start, min(gap.end, low)) for gap in gaps if gap.start < low]
        if unknown:
            yield (
                f"{partition}: there are no rows of the offsets {_named(unknown)}, and Kafka, which begins at {low}, "
                "cannot tell whether these were records: add the rows that lack; or, if compaction or transactions "
                f"left them out, say so with {ACCEPT}"
            )
        lost = self._in_kafka(
            partition, [MissingOffsets(max(gap.start, low), gap.end) for gap in gaps if gap.end > low]
        )
        if lost:
            yield (
                f"{partition}: there are no rows of the offsets {_named(lost)}, and Kafka has records there: add the "
                "rows that lack, or take the history --from kafka"
            )

    def _in_kafka(self, partition: TopicPartition, gaps: Sequence[MissingOffsets]) -> list[MissingOffsets]:
        """Returns the offsets in gaps at which Kafka has a record, as many as a message names and one more."""
        found: list[MissingOffsets] = []
        if not gaps:
            return found
        waiting = iter(gaps)
        gap = next(waiting)
        for records in from_kafka(HistoryRange(*partition, gaps[0].start, gaps[-1].end), self.config):
            for offset in (record.offset() for record in records):
                while gap.end <= offset and (later := next(waiting, None)) is not None:
                    gap = later
                if gap.start <= offset < gap.end:
                    found.append(MissingOffsets(offset, offset + 1))
                    if len(found) > _NAMED:
                        return found
        return found

    # ---- looking up --------------------------------------------------------------------------------------------

    def _of(self, partition: TopicPartition) -> DataFrame:
        topic, number = partition
        return self.table.filter((functions.col("topic") == topic) & (functions.col("partition") == number))

    def _doubled(self, partition: TopicPartition) -> str:
        counted = self._of(partition).groupBy("offset").count().filter("count > 1").orderBy("offset")
        return ", ".join(str(row["offset"]) for row in collected(counted.limit(_NAMED)))

    def _gaps(self, partition: TopicPartition, start: int) -> list[MissingOffsets]:
        """Yields the offsets from ``start`` on that have no row before an offset that has one, in order."""
        before = functions.lag("offset", 1, start - 1).over(Window.orderBy("offset"))
        offsets = self._of(partition).select("offset").withColumn("before", before).filter("offset - before > 1")
        rows = collected(offsets.orderBy("offset").limit(_MOST_GAPS + 1))
        if len(rows) > _MOST_GAPS:
            raise ManifestError([f"--from: {partition}: more than {_MOST_GAPS:,} gaps; {ACCEPT} accepts them unseen"])
        return [MissingOffsets(row["before"] + 1, row["offset"]) for row in rows]


@contextmanager
def adaptive(session: SparkSession) -> Iterator[None]:
    """Has Spark count in as few tasks as there are rows for, and not in two hundred. Only tasks of ours are not to be
    merged, which begin afterwards."""
    before = str(session.conf.get(_ADAPTIVE))
    session.conf.set(_ADAPTIVE, "true")
    try:
        yield
    finally:
        session.conf.set(_ADAPTIVE, before)


def collected(rows: DataFrame) -> list[Row]:
    """Rows that are made of the history. Its files are read here for the first time, and may be damaged."""
    try:
        return rows.collect()
    except Exception as error:  # Spark's or Java's
        raise ManifestError(
            [f"--from: the history cannot be read: {reason(error)}; bring its files back whole, then begin again"]
        ) from error


def _named(gaps: Sequence[MissingOffsets]) -> str:
    named = ", ".join(map(str, gaps[:_NAMED]))
    return f"{named}, ..." if len(gaps) > _NAMED else named
