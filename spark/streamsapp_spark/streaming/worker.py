"""A Python worker of Spark's at work on a batch: it pulls lanes from the driver and runs them.

Stores, producers and consumer belong to the process and outlive the batch (``BatchProcess``): Spark keeps its Python
workers. On its machine a process has a directory of its own, the first that no other holds, so that one that takes the
place of another finds its state.
"""

from __future__ import annotations

import gc
import json
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from zipimport import zipimporter

import msgspec
import pyarrow as pa
from confluent_kafka import KafkaException
from pyspark import TaskContext

from streamsapp.config import StreamsConfig
from streamsapp.errors import ConfigError, StreamsError, UserInputError
from streamsapp.runtime.application_layout import lay_out
from streamsapp.runtime.batches.model import LaneReport
from streamsapp.runtime.batches.process import BatchProcess
from streamsapp.runtime.directory_lock import DirectoryLock
from streamsapp.topology.builder import Topology
from streamsapp_spark.executor_versions import Versions, refuse_other_versions, versions
from streamsapp_spark.shipped_program import ShippedProgram
from streamsapp_spark.streaming.channel import DriverAddress, ask
from streamsapp_spark.streaming.memory import ExecutorMemory
from streamsapp_spark.task_run import HOPELESS

log = logging.getLogger(__name__)

#: The time between two signs of life of a worker at work, in seconds.
_BEAT = 1.0

#: The time between two collections of all objects, in seconds.
_COLLECT = 60.0

SCHEMA = pa.schema([("report", pa.string())])


@dataclass(frozen=True)
class EngineJob:
    """Plain data, the same for all workers of a driver."""

    program: ShippedProgram
    #: Partitions of every topic there is, as JSON.
    partitions: bytes
    driver: DriverAddress
    memory: ExecutorMemory
    #: The driver's.
    versions: Versions

    @classmethod
    def of(
        cls, program: ShippedProgram, partitions: Mapping[str, int], driver: DriverAddress, memory: ExecutorMemory
    ) -> EngineJob:
        return cls(program, msgspec.json.encode(dict(partitions)), driver, memory, versions())


def pull(job: EngineJob, partition: int) -> Iterator[pa.RecordBatch]:
    """Run lanes as long as there are any for this process. As many rows come out as records went in: Spark counts
    them."""
    context = TaskContext.get()
    attempt = 0 if context is None else context.attemptNumber()
    with job.driver.connect() as driver:
        place = _begin(job, driver)
        order = ask(driver, "join", place.name, partition, attempt, os.environ.get("POD_UID", ""))
        while order is not None:
            report = _run(job, order, driver)
            figures = ask(driver, "done", report)
            yield from _rows(report, figures)
            order = ask(driver, "take")
    _forget_archives()
    _shield()


def _shield() -> None:
    """After each task Spark's worker has Python's collector walk all objects there are, those of modules and of open
    stores too, which took more than all tasks of a small batch. It finds none of them, but once in a while, for cycles
    of user code."""
    if time.monotonic() < _collected.until:
        gc.freeze()
    else:
        gc.unfreeze()
        _collected.until = time.monotonic() + _COLLECT


@dataclass
class _Collected:
    """Until when the objects of this process are not to be walked, in monotonic seconds."""

    until: float = 0.0


_collected = _Collected()


def _begin(job: EngineJob, driver: Connection) -> _Place:
    """Returns the directory of this process; tells the driver, and raises, if it cannot be what the driver is."""
    try:
        refuse_other_versions(job.versions)
        _held.leave_for(job)
        return _place(job)
    except UserInputError as error:
        ask(driver, "failed", f"on {socket.gethostname()}: {error}", True, True)
        raise


def _forget_archives() -> None:
    """Before each task Spark's worker has everything looked at anew that modules are found in. Of an archive Python
    reads the whole directory then; Spark's own jar is one, and takes 0.1 s of CPU. Finders that are gone are made
    again where they are needed, without that."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def _run(job: EngineJob, order: Any, driver: Connection) -> LaneReport:
    beat = 0.0

    def alive() -> None:
        nonlocal beat
        if time.monotonic() >= beat:
            beat = time.monotonic() + _BEAT
            ask(driver, "alive")

    try:
        return _process(job).run(order, alive)
    except Exception as error:
        why = _away(job, error) if isinstance(error, KafkaException) else error
        told = f"on {_place(job).name}: {why}"
        ask(driver, "failed", told, isinstance(error, HOPELESS), isinstance(error, UserInputError))
        raise


def _away(job: EngineJob, error: KafkaException) -> str:
    return f"Kafka at {_loaded(job)[1].bootstrap_servers} cannot be used from there: {error.args[0].str()}"


def _rows(report: LaneReport, figures: dict[str, int]) -> Iterator[pa.RecordBatch]:
    """A row for each record; the first says what was done, the others nothing."""
    records = sum(task.records for task in report.tasks)
    if records:
        outputs = sum(task.outputs for task in report.tasks)
        done = json.dumps({"records": records, "outputs": outputs, "lane": report.number, **figures})
        column = pa.concat_arrays([pa.array([done]), pa.nulls(records - 1, pa.string())])
        yield pa.RecordBatch.from_arrays([column], schema=SCHEMA)


# ---- of the process ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """The directory of this process."""

    #: By which the driver knows it.
    name: str
    directory: Path


@dataclass
class _Held:
    """The things that this process has for a job. A Python program may start a driver after another one in its session:
    the same process finds its state then, once the former job has let go of it."""

    job: EngineJob | None = None
    #: Called from the last to the first to let go.
    closing: list[Callable[[], object]] = field(default_factory=list)

    def leave_for(self, job: EngineJob | None) -> None:
        """Let go of the former job, if this is another one. One that cannot be closed keeps its directory."""
        if self.job == job:
            return
        self.job = job
        try:
            while self.closing:
                self.closing[-1]()
                self.closing.pop()
        except Exception:
            log.exception(
                "the stores of the former driver cannot be closed; the new one restores its state beside them"
            )


_held = _Held()


@lru_cache(maxsize=1)
def _place(job: EngineJob) -> _Place:
    config = _loaded(job)[1]
    for number in count():
        directory = config.state_dir / config.application_id / f"worker-{number}"
        try:
            lock = DirectoryLock(directory)
        except ConfigError:
            continue  # another worker of this machine has it
        _held.closing += (lock.release, _place.cache_clear)
        return _Place(f"{socket.gethostname()}:{directory}", directory)
    raise AssertionError("there is always another number")


@lru_cache(maxsize=1)
def _process(job: EngineJob) -> BatchProcess:
    (topology, config), place = _loaded(job), _place(job)
    client_id = f"{config.application_id}-{socket.gethostname()}-{place.directory.name}"
    share = job.memory.share(config.memory_bytes)
    config = replace(config, state_dir=place.directory, client_id=client_id, memory_bytes=share)
    layout, _ = lay_out(topology, config, msgspec.json.decode(job.partitions), _gone)
    process = BatchProcess(topology, config, layout)
    _held.closing += (process.close, _process.cache_clear)
    return process


@lru_cache(maxsize=1)
def _loaded(job: EngineJob) -> tuple[Topology, StreamsConfig]:
    """User code is imported here."""
    return job.program.load()


def _gone(topic: str) -> str:
    raise StreamsError(f"topic {topic} was there when the driver started, and is not any more; start the driver again")
