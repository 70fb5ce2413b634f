"""A Python worker of Spark's at work on a batch: it pulls lanes from the driver and runs them.

Stores, producers and consumer belong to the process and outlive the batch (``LaneProcess``): Spark keeps its Python
workers. On its machine a process has a directory of its own, the first that no other holds, so that the next process in
its place finds its state.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zipimport import zipimporter

import msgspec
from confluent_kafka import KafkaException
from pyspark import TaskContext

from streamsapp.config import StreamsConfig
from streamsapp.errors import ConfigError, StreamsError, UserInputError
from streamsapp.runtime.application_layout import lay_out
from streamsapp.runtime.directory_lock import DirectoryLock
from streamsapp.runtime.micro_batches.model import LaneOrder, LaneReport
from streamsapp.runtime.micro_batches.process import LaneProcess
from streamsapp.topology.builder import Topology
from streamsapp_spark.replay.hopeless import HOPELESS
from streamsapp_spark.session.executor_versions import refuse_other_versions
from streamsapp_spark.streaming.channel import ask
from streamsapp_spark.streaming.job import EngineJob

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

T = TypeVar("T")

#: The time between two signs of life of a worker at work, and between two reports of open orders, in seconds.
_BEAT, _STRETCH = 1.0, 1.0

#: The time between two collections of all objects, in seconds.
_COLLECT = 60.0


def pull(job: EngineJob, partition: int) -> Iterator[pa.RecordBatch]:
    """Run lanes as long as there are any for this process. As many rows come out as records went in: Spark counts
    them."""
    from streamsapp_spark.streaming.rows import rows  # late: it starts threads, which none may have that forks

    context = TaskContext.get()
    attempt = 0 if context is None else context.attemptNumber()
    with job.driver.connect() as driver:
        place = _begin(job, driver)
        order = ask(driver, "join", place.name, partition, attempt, os.environ.get("POD_UID", ""))
        work = _Work(job, driver)
        while order is not None:
            for figures in work.read_on(order) if order.is_open else work.run(order):
                yield from rows(figures)
            order = ask(driver, "take")
        if attempt:
            yield from rows(ask(driver, "owed"))
    _forget_archives()
    _shield()


def _shield() -> None:
    """After each task Spark's worker has Python's collector walk all objects, including those of modules and of open
    stores. That took more time than all tasks of a small batch. Here the collector walks none of them, except once in a
    while, for cycles of user code."""
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
    """Returns the directory of this process; reports to the driver, and raises, if it cannot be what the driver is."""
    try:
        refuse_other_versions(job.versions)
        return _held(job).place
    except UserInputError as error:
        ask(driver, "failed", f"on {socket.gethostname()}: {error}", True, True)
        raise


def _forget_archives() -> None:
    """Before each task Spark's worker has everything looked at anew that modules are found in. Python then reads the
    whole directory of an archive; Spark's own jar is one, and takes 0.1 s of CPU. Finders that are gone are made again
    where they are needed, without that."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


