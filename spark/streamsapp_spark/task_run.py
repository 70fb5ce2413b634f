"""Runs one stream task over its ranges in a Spark task: the part that bootstrap and audit have in common.

Runs in Spark's Python workers. What the task writes to internal topics is yielded for the next stage, the same every
time it is run.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext

from streamsapp.errors import DeserializationError, ProcessingError, SerializationError, UserInputError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.runtime import garbage_collection
from streamsapp.state.key_value import KeyValueStoreImpl
from streamsapp.tasks.stream_task import TaskPlan
from streamsapp_spark.global_stores import global_stores
from streamsapp_spark.pruning import without_external_sinks
from streamsapp_spark.replay import Advance, Replay
from streamsapp_spark.replay_job import Application, ReplayJob, application
from streamsapp_spark.stage_rows import InputRows, OutputRows
from streamsapp_spark.task_inputs import InputBatches, from_kafka, from_rows
from streamsapp_spark.worker_reports import Reporter

Batches = Iterator[pa.RecordBatch]

#: The number of times that Spark tries a task: as on a cluster, also where a master on this machine would not try
#: again.
TRIES = 4

#: The same records would end the same.
HOPELESS = (UserInputError, DeserializationError, SerializationError, ProcessingError)


@dataclass(frozen=True)
class Work:
    """The history to replay, for every task."""

    job: ReplayJob
    #: Of source topics, and of internal ones: of those nothing is read, and readers go on at their ends.
    ranges: tuple[HistoryRange, ...]
    internal: tuple[HistoryRange, ...]
    #: Spark partition and sub-topology of the reader of each input partition.
    destinations: dict[TopicPartition, tuple[int, int]]
    #: Says whether source topics come as rows, too.
    rows_only: bool = False


W = TypeVar("W", bound=Work)
#: The work to do with one task.
Act = Callable[[W, "TaskRun", InputRows], Batches]


def run_task(act: Act[W], work: W, batches: Iterable[pa.RecordBatch]) -> Batches:
    """Runs a task: the function for ``mapInArrow``, once the first two arguments are given."""
    rows = InputRows(batches)
    task_id = rows.task()
    if task_id is None:
        return
    reporter = Reporter(work.job.report_to, task_id)
    directory = Path(tempfile.mkdtemp(prefix=f"streamsapp-{task_id}-"))
    garbage_collection.relax()
    try:
        yield from act(work, TaskRun(work, application(work.job), task_id, directory, reporter), rows)
        reporter.finished()
    except Exception as error:
        reporter.failed(f"task {task_id}: {error}", hopeless=isinstance(error, HOPELESS))
        raise
    finally:
        garbage_collection.restore()
        reporter.close()
        shutil.rmtree(directory, ignore_errors=True)


def is_last_try() -> bool:
    """Says whether Spark gives the job up if the task fails now."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() >= TRIES - 1


class TaskRun:
    """One try at one stream task."""

    def __init__(self, work: Work, app: Application, task_id: TaskId, directory: Path, reporter: Reporter) -> None:
        self._work = work
        self._reporter = reporter
        self.app = app
        self.plan: TaskPlan = app.layout.plans[task_id]
        self.directory = directory
        self.config = app.config_of(task_id, "replay")
        self.ranges = {each.of: each for each in (*work.ranges, *work.internal)}
        #: Processed, and sent to any topic.
        self.records = self.outputs = 0

    def global_stores(self) -> AbstractContextManager[dict[str, KeyValueStoreImpl]]:
        """Returns the stores that every task may read, filled."""
        return global_stores(self.app, self.ranges, self.directory, self.config)

    def replay(self, shared: dict[str, KeyValueStoreImpl], *, results: bool = False) -> Replay:
        """Returns the task with empty stores; without ``results`` it sends the records that the next stage reads, and
        no others."""
        plan, internal = self.plan, self.app.layout.repartition_topics
        if not results:
            needed = without_external_sinks(plan.sub_topology, lambda topic: plan.topic_name(topic) in internal)
            plan = replace(plan, sub_topology=needed)
        return Replay(plan, self.config, self.directory, self.app.resources, shared)

    def advances(self, replay: Replay, rows: InputRows) -> Iterator[tuple[Advance, Batches]]:
        """Yields the work of the task, and the rows of it for the next stage."""
        internal = self.app.layout.repartition_topics
        partitions = {topic: self.plan.partition_count(topic) for topic in internal}
        out = OutputRows(self.plan.id, partitions, self._work.destinations)
        writes_internal = bool(self.plan.sub_topology.repartition_sinks)
        for advance in replay.run(self._feeds(rows)):
            self.records += advance.records
            self.outputs += len(advance.outputs)
            self._reporter.processed(advance.records)
            yield advance, iter(out.batches(advance.outputs) if writes_internal else [])
        yield Advance(0, ()), iter(out.rest())

    def _feeds(self, rows: InputRows) -> dict[TopicPartition, InputBatches]:
        internal = self.app.layout.repartition_topics
        from_stage = {each for each in self.plan.inputs if self._work.rows_only or each.topic in internal}
        from_topics = {
            each: from_kafka(self.ranges[each], self.config) for each in self.plan.inputs if each not in from_stage
        }
        return from_rows(rows, len(from_stage)) | from_topics
