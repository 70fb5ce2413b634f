"""The driver of ``engine: spark``: one Structured Streaming query, and everything that decides what it does.

Made and run by the command line on its main thread. Spark calls from a process of its own (``source``) and from
workers, which are answered on the channel's threads:

    latest    is there something to do? then the next batch is planned
    begin     the batch that was planned begins
    join, take, done, failed    a worker pulls lanes

What a batch did is committed by the workers. The driver may end at any moment: the next one fences whoever is left, and
goes on where the group stands.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ManifestError, StreamsError
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.manifest import StreamsApp
from streamsapp.metrics.samples import Sample
from streamsapp.record import TaskId
from streamsapp.runtime.application_topics import ApplicationTopics
from streamsapp.runtime.batches.batches import Batches
from streamsapp.runtime.batches.lanes import fence_all
from streamsapp.runtime.batches.model import LaneOrder, LaneReport
from streamsapp.runtime.batches.planning import BatchPlanner
from streamsapp.runtime.client_state import ClientState, StateHolder
from streamsapp.topology.builder import Topology
from streamsapp.topology.description import TopologyDescription
from streamsapp_spark.java_process import JavaProcess
from streamsapp_spark.session import reason, session
from streamsapp_spark.streaming import view
from streamsapp_spark.streaming.channel import Server
from streamsapp_spark.streaming.dispatcher import Dispatcher, Puller
from streamsapp_spark.streaming.source import NAME, source_of
from streamsapp_spark.streaming.worker import EngineJob

log = logging.getLogger(__name__)

#: The time that instances have to leave the group before the driver refuses to start beside them: their session, and
#: this many seconds.
_LEAVE = 5.0
#: A look at the query, and at the broker while there is nothing to do, in seconds.
_LOOK = 0.1
#: Spark ends a Python worker that has had nothing to do for a minute, and with it what it has open.
_KEEP_WARM = 20.0


class SparkEngine:
    """One driver."""

    def __init__(
        self, app: StreamsApp, topology: Topology, config: StreamsConfig, folder: Path, overrides: dict[str, Any]
    ) -> None:
        """``folder`` is the manifest's, where workers can see it too; ``overrides`` are what ``config`` has beside the
        manifest, for them."""
        self._app = app
        self._topology = topology
        self._config = config
        self._folder = folder
        self._overrides = overrides
        self._clock = SystemClock()
        self._state = StateHolder()
        self._figures = view.Figures()
        self._dispatcher = Dispatcher()
        self._batches: Batches | None = None
        self._layout: Any = None
        self._next: tuple[LaneOrder, ...] = ()
        self._offset: dict[str, Any] = {"batch": 0}
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._over = threading.Event()
        self._failure: StreamsError | None = None
        self._parallelism = 1
        self._progress_at = self._clock.monotonic()

    # ---- life --------------------------------------------------------------------------------------------------

    def run(self, java: JavaProcess) -> int:
        """Until it is closed, or has caught up; the exit code. Raises what ended it otherwise."""
        try:
            self._state.to(ClientState.REBALANCING)
            admin = TopicAdmin(client_properties.admin(self._config))
            topics = ApplicationTopics(self._topology, self._config, admin)
            topics.wait_for_broker(self._closing.is_set)
            self._refuse_running()
            self._layout = topics.look_up()
            fence_all(self._config)
            with session(java) as spark:
                self._run(spark, admin)
        except BaseException:
            self._state.to(ClientState.PENDING_ERROR)
            self._state.to(ClientState.ERROR)
            raise
        self._state.to(ClientState.PENDING_SHUTDOWN)
        self._state.to(ClientState.NOT_RUNNING)
        return 0

    def close(self) -> None:
        """End after the batch under way, and give the tasks up in good order. Any thread."""
        self._closing.set()
        self._over.wait()

    def _refuse_running(self) -> None:
        """Instances that were just ended may be members for as long as their session lasts."""
        group = GroupAdmin(self._config)
        until = self._clock.monotonic() + self._config.session_timeout_ms / 1000 + _LEAVE
        while (reason := group.activity()) is not None:
            if self._clock.monotonic() > until:
                told = f"instances of {self._config.application_id} are running: {reason}"
                raise ManifestError([f"spec.engine: {told}; stop them before the driver starts, or set it to threads"])
            log.info("waiting until instances have left: %s", reason)

    def _run(self, spark: SparkSession, admin: TopicAdmin) -> None:
        parallelism = spark.sparkContext.defaultParallelism
        self._parallelism = parallelism
        inputs = {task_id: plan.inputs.keys() for task_id, plan in self._layout.plans.items()}
        setting = self._app.spec.spark
        planner = BatchPlanner(inputs, max(1, min(parallelism, len(inputs))), setting.max_records_per_batch)
        self._batches = Batches(self._layout, self._config, admin, self._clock, planner, catches_up=setting.catches_up)
        host = spark.sparkContext.getConf().get("spark.driver.host") or "127.0.0.1"
        server = Server(host, self._serve)
        with tempfile.TemporaryDirectory(prefix="streamsapp-query-") as checkpoint:
            try:
                partitions = admin.partition_counts()
                job = EngineJob.of(self._app, self._folder, self._overrides, partitions, server.address)
                self._watch(self._start(spark, job, checkpoint))
            finally:
                self._over.set()
                server.close()

    def _start(self, spark: SparkSession, job: EngineJob, checkpoint: str) -> StreamingQuery:
        spark.dataSource.register(source_of(job))
        frame = observed(spark.readStream.format(NAME).load())
        writer = frame.writeStream.format("noop").queryName(self._config.application_id)
        writer = writer.option("checkpointLocation", checkpoint)
        return writer.trigger(processingTime=f"{self._app.spec.spark.trigger_ms} milliseconds").start()

    def _watch(self, query: StreamingQuery) -> None:
        """Until there is nothing left to do, or the query ends by itself, which it does not in good order."""
        while query.isActive and self._failure is None and not self._given_up():
            time.sleep(_LOOK)
            self._figures.progress = query.lastProgress
        failure = None if query.isActive else query.exception()
        if self._failure is None and failure is not None:
            log.debug("the query failed", exc_info=failure)
            if self._closing.is_set():
                log.warning("the query ended first: %s; what it has not committed is done by the next", reason(failure))
            else:
                self._failure = StreamsError(f"the query failed: {reason(failure)}")
        query.stop()
        if self._failure is not None:
            raise self._failure

    def _given_up(self) -> bool:
        return self._closing.is_set() and self._dispatcher.done and not self._dispatcher.lanes

    # ---- Spark's source ----------------------------------------------------------------------------------------

    def _serve(self, connection: Connection) -> None:
        puller: Puller | None = None
        try:
            while True:
                name, *arguments = connection.recv()
                if name == "join":
                    puller = self._dispatcher.join(*arguments)
                    connection.send(self._dispatcher.take(puller))
                else:
                    connection.send(getattr(self, f"_{name}")(puller, *arguments))
        finally:
            if puller is not None:
                self._dispatcher.lose(puller)

    def _latest(self, _: None) -> dict[str, Any]:
        """The offset of the batch that is to begin; the same as before if there is none."""
        with self._lock:
            if not self._dispatcher.done:
                return self._offset
            self._next = self._plan()
            if self._next or self._clock.monotonic() > self._progress_at + _KEEP_WARM:
                self._offset = {"batch": self._offset["batch"] + 1, **self._offsets()}
            return self._offset

    def _plan(self) -> tuple[LaneOrder, ...]:
        assert self._batches is not None
        if not self._closing.is_set():
            orders = self._batches.next()
            if orders or not self._batches.caught_up:
                return orders
            log.info("%s has caught up", self._config.application_id)
            self._closing.set()
        return tuple(LaneOrder(number, (), gives_up=True) for number in sorted(self._dispatcher.lanes))

    def _offsets(self) -> dict[str, dict[str, int]]:
        """Of every topic, as Kafka's own source shows them."""
        assert self._batches is not None
        positions = dict(self._batches.planner.positions)
        for order in self._next:
            positions |= {each: target.until for task in order.tasks for each, target in task.targets.items()}
        shown: dict[str, dict[str, int]] = {}
        for (topic, number), position in sorted(positions.items()):
            shown.setdefault(topic, {})[str(number)] = position
        return shown

    def _begin(self, _: None, batch: int) -> int:
        """The batch begins; how many partitions it has."""
        with self._lock:
            self._progress_at = self._clock.monotonic()
            self._dispatcher.begin(self._next if batch == self._offset["batch"] else (), self._parallelism)
            self._figures.batches += 1
            return self._parallelism

    # ---- workers -----------------------------------------------------------------------------------------------

    def _take(self, puller: Puller) -> LaneOrder | None:
        return self._dispatcher.take(puller)

    def _done(self, puller: Puller, report: LaneReport) -> dict[str, int]:
        """A lane is committed; what is known of the whole application now."""
        assert self._batches is not None
        with self._lock:
            self._dispatcher.reported(puller, report.number)
            self._batches.report(report)
            self._figures.report(report, self._clock.now_ms())
            self._progress_at = self._clock.monotonic()
            self._state.to(ClientState.RUNNING)
            figures = self._figures
            lag = self._batches.planner.total_lag
            return {"state_rows": figures.state_rows, "state_bytes": figures.state_bytes, "lag": lag}

    def _failed(self, puller: Puller, number: int, told: str, hopeless: bool, user: bool) -> None:
        log.warning("lane %d %s%s", number, told, "" if hopeless else "; Spark tries again")
        if hopeless:
            self._failure = ManifestError([told]) if user else StreamsError(told)  # type: ignore[assignment]

    # ---- looking at it -----------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The document of ``/status``."""
        return view.document(self._config, self._state.state, self._layout, self._figures, self._lags(), self._owners())

    def healthy(self) -> tuple[bool, str]:
        """Tell whether the query lives, and the batch under way goes on."""
        silent = self._clock.monotonic() - self._progress_at
        if self._state.state in (ClientState.ERROR, ClientState.PENDING_ERROR):
            return False, f"state is {self._state.state.value}"
        if not self._dispatcher.done and silent > self._config.max_poll_interval_ms / 1000:
            return False, f"a batch has been under way for {silent:.0f} s"
        return True, f"state is {self._state.state.value}"

    def ready(self) -> tuple[bool, str]:
        """Tell whether a batch has been committed since the start, and it does not end."""
        good = self._state.state is ClientState.RUNNING and not self._closing.is_set()
        return good, f"state is {self._state.state.value}"

    def describe(self) -> TopologyDescription:
        """The topology's description."""
        return self._topology.describe()

    def samples(self) -> Iterable[Sample]:
        """Everything that is measured."""
        return view.samples(self._config, self._state.state, self._figures, self._lags(), self._dispatcher.moves)

    def _lags(self) -> dict[TaskId, int]:
        return {} if self._batches is None else self._batches.lags()

    def _owners(self) -> dict[TaskId, str]:
        lanes = self._dispatcher.lanes
        if self._batches is None:
            return {}
        lane_of = self._batches.planner.lane_of
        return {task_id: lanes[number] for task_id, number in lane_of.items() if number in lanes}


def observed(frame: DataFrame) -> DataFrame:
    """Spark shows these with each batch: what was done in it, and how much state and lag there is after it."""
    fields = ("records", "outputs", "state_rows", "state_bytes", "lag")
    done = sql.from_json("report", ", ".join(f"{name} bigint" for name in fields))
    totals = {"records": sql.sum, "outputs": sql.sum, "state_rows": sql.max, "state_bytes": sql.max, "lag": sql.min}
    return frame.observe("streamsapp", *(total(done[name]).alias(name) for name, total in totals.items()))
