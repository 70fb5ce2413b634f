"""The Spark task of a bootstrap: it replays a stream task and publishes its snapshot.

Runs in Spark's Python workers, which may die and be started again at any point: nothing counts until the snapshot is
published, and a later run of the same task finds that out, or fences the worker that is still at it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from streamsapp.outgoing import OutputRecord
from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import VERSION, Bootstraps, HistoryRange, TaskDone
from streamsapp.runtime.snapshot_content import input_points
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp_spark.bootstrapping.kafka_output import KafkaOutput
from streamsapp_spark.bootstrapping.repartition_offsets import moved_on
from streamsapp_spark.replay.replay import Advance, Replay
from streamsapp_spark.replay.stage_rows import InputRows
from streamsapp_spark.replay.task_run import ArrowBatches, GroupRun, TaskRun, Work, run_task
from streamsapp_spark.snapshots.publisher import Publisher

#: Results that wait to be written at most.
_RESULTS = 20_000


@dataclass(frozen=True)
class BootstrapWork(Work):
    """The bootstrap that a task belongs to, and whether the results of history are written."""

    number: int = 0
    emit: bool = False


def bootstrapping(work: BootstrapWork) -> Callable[[Iterable[pa.RecordBatch]], ArrowBatches]:
    """Returns the function for ``mapInArrow``."""
    return partial(run_task, _bootstrap, work)


def _bootstrap(work: BootstrapWork, run: GroupRun, rows: InputRows) -> ArrowBatches:
    began = time.monotonic()
    bootstrap = Bootstraps(run.app.objects, run.app.config.application_id).newest()
    assert bootstrap is not None  # it was begun
    unfinished = [each for task_id, each in run.tasks.items() if task_id not in bootstrap.finished]
    if not unfinished and not run.onward:
        return
    with run.replays(results=work.emit) as replays, ExitStack() as open_outputs:
        # Finished tasks lack only the records that they write to internal topics.
        outputs = {
            each.plan.id: open_outputs.enter_context(closing(_Output(work, each, replays[each.plan.id])))
            for each in unfinished
        }
        for task, advance, batches in run.advances(replays, rows):
            yield from batches
            if task.plan.id in outputs:
                outputs[task.plan.id].take(advance)
        for task in unfinished:
            inputs = outputs[task.plan.id].publish(run.ranges)
            seconds = time.monotonic() - began
            points = input_points({partition: (at.offset, at.metadata) for partition, at in inputs.items()})
            bootstrap.finish_task(TaskDone(VERSION, str(task.plan.id), points, task.records, task.outputs, seconds))


class _Output:
    """The changelogs, results and snapshot of one task."""

    def __init__(self, work: BootstrapWork, run: TaskRun, replay: Replay) -> None:
        self._run = run
        self._replay = replay
        self._emit = work.emit
        self._internal = run.app.layout.repartition_topics
        self._results: list[OutputRecord] = []
        self._publisher = Publisher(run.app, run.plan) if run.plan.has_snapshots(replay.stores) else None
        self._output = KafkaOutput(run.plan, run.config)

    def take(self, advance: Advance) -> None:
        """Writes changelogs at the end of a commit interval, and results when they are many."""
        if self._emit:
            self._results += [record for record in advance.outputs if record[0] not in self._internal]
        if advance.writes is not None or len(self._results) > _RESULTS:
            self._output.commit(advance.writes, self._results)
            self._results = []

    def publish(self, ranges: Mapping[TopicPartition, HistoryRange]) -> dict[TopicPartition, ConsumedOffset]:
        """Writes what is left and publishes the snapshot. Returns where the task goes on: at the end of its ranges, and
        of repartition partitions that were moved on."""
        self._output.commit(None, self._results)
        ends = {each: ranges[each].until for each in self._run.plan.inputs}
        moved = moved_on(self._replay.observed(self._internal), self._output, self._run.config)
        inputs = self._replay.positions(ends | moved)
        if self._publisher is not None:
            self._publisher.publish(self._replay.stores, self._run.directory, inputs)
        return inputs

    def close(self) -> None:
        """Closes the producer."""
        self._output.close()