class _Work:
    """The orders of one batch that this process carries out."""

    def __init__(self, job: EngineJob, driver: Connection) -> None:
        self._job = job
        self._driver = driver
        self._beat = 0.0

    def run(self, order: LaneOrder) -> Iterator[dict[str, int]]:
        """An order that ends by itself. Yields the figures for Spark."""
        report = self._guarded(lambda: _held(self._job).process.run(order, self._alive, self._check(order)))
        figures, _ = ask(self._driver, "done", report)
        yield figures

    def read_on(self, first: LaneOrder) -> Iterator[dict[str, int]]:
        """The open orders of this process, all at once, as each would wait for the end of the one before; until the
        driver ends them."""
        orders = [first]
        while (order := ask(self._driver, "take")) is not None:
            if order.is_open:
                orders.append(order)
            else:
                yield from self.run(order)
        while orders:
            reports = self._guarded(partial(self._stretch, orders))
            answers = [ask(self._driver, "done", report, True) for report in reports]
            orders = [order for order, (_, goes_on) in zip(orders, answers, strict=True) if goes_on]
            yield from (figures for figures, _ in answers)

    def _stretch(self, orders: list[LaneOrder]) -> list[LaneReport]:
        return _held(self._job).process.run_on(orders, _STRETCH, self._alive, self._check(orders[0]))

    def _guarded(self, run: Callable[[], T]) -> T:
        """Reports a failure to the driver, and raises it."""
        job = self._job
        try:
            return run()
        except Exception as error:
            why = _away(job, error) if isinstance(error, KafkaException) else error
            told = f"on {_held(job).place.name}: {why}"
            ask(self._driver, "failed", told, isinstance(error, HOPELESS), isinstance(error, UserInputError))
            raise

    def _alive(self) -> None:
        if time.monotonic() >= self._beat:
            self._beat = time.monotonic() + _BEAT
            ask(self._driver, "alive")

    def _check(self, order: LaneOrder) -> Callable[[], None]:
        def check() -> None:
            if (lost := ask(self._driver, "claimed", order.division)) is not None:
                raise StreamsError(lost)

        return check


def _away(job: EngineJob, error: KafkaException) -> str:
    return f"Kafka at {_held(job).loaded[1].bootstrap_servers} cannot be used from there: {error.args[0].str()}"


# ---- of the process ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """The directory of an application in this process."""

    #: By which the driver knows it.
    name: str
    directory: Path


class _Held:
    """The things that this process has for a job; made when they are first asked for."""

    def __init__(self, job: EngineJob) -> None:
        self.job = job
        #: Called from the last to the first to let go.
        self._closing: list[Callable[[], object]] = []

    @cached_property
    def loaded(self) -> tuple[Topology, StreamsConfig]:
        """User code is imported here."""
        return self.job.program.load()

    @cached_property
    def place(self) -> _Place:
        config = self.loaded[1]
        for number in count():
            directory = config.state_dir / config.application_id / f"worker-{number}"
            try:
                lock = DirectoryLock(directory)
            except ConfigError:
                continue  # another worker of this machine has it
            self._closing.append(lock.release)
            return _Place(f"{socket.gethostname()}:{directory}", directory)
        raise AssertionError("there is always another number")

    @cached_property
    def process(self) -> LaneProcess:
        (topology, config), place = self.loaded, self.place
        client_id = f"{config.application_id}-{socket.gethostname()}-{place.directory.name}"
        share = self.job.memory.share(config.memory_bytes)
        config = replace(config, state_dir=place.directory, client_id=client_id, memory_bytes=share)
        layout, _ = lay_out(topology, config, msgspec.json.decode(self.job.partitions), _gone)
        process = LaneProcess(topology, config, layout)
        self._closing.append(process.close)
        return process

    def close(self) -> bool:
        """Let go of everything. One that cannot be closed keeps its directory: returns whether all is closed."""
        try:
            while self._closing:
                self._closing[-1]()
                self._closing.pop()
        except Exception:
            told = "the stores of a former driver cannot be closed; the next one restores its state beside them"
            log.exception(told)
        return not self._closing


#: By application: several queries of one session share its Python workers.
_applications: dict[str, _Held] = {}

#: The holdings of former jobs that could not be closed.
_leaving: list[_Held] = []


def _held(job: EngineJob) -> _Held:
    """Returns what this process has for a job. A Python program may start a driver after another one in its session:
    the same process finds its state then, once the former job has let go of it. Applications whose drivers are gone let
    go of theirs, too."""
    held = _applications.get(job.application_id)
    if held is None or held.job != job:
        for name, each in list(_applications.items()):
            if name == job.application_id or not each.job.driver.listens():
                _leaving.append(_applications.pop(name))
        _leaving[:] = [each for each in _leaving if not each.close()]
        held = _applications[job.application_id] = _Held(job)
    return held


def _gone(topic: str) -> str:
    raise StreamsError(f"topic {topic} was there when the driver started, and is not any more; start the driver again")
