"""The Spark task of a bootstrap: it replays one stream task and publishes its snapshot.

Runs in Spark's Python workers, which may die and be started again at any point: nothing counts until the snapshot is
published, and whoever does the same task later finds that out or fences whoever still works on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import VERSION, Bootstraps, TaskDone
from streamsapp.runtime.snapshot_content import input_points
from streamsapp.tasks.output import OutputRecord
from streamsapp_spark.kafka_output import KafkaOutput
from streamsapp_spark.repartition_offsets import moved_on
from streamsapp_spark.replay import Replay
from streamsapp_spark.snapshot_publisher import Publisher
from streamsapp_spark.stage_rows import InputRows
from streamsapp_spark.task_run import Batches, TaskRun, Work, run_task

#: Results that wait to be written at most.
_RESULTS = 20_000


@dataclass(frozen=True)
class BootstrapWork(Work):
    """The bootstrap that a task belongs to, and whether the results of history are written."""

    number: int = 0
    emit: bool = False


def bootstrapping(work: BootstrapWork) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """Returns the function for ``mapInArrow``."""
    return partial(run_task, _bootstrap, work)


def _bootstrap(work: BootstrapWork, run: TaskRun, rows: InputRows) -> Batches:
    began = time.monotonic()
    bootstrap = Bootstraps(run.app.objects, run.config.application_id).newest()
    assert bootstrap is not None  # it was begun
    finished = run.plan.id in bootstrap.finished
    if finished and not run.plan.sub_topology.repartition_sinks:
        return
    with run.global_stores() as shared, run.replay(shared, results=work.emit) as replay:
        if finished:  # only what it writes to internal topics is missing
            for _, batches in run.advances(replay, rows):
                yield from batches
            return
        publisher = Publisher(run.app, run.plan) if run.plan.has_snapshots(replay.stores) else None
        ends = {each: run.ranges[each].until for each in run.plan.inputs}
        inputs = replay.positions(ends | (yield from _written(work, run, replay, rows)))
        if publisher is not None:
            publisher.publish(replay.stores, run.directory, inputs)
        seconds = time.monotonic() - began
        task = str(run.plan.id)
        committed = {partition: (at.offset, at.metadata) for partition, at in inputs.items()}
        bootstrap.finish_task(TaskDone(VERSION, task, input_points(committed), run.records, run.outputs, seconds))


def _written(
    work: BootstrapWork, run: TaskRun, replay: Replay, rows: InputRows
) -> Generator[pa.RecordBatch, None, dict[TopicPartition, int]]:
    """Replays the task, and writes changelogs and results. Returns the ends of repartition partitions that were moved
    on."""
    internal = run.app.layout.repartition_topics
    results: list[OutputRecord] = []
    output = KafkaOutput(run.plan, run.config)
    try:
        for advance, batches in run.advances(replay, rows):
            yield from batches
            if work.emit:
                results += [record for record in advance.outputs if record[0] not in internal]
            if advance.writes is not None or len(results) > _RESULTS:
                output.commit(advance.writes, results)
                results = []
        output.commit(None, results)
        return moved_on(replay.observed(internal), output, run.config)
    finally:
        output.close()
