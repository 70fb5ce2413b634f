"""A topic as a streaming source with typed columns: its committed records, each once.

A batch is a range of offsets per partition; Spark's checkpoint has them, so a batch that is run again has the same
records. One task reads all of a batch, so that a batch is few files, and one core at a time serves a sink.

Spark makes the reader in processes of its own on the driver's machine, and in workers. Its class carries what it needs,
as options are shown to all users.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp_spark.programs.shipped import ShippedProgram
from streamsapp_spark.replay.task_inputs import from_kafka
from streamsapp_spark.sinks.rows import TopicRows
from streamsapp_spark.tables.committed_topic import CommittedTopic, TopicOffset

ANEW = "give the sink a new path, and a new table if that has a name: it has what was read so far"


@dataclass(frozen=True)
class TopicJob:
    """The topic of one sink, as plain data."""

    sink: str
    topic: str
    program: ShippedProgram
    #: Its columns, as Spark's SQL writes them.
    columns: str


def source_name(sink: str) -> str:
    """Returns the name by which Spark knows the source of a sink."""
    return f"streamsapp-sink-{sink}"


def source_of(job: TopicJob) -> type[DataSource]:
    """Returns the source of one sink."""

    class Bound(TopicSource):
        NAME, COLUMNS, JOB = source_name(job.sink), job.columns, pickle.dumps(job)

    return Bound


def committed_topic(config: StreamsConfig, topic: str) -> CommittedTopic:
    """Raises ``TopicError`` if there is none."""
    remedy = "Create it: a sink begins with the topic's first record"
    return CommittedTopic(config, topic, missing=f"topic {topic} cannot be read", remedy=remedy, anew=ANEW)


class TopicSource(DataSource):
    """Made by Spark, of no options."""

    NAME: str
    COLUMNS: str
    JOB: bytes

    @classmethod
    def name(cls) -> str:
        return cls.NAME

    def schema(self) -> str:
        return self.COLUMNS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return TopicReader(self.JOB)


@dataclass
class BatchPartition(InputPartition):
    """All of a batch."""

    ranges: tuple[HistoryRange, ...]


class TopicReader(DataSourceStreamReader):
    """Plans on the driver's machine, and reads in workers."""

    def __init__(self, job: bytes) -> None:
        self._job = job
        self._last: TopicOffset | None = None

    # ---- on the driver's machine -------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Returns the topic's beginning."""
        return TopicOffset().document()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Returns the place up to where records are committed; the same while none is written."""
        ends = self._topic.ends()
        if self._last is None or self._last.offsets != ends:
            self._last = TopicOffset(ends, self._topic.topic_id())
        return self._last.document()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Returns the range of a batch. Raises ``StreamsError`` if records of it are gone."""
        begin, until = (TopicOffset.of(each, "a sink", ANEW) for each in (start, end))
        return [BatchPartition(tuple(self._topic.ranges(begin, until)))]

    @cached_property
    def _topic(self) -> CommittedTopic:
        config, _ = _loaded(self._job)
        return committed_topic(config, pickle.loads(self._job).topic)  # noqa: S301 - the driver wrote it

    def __getstate__(self) -> dict[str, Any]:
        """Workers get neither the client nor what was asked."""
        return {"_job": self._job, "_last": None}

    # ---- in workers --------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a batch, one partition of the topic after the other."""
        assert isinstance(partition, BatchPartition)
        config, rows = _loaded(self._job)
        for of in partition.ranges:
            for records in from_kafka(of, config, committed_only=True, remedy=ANEW):
                yield rows.batch(records)


@lru_cache(maxsize=1)
def _loaded(pickled: bytes) -> tuple[StreamsConfig, TopicRows]:
    job: TopicJob = pickle.loads(pickled)  # noqa: S301 - the driver wrote it
    topology, config = job.program.load()
    return config, TopicRows(topology, job.topic)
