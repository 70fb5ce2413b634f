"""Makes data frames of the replay of an application: one per stage, each made of the rows of those before it.

Runs on the driver.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from streamsapp.record import TopicPartition
from streamsapp_spark.history.progress import SparkProgress
from streamsapp_spark.history.sources import History
from streamsapp_spark.replay.partitioning import repartition_keys
from streamsapp_spark.replay.stage_rows import ORDER, SQL_SCHEMA, Row, task_row
from streamsapp_spark.replay.stages import Stage, Stages
from streamsapp_spark.replay.task_run import ArrowBatches, Work
from streamsapp_spark.session.java_process import reason

log = logging.getLogger(__name__)


class StageFrames:
    """The rows that the tasks of each stage yield."""

    def __init__(
        self,
        spark: SparkSession,
        history: History,
        stages: Stages,
        work: Work,
        run: Callable[[Iterable[pa.RecordBatch]], ArrowBatches],
    ) -> None:
        self._spark = spark
        self._history = history
        self._stages = stages
        self._work = work
        self._run = run
        self._made: dict[Stage, DataFrame] = {}

    def make(self, stage: Stage) -> DataFrame:
        """Makes the frame of a stage, after the stages that it reads from."""
        groups = self._stages.groups(stage)
        rows = [
            task_row(group[0], repartition_key)
            for group, repartition_key in zip(groups, repartition_keys(len(groups)), strict=True)
        ]
        described = _task_frame(self._spark, rows)
        inputs = [self._made[each].filter(f"reader = {stage[0]}") for each in self._stages.writers(stage)]
        source = self._history.records(stage[0], self._work)
        inputs += [] if source is None else [source]
        if inputs:
            described = _shuffled(described, reduce(DataFrame.union, inputs), len(groups))
        frame = self._made[stage] = described.mapInArrow(self._run, SQL_SCHEMA)
        return frame

    def keep(self, stage: Stage) -> DataFrame:
        """Keeps a frame on executors' disks, so that it is computed once instead of once for each that reads it."""
        return self._made[stage].persist(StorageLevel.DISK_ONLY)


def _task_frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """One Spark partition per row."""
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)), SQL_SCHEMA)


def _shuffled(tasks: DataFrame, records: DataFrame, partitions: int) -> DataFrame:
    """Records beside the row of the task that reads them, in their order."""
    return tasks.union(records).repartition(partitions, "repartition_key").sortWithinPartitions(*ORDER)


def compute(frame: DataFrame, progress: SparkProgress) -> None:
    """Computes a frame, for the work of its tasks."""
    try:
        frame.count()
    except Exception as error:
        log.debug("Spark's job failed", exc_info=True)
        raise progress.error(f"Spark's job failed: {reason(error)}") from error


def spark_partitions_of(stages: Stages) -> dict[TopicPartition, tuple[int, int]]:
    """Returns the Spark partition of each input partition's reader, and the sub-topology that stands for its stage."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    for stage in stages.in_order:
        groups = stages.groups(stage)
        for group, repartition_key in zip(groups, repartition_keys(len(groups)), strict=True):
            for task_id in group:
                found.update(dict.fromkeys(stages.layout.plans[task_id].inputs, (repartition_key, stage[0])))
    return found


@contextmanager
def cancelled_when_hopeless(spark: SparkSession, progress: SparkProgress) -> Iterator[None]:
    """Cancels the jobs of this thread when a task fails in a way that trying again would not mend. Others may run in
    the session of a Python program."""
    context, over, tag = spark.sparkContext, threading.Event(), f"streamsapp-{secrets.token_hex(8)}"

    def watch() -> None:
        progress.on_hopeless.wait()
        if not over.is_set():
            context.cancelJobsWithTag(tag)

    threading.Thread(target=watch, name="canceller", daemon=True).start()
    context.addJobTag(tag)
    try:
        yield
    finally:
        context.removeJobTag(tag)
        over.set()
        progress.on_hopeless.set()
