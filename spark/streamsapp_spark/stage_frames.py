"""Makes data frames of the replay of an application: one per sub-topology, each made of the rows of those before it.

Runs on the driver.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from streamsapp.record import TopicPartition
from streamsapp_spark.history import History
from streamsapp_spark.partitioning import repartition_keys
from streamsapp_spark.progress import SparkProgress
from streamsapp_spark.session import reason, shuffled, task_frame
from streamsapp_spark.stage_rows import SQL_SCHEMA, task_row
from streamsapp_spark.stages import Stages
from streamsapp_spark.task_run import Batches, Work

log = logging.getLogger(__name__)


class StageFrames:
    """The rows that the tasks of each sub-topology yield."""

    def __init__(
        self,
        spark: SparkSession,
        history: History,
        stages: Stages,
        work: Work,
        run: Callable[[Iterable[pa.RecordBatch]], Batches],
    ) -> None:
        self._spark = spark
        self._history = history
        self._stages = stages
        self._work = work
        self._run = run
        self._made: dict[int, DataFrame] = {}

    def make(self, number: int) -> DataFrame:
        """Makes the frame of a sub-topology, after those that it reads from."""
        tasks = self._stages.tasks(number)
        rows = [
            task_row(task_id, repartition_key)
            for task_id, repartition_key in zip(tasks, repartition_keys(len(tasks)), strict=True)
        ]
        described = task_frame(self._spark, rows)
        inputs = [self._made[each].filter(f"reader = {number}") for each in sorted(self._stages.upstream[number])]
        source = self._history.records(number, self._work)
        inputs += [] if source is None else [source]
        if inputs:
            described = shuffled(described, reduce(DataFrame.union, inputs), len(tasks))
        frame = self._made[number] = described.mapInArrow(self._run, SQL_SCHEMA)
        return frame

    def keep(self, number: int) -> DataFrame:
        """Keeps a frame on executors' disks, so that it is computed once instead of once for each that reads it."""
        return self._made[number].persist(StorageLevel.DISK_ONLY)


def compute(frame: DataFrame, progress: SparkProgress) -> None:
    """Computes a frame, for the work of its tasks."""
    try:
        frame.count()
    except Exception as error:
        log.debug("Spark's job failed", exc_info=True)
        raise progress.error(f"Spark's job failed: {reason(error)}") from error


def spark_partitions_of(stages: Stages) -> dict[TopicPartition, tuple[int, int]]:
    """Returns the Spark partition and the sub-topology of each input partition's reader."""
    found: dict[TopicPartition, tuple[int, int]] = {}
    for number in stages.in_order:
        tasks = stages.tasks(number)
        for task_id, repartition_key in zip(tasks, repartition_keys(len(tasks)), strict=True):
            found.update(dict.fromkeys(stages.layout.plans[task_id].inputs, (repartition_key, number)))
    return found


@contextmanager
def cancelled_when_hopeless(spark: SparkSession, progress: SparkProgress) -> Iterator[None]:
    """Cancels the job when a task fails in a way that trying again would not mend."""
    over = threading.Event()

    def watch() -> None:
        progress.on_hopeless.wait()
        if not over.is_set():
            spark.sparkContext.cancelAllJobs()

    threading.Thread(target=watch, name="canceller", daemon=True).start()
    try:
        yield
    finally:
        over.set()
        progress.on_hopeless.set()
