"""Runs stream tasks over their ranges in a Spark task: the part that bootstrap and audit have in common. It is one
stream task, unless there are more that get records back from each other.

Runs in Spark's Python workers. The tasks' records for internal topics are yielded for the next stage, the same ones
every time they are run.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext

from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.runtime.process_settings import CYCLIC_GC
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.tasks.task_plan import ConsumedOffset, TaskPlan
from streamsapp_spark.replay.global_stores import global_stores
from streamsapp_spark.replay.hopeless import HOPELESS
from streamsapp_spark.replay.job import Application, ReplayJob, application
from streamsapp_spark.replay.loop import group_advances
from streamsapp_spark.replay.pruning import without_external_sinks
from streamsapp_spark.replay.recorded_markers import recorded_markers
from streamsapp_spark.replay.replay import Advance, Replay
from streamsapp_spark.replay.stage_rows import InputRows, OutputRows
from streamsapp_spark.replay.task_inputs import InputBatches, from_kafka, from_rows
from streamsapp_spark.replay.worker_reports import Reporter
from streamsapp_spark.session.settings import TRIES

ArrowBatches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Work:
    """The history to replay, for every task."""

    job: ReplayJob
    #: Of source topics, and of internal ones: of those nothing is read, and readers go on at their ends.
    ranges: tuple[HistoryRange, ...]
    internal: tuple[HistoryRange, ...]
    #: Spark partition of the reader of each input partition, and the sub-topology that stands for its stage.
    destinations: dict[TopicPartition, tuple[int, int]]
    #: Says whether source topics come as rows, too.
    rows_only: bool = False
    #: The positions that the state stands at which tasks begin with: offset and metadata, as they were committed.
    starts: Mapping[TopicPartition, tuple[int, str]] = field(default_factory=dict)
    #: The time that inputs had where the replay ends: later markers were made after that.
    times: Mapping[TopicPartition, int] = field(default_factory=dict)


W = TypeVar("W", bound=Work)
#: The work to do with the tasks of one Spark task.
Act = Callable[[W, "GroupRun", InputRows], ArrowBatches]


def run_task(act: Act[W], work: W, batches: Iterable[pa.RecordBatch]) -> ArrowBatches:
    """Runs the tasks: the function for ``mapInArrow``, once the first two arguments are given."""
    rows = InputRows(batches)
    first = rows.task()
    if first is None:
        return
    reporter = Reporter(work.job.report_to, first)
    directory = Path(tempfile.mkdtemp(prefix=f"streamsapp-{first}-"))
    CYCLIC_GC.change()
    host = socket.gethostname()
    named = f"on {host}: task {first}"
    try:
        app = application(work.job)
        group = app.stages.group(first)
        named = f"on {host}: task{'s' * (len(group) > 1)} {', '.join(map(str, group))}"
        with ExitStack() as stack:
            others = [stack.enter_context(closing(Reporter(work.job.report_to, each))) for each in group[1:]]
            reporters = dict(zip(group, (reporter, *others), strict=True))
            tasks = {each: TaskRun(app, each, directory, of) for each, of in reporters.items()}
            yield from act(work, GroupRun(work, app, tasks, directory), rows)
            for each in reporters.values():
                each.finished()
    except Exception as error:
        reporter.failed(f"{named}: {error}", hopeless=isinstance(error, HOPELESS))
        raise
    finally:
        CYCLIC_GC.restore()
        reporter.close()
        shutil.rmtree(directory, ignore_errors=True)


def is_last_try() -> bool:
    """Says whether Spark gives the job up if the task fails now."""
    context = TaskContext.get()
    return context is not None and context.attemptNumber() >= TRIES - 1


class TaskRun:
    """One try at one stream task."""

    def __init__(self, app: Application, task_id: TaskId, directory: Path, reporter: Reporter) -> None:
        self.app = app
        self.plan: TaskPlan = app.layout.plans[task_id]
        self.directory = directory / str(task_id)
        self.config = app.config_of(task_id, "replay")
        #: Processed, and sent to any topic.
        self.records = self.outputs = 0
        self._reporter = reporter

    def replay(self, work: Work, shared: dict[str, KeyValueStoreImpl], *, results: bool) -> Replay:
        """Returns the task with the state that is in its directory; without ``results`` it sends the records that the
        next stage reads, and no others."""
        plan, internal, existing = self.plan, self.app.layout.repartition_topics, self.app.layout.existing
        if not results:
            needed = without_external_sinks(plan.sub_topology, lambda topic: plan.topic_name(topic) in internal)
            plan = replace(plan, sub_topology=needed)
        starts = {each: ConsumedOffset.committed(*work.starts[each]) for each in plan.inputs if each in work.starts}
        replay = Replay(plan, self.config, self.directory, self.app.resources, shared, starts)
        if plan.sub_topology.time is not None and plan.changelogs[plan.sub_topology.time.store].topic in existing:
            replay.add_recorded(recorded_markers(plan, self.config, work.times))
        return replay

    def count(self, advance: Advance) -> None:
        """Counts the work of the task, and reports it."""
        self.records += advance.records
        self.outputs += len(advance.outputs)
        self._reporter.processed(advance.records)


class GroupRun:
    """One try at the stream tasks of one Spark task."""

    def __init__(self, work: Work, app: Application, tasks: Mapping[TaskId, TaskRun], directory: Path) -> None:
        self._work = work
        self._directory = directory
        self.app = app
        self.tasks = tasks
        self.ranges = {each.of: each for each in (*work.ranges, *work.internal)}
        #: The readers of what the tasks send each other, and the internal topics that they write for the next stage.
        self._looped, self.onward = app.stages.looped(tuple(tasks)), app.stages.onward(tuple(tasks))

    @contextmanager
    def replays(self, *, results: bool = False) -> Iterator[dict[TaskId, Replay]]:
        """Returns the tasks as they begin, beside global stores that are filled; without ``results`` they send the
        records that others read, and no others."""
        first = next(iter(self.tasks.values()))
        with global_stores(self.app, self.ranges, self._directory, first.config) as shared, ExitStack() as replays:
            yield {
                task_id: replays.enter_context(task.replay(self._work, shared, results=results))
                for task_id, task in self.tasks.items()
            }

    def advances(
        self, replays: Mapping[TaskId, Replay], rows: InputRows
    ) -> Iterator[tuple[TaskRun, Advance, ArrowBatches]]:
        """Yields the work of the tasks, and the rows of it for the next stage."""
        rows_of = {
            task_id: OutputRows(
                task_id, {topic: task.plan.partition_count(topic) for topic in self.onward}, self._work.destinations
            )
            for task_id, task in self.tasks.items()
        }
        for task_id, advance in group_advances(replays, self._looped, self._inputs(rows)):
            task = self.tasks[task_id]
            task.count(advance)
            yield task, advance, iter(rows_of[task_id].batches(advance.outputs) if self.onward else [])
        for task_id, out in rows_of.items():
            yield self.tasks[task_id], Advance(0, ()), iter(out.rest())

    def _inputs(self, rows: InputRows) -> dict[TopicPartition, InputBatches]:
        internal = self.app.layout.repartition_topics
        inputs = {each: task.config for task in self.tasks.values() for each in task.plan.inputs}
        from_stage = {each for each in inputs if self._work.rows_only or each.topic in internal}
        from_topics = {
            each: from_kafka(self.ranges[each], config) for each, config in inputs.items() if each not in from_stage
        }
        return from_rows(rows, len(from_stage)) | from_topics
