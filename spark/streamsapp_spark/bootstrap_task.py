"""What a Spark task of a bootstrap does: replays one stream task and publishes its snapshot.

Runs in Spark's Python workers, which may die and be started again at any point: nothing counts until the snapshot is
published, and whoever does the same task later finds that out or fences whoever still works on it. What a task writes
to internal topics is yielded for the next stage, the same every time.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from streamsapp.errors import StreamsAppError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import VERSION, Bootstrap, Bootstraps, Range, TaskDone
from streamsapp.remote.objects import ObjectStoreError
from streamsapp.tasks.output import OutputRecord
from streamsapp.tasks.stream_task import TaskPlan
from streamsapp_spark.feeds import Feed, from_kafka, from_rows
from streamsapp_spark.globals import global_stores
from streamsapp_spark.job import Application, Job, application
from streamsapp_spark.output import Output
from streamsapp_spark.publishing import Publisher, has_snapshot, input_points
from streamsapp_spark.replay import Replay
from streamsapp_spark.reports import Reporter
from streamsapp_spark.rows import InputRows, OutputRows

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class BootstrapJob:
    """What is to be done, for every task."""

    job: Job
    #: Which bootstrap, and its ranges.
    number: int
    ranges: tuple[Range, ...]
    #: Where readers of internal topics begin: nothing that is in there yet is theirs.
    internal: tuple[Range, ...]
    #: Spark partition and sub-topology of the reader of each internal partition.
    slots: dict[TopicPartition, tuple[int, int]]
    emit: bool
    #: Whether source topics come as rows, too.
    rows_only: bool = False


def runner(job: BootstrapJob) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """The function for ``mapInArrow``."""
    return partial(_run, job)


def _run(job: BootstrapJob, batches: Iterable[pa.RecordBatch]) -> Batches:
    rows = InputRows(batches)
    task_id = rows.task()
    if task_id is None:
        return
    reporter = Reporter(job.job.report_to, task_id)
    directory = Path(tempfile.mkdtemp(prefix=f"streamsapp-{task_id}-"))
    try:
        yield from _BootstrapTask(job, application(job.job), task_id, directory, reporter).run(rows)
        reporter.finished()
    except GeneratorExit:
        raise
    except Exception as error:
        passing = isinstance(error, ObjectStoreError) or not isinstance(error, StreamsAppError)
        reporter.failed(f"task {task_id}: {error}", hopeless=not passing)
        raise
    finally:
        reporter.close()
        shutil.rmtree(directory, ignore_errors=True)


class _BootstrapTask:
    """One stream task."""

    def __init__(
        self, job: BootstrapJob, app: Application, task_id: TaskId, directory: Path, reporter: Reporter
    ) -> None:
        self._job = job
        self._app = app
        self._plan: TaskPlan = app.layout.plans[task_id]
        self._directory = directory
        self._reporter = reporter
        self._config = app.config_of(task_id, "bootstrap")
        self._records = self._outputs = 0
        self._ranges = {each.of: each for each in (*job.ranges, *job.internal)}

    def run(self, rows: InputRows) -> Batches:
        """Replay, yield what goes to internal topics, publish."""
        began = time.monotonic()
        bootstrap = Bootstraps(self._app.objects, self._config.application_id).newest()
        assert bootstrap is not None and bootstrap.number == self._job.number  # noqa: PT018 - one thing
        finished = self._plan.id in bootstrap.finished
        if finished and not self._plan.sub_topology.repartition_sinks:
            return
        with global_stores(self._app, self._ranges, self._directory, self._config) as shared:
            replay = Replay(self._plan, self._config, self._directory, self._app.resources, shared)
            with replay:
                if finished:  # only what it writes to internal topics is missing
                    yield from self._replay(replay, rows, None)
                    return
                publisher = Publisher(self._app, self._plan) if has_snapshot(replay.stores, self._plan) else None
                output = Output(self._plan, self._config)
                try:
                    yield from self._replay(replay, rows, output)
                finally:
                    output.close()
                inputs = replay.positions({each: self._ranges[each].until for each in self._plan.inputs})
                if publisher is not None:
                    publisher.publish(replay.stores, self._directory, inputs)
                seconds = time.monotonic() - began
                self._finish(bootstrap, TaskDone(VERSION, str(self._plan.id), input_points(inputs), self._records,
                                                 self._outputs, seconds))  # fmt: skip

    def _replay(self, replay: Replay, rows: InputRows, output: Output | None) -> Batches:
        internal = self._app.layout.repartition_topics
        partitions = {topic: self._plan.partition_count(topic) for topic in internal}
        out = OutputRows(self._plan.id, partitions, self._job.slots)
        results: list[OutputRecord] = []
        for advance in replay.run(self._feeds(rows)):
            self._records += advance.records
            self._reporter.processed(advance.records)
            onward = [record for record in advance.outputs if record[0] in internal]
            if onward:
                yield out.batch(onward)
            self._outputs += len(advance.outputs)
            if output is not None:
                if self._job.emit:
                    results += [record for record in advance.outputs if record[0] not in internal]
                if advance.writes is not None or len(results) > _RESULTS:
                    output.commit(advance.writes, results)
                    results = []
        if output is not None:
            output.commit(None, results)

    def _feeds(self, rows: InputRows) -> dict[TopicPartition, Feed]:
        internal = self._app.layout.repartition_topics
        from_here = [each for each in self._plan.inputs if self._job.rows_only or each.topic in internal]
        feeds = from_rows(rows, len(from_here))
        for each in self._plan.inputs:
            if each not in from_here:
                feeds[each] = from_kafka(self._ranges[each], self._config)
        return feeds

    @staticmethod
    def _finish(bootstrap: Bootstrap, done: TaskDone) -> None:
        bootstrap.finish_task(done)


#: Results that wait to be written at most.
_RESULTS = 20_000
