"""The queries that write the tables beside an application's topics, in the session of its driver.

Made and watched by the driver's main thread; Spark calls for each batch on threads of its own. A query reads what the
application has committed to the topic, so it needs nothing of the application's own query, and goes on where its
checkpoint says when a driver was killed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamsapp.clock import SystemClock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ManifestError, StreamsAppError, StreamsError
from streamsapp.manifest.model import SinkSpec
from streamsapp.topology.builder import Topology
from streamsapp_spark.programs.shipped import ShippedProgram
from streamsapp_spark.session.java_process import reason
from streamsapp_spark.session.query_progress import last_progress
from streamsapp_spark.sinks.figures import SinkFigures
from streamsapp_spark.sinks.folder import Folder, checkpoint, has_begun
from streamsapp_spark.sinks.rows import TopicRows
from streamsapp_spark.sinks.source import TopicJob, committed_topic, source_name, source_of
from streamsapp_spark.sinks.tables import SinkTable, table_of

#: A variable of the workers that read topics. Spark gives tasks workers by their variables: workers that have stores of
#: the application open are left to its own query.
_WORKERS = "STREAMSAPP_SINK"
#: Seconds until a query that was just started is known by its id.
_STARTED = 60.0
_LOOK = 1


@dataclass
class _Sink:
    """One sink that is ready to run."""

    spec: SinkSpec
    field: str
    folder: Folder
    table: SinkTable
    query: StreamingQuery | None = None
    #: Batches that this driver has added, and when it added the last one.
    batches: int = 0
    added_at_ms: int | None = None


class SinkQueries:
    """The queries of one session."""

    def __init__(self, spark: SparkSession, program: ShippedProgram, topology: Topology, config: StreamsConfig) -> None:
        self._spark, self._program, self._topology, self._config = spark, program, topology, config
        self._sinks: list[_Sink] = []
        self._clock = SystemClock()
        #: One batch at a time: a core is kept for them.
        self._turn = threading.Lock()

    def open(self, specs: Sequence[SinkSpec]) -> None:
        """Looks at topics and tables. Raises ``ManifestError``, before anything is written, for a table that cannot be
        gone on with, and ``TopicError`` for a topic that is not there."""
        for number, spec in enumerate(specs):
            committed_topic(self._config, spec.topic)
            self._sinks.append(self._opened(spec, f"spec.spark.sinks[{number}]"))

    def _opened(self, spec: SinkSpec, field: str) -> _Sink:
        columns = TopicRows(self._topology, spec.topic).ddl
        try:
            folder = Folder.of(self._spark, spec.path)
            table = table_of(self._spark, spec, columns, folder, field)
            has_rows, has_one = table.has_rows(), has_begun(folder)
        except StreamsAppError:
            raise
        except Exception as error:
            raise ManifestError([f"{field}.path: {spec.path} cannot be looked at: {reason(error)}"]) from error
        if has_rows and not has_one:
            raise ManifestError([f"{field}.path: {_without_checkpoint(spec, folder)}"])
        self._register(TopicJob(spec.name, spec.topic, self._program, columns))
        return _Sink(spec, field, folder, table)

    def _register(self, job: TopicJob) -> None:
        environment = self._spark.sparkContext.environment
        environment[_WORKERS] = "1"
        try:
            self._spark.dataSource.register(source_of(job))
        finally:
            del environment[_WORKERS]

    # ---- running -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts all of them, each with its trigger."""
        for sink in self._sinks:
            self._start(sink, processingTime=f"{sink.spec.trigger_ms} milliseconds")

    def catch_up(self, given_up: Callable[[], bool]) -> None:
        """Adds what the topics have now, unless that is given up. Raises ``StreamsError`` for the first that fails."""
        for sink in self._sinks:
            ends = committed_topic(self._config, sink.spec.topic).ends()
            # A run of a query that finds a batch to do again does that, and nothing else.
            while not given_up() and not self._catches_up(sink, ends, given_up):
                pass

    def _catches_up(self, sink: _Sink, ends: Mapping[str, int], given_up: Callable[[], bool]) -> bool:
        """Runs a query; returns whether the table has all up to ``ends``."""
        query = self._start(sink, availableNow=True)
        try:
            while not query.awaitTermination(_LOOK):
                if given_up():
                    return False
            read = _offsets(last_progress(query))
        except Exception as error:
            raise _failure(sink, error) from error
        finally:
            query.stop()
            sink.query = None
        return read is None or all(read.get(number, 0) >= end for number, end in ends.items())

    def _start(self, sink: _Sink, **trigger: Any) -> StreamingQuery:
        started: Future[str] = Future()

        def add(rows: DataFrame, batch: int) -> None:
            with self._turn:
                sink.table.add(rows, started.result(_STARTED), batch)
            sink.batches, sink.added_at_ms = sink.batches + 1, self._clock.now_ms()

        frame = self._spark.readStream.format(source_name(sink.spec.name)).load()
        writer = frame.writeStream.queryName(f"{self._config.application_id}/{sink.spec.name}").foreachBatch(add)
        query = writer.option("checkpointLocation", checkpoint(sink.folder)).trigger(**trigger).start()
        started.set_result(str(query.id))
        sink.query = query
        return query

    @property
    def failure(self) -> StreamsError | None:
        """Returns why the first of them has ended, if any has."""
        for sink in self._sinks:
            if sink.query is not None and not sink.query.isActive:
                return _failure(sink, sink.query.exception())
        return None

    def look(self) -> tuple[SinkFigures, ...]:
        """Returns how far each of them is."""
        return tuple(_figures(sink) for sink in self._sinks)

    def stop(self) -> None:
        """Ends all of them; the next driver does a batch under way again."""
        for sink in self._sinks:
            if sink.query is not None:
                sink.query.stop()


def _figures(sink: _Sink) -> SinkFigures:
    spec, progress = sink.spec, None if sink.query is None else last_progress(sink.query)
    return SinkFigures(
        spec.name,
        spec.topic,
        spec.format,
        spec.table or spec.path,
        sink.batches,
        sink.added_at_ms,
        None if progress is None else progress["timestamp"],
        _offsets(progress) or {},
    )


def _offsets(progress: dict[str, Any] | None) -> Mapping[str, int] | None:
    """Returns the offset of each partition up to which a query has read its topic; ``None`` before its first batch."""
    read = None if progress is None else progress["sources"][0]["endOffset"]
    return None if read is None else read["offsets"]


def _without_checkpoint(spec: SinkSpec, folder: Folder) -> str:
    table, anew = (spec.path, "path") if spec.table is None else (spec.table, "table")
    return (
        f"{table} has rows, and {checkpoint(folder)}, which says up to which offsets of {spec.topic}, does not exist: "
        f"records would be there twice; bring it back, or give the sink a new {anew}"
    )


def _failure(sink: _Sink, error: Exception | None) -> StreamsError:
    why = "something else stopped it" if error is None else reason(error)
    return StreamsError(f"{sink.field}: sink {sink.spec.name} failed: {why}; the next start goes on there")
