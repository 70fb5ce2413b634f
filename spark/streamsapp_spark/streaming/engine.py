"""The driver of ``engine: spark``: one Structured Streaming query, from start to end, and how it is seen from outside.

Made and run by the command line on its main thread; looked at on the threads of the HTTP server. ``service`` answers
the questions of Spark and its workers. The driver may end at any moment: the next one fences any process that is left,
and goes on where the group stands.
"""

from __future__ import annotations

import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ImmediateExit, ManifestError, StreamsAppError, StreamsError
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.manifest.model import SparkSpec
from streamsapp.metrics.samples import Sample
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.application_topics import ApplicationTopics
from streamsapp.runtime.client_state import ClientState, StateHolder
from streamsapp.runtime.layouts import Layouts, topics_period
from streamsapp.runtime.micro_batches.batches import MicroBatches
from streamsapp.runtime.micro_batches.lanes import DriverClaim
from streamsapp.runtime.micro_batches.planning import MicroBatchPlanner, MicroBatchSize
from streamsapp.topology.builder import Topology
from streamsapp.topology.description import TopologyDescription
from streamsapp.topology.time_flow import refuse_idle_after
from streamsapp_spark.programs.shipped import ShippedProgram
from streamsapp_spark.session.driver_port import driver_host
from streamsapp_spark.session.java_process import reason
from streamsapp_spark.session.private_folder import private_folder
from streamsapp_spark.session.query_progress import last_progress
from streamsapp_spark.sinks.queries import SinkQueries
from streamsapp_spark.streaming import view
from streamsapp_spark.streaming.channel import Server
from streamsapp_spark.streaming.executors import Executors
from streamsapp_spark.streaming.job import FIGURES, EngineJob
from streamsapp_spark.streaming.memory import ExecutorMemory
from streamsapp_spark.streaming.service import MicroBatchService
from streamsapp_spark.streaming.source import NAME, source_of

log = logging.getLogger(__name__)

#: The time that instances have to leave the group before the driver refuses to start beside them: their session, and
#: this many seconds.
_LEAVE = 5.0
#: The time between two looks at the query, and at what Spark reports of its last batch, in seconds.
_LOOK, _PROGRESS = 0.1, 1.0


class SparkEngine:
    """One driver."""

    def __init__(self, program: ShippedProgram, topology: Topology, config: StreamsConfig, setting: SparkSpec) -> None:
        """Takes in ``program`` topology and configuration as workers make them again."""
        refuse_idle_after(
            topology.sub_topologies(),
            "engine: spark",
            "let pods run the application (engine: threads), or leave idle_after out",
        )
        self._program = program
        self._setting = setting
        self._topology = topology
        self._config = config
        self._clock = SystemClock()
        self._state = StateHolder()
        self._figures = view.Figures()
        self._layout: ApplicationLayout | None = None
        self._service: MicroBatchService | None = None
        self._closing = threading.Event()
        self._over = threading.Event()

    # ---- life --------------------------------------------------------------------------------------------------

    def run(self, sessions: AbstractContextManager[SparkSession]) -> int:
        """Run in the session that the context gives until it is closed, or has caught up; returns the exit code. Raises
        what ended it otherwise."""
        try:
            self._state.to(ClientState.REBALANCING)
            admin = TopicAdmin(client_properties.admin(self._config))
            topics = ApplicationTopics(self._topology, self._config, admin, self._clock)
            topics.wait_for_broker(self._closing.is_set)
            self._refuse_running()
            self._layout = topics.look_up()
            layouts = Layouts(self._topology, self._config, self._layout)
            with closing(DriverClaim(self._config)) as claim:
                claim.take()
                with sessions as spark:
                    if (pages := spark.sparkContext.uiWebUrl) is not None:
                        log.info("Spark's pages are on %s", pages)
                    self._run_with_sinks(spark, admin, layouts, claim)
        except BaseException:
            self._state.to(ClientState.PENDING_ERROR)
            self._state.to(ClientState.ERROR)
            raise
        finally:
            self._over.set()
        self._state.to(ClientState.PENDING_SHUTDOWN)
        self._state.to(ClientState.NOT_RUNNING)
        return 0

    def when_running(self, call: Callable[[], None]) -> None:
        """``call`` is called when a first lane has committed, on a thread of the channel."""
        self._state.listener = lambda state, _: call() if state is ClientState.RUNNING else None

    def close(self) -> None:
        """End after the batch under way, and give the tasks up in good order. Any thread."""
        self._closing.set()
        if self._service is not None:
            self._service.closing.set()
        self._over.wait()

    def _refuse_running(self) -> None:
        """Instances that were just ended may be members for as long as their session lasts."""
        group = GroupAdmin(self._config)
        until = self._clock.monotonic() + self._config.session_timeout_ms / 1000 + _LEAVE
        while (activity := group.activity()) is not None:
            if self._clock.monotonic() > until:
                told = f"instances of {self._config.application_id} are running: {activity}"
                raise ManifestError(
                    [f"{told}; stop them before the driver starts: only one engine at a time may commit"]
                )
            log.info("waiting until instances have left: %s", activity)
            self._closing.wait(_LOOK)

    def _run_with_sinks(self, spark: SparkSession, admin: TopicAdmin, layouts: Layouts, claim: DriverClaim) -> None:
        """Run queries until there is nothing left to do. Raises what ended one of them otherwise."""
        sinks = SinkQueries(spark, self._program, self._topology, self._config)
        sinks.open(self._setting.sinks)
        try:
            if not self._setting.catches_up:
                sinks.start()
            while self._run(spark, admin, layouts, claim, sinks) and sinks.failure is None:
                log.info("the query starts again with the topics that exist now")
            if self._setting.catches_up:
                sinks.catch_up(self._closing.is_set)
            if (failure := sinks.failure) is not None:
                raise failure
        except ImmediateExit:
            raise  # as for the application's own query
        except BaseException:
            sinks.stop()
            raise
        sinks.stop()

    def _run(
        self, spark: SparkSession, admin: TopicAdmin, layouts: Layouts, claim: DriverClaim, sinks: SinkQueries
    ) -> bool:
        """Run the query until it ends; returns whether another is to go on, with other topics. That one sees to the
        last snapshots, also if the driver was asked to end meanwhile."""
        self._layout = layout = layouts.following(layouts.found().matched)
        setting = self._setting
        # Tables are written while batches go on, so they have a core of their own where there is more than one.
        executors = Executors(spark.sparkContext, kept=1 if setting.sinks and not setting.catches_up else 0)
        cores = executors.wait(self._closing.is_set)
        inputs = {task_id: plan.inputs.keys() for task_id, plan in layout.plans.items()}
        size = MicroBatchSize(setting.max_records_per_batch, setting.trigger_ms / 1000)
        lanes = max(1, min(cores, len(inputs)))
        planner = MicroBatchPlanner(inputs, lanes, size, opens=setting.reads_on)
        batches = MicroBatches(layout, self._config, admin, self._clock, planner, catches_up=setting.catches_up)
        service = MicroBatchService(
            batches,
            size,
            executors.cores,
            self._figures,
            self._clock,
            claim,
            lambda: self._state.to(ClientState.RUNNING),
        )
        self._service = service
        if self._closing.is_set():
            service.closing.set()
        server = Server(driver_host(spark), service.serve)
        with tempfile.TemporaryDirectory(prefix="query-", dir=private_folder()) as checkpoint:
            try:
                memory = ExecutorMemory.of(spark.sparkContext)
                job = EngineJob.of(self._config.application_id, self._program, layout.existing, server.address, memory)
                topics = _TopicsOfBatches(self._config, admin, layouts, layout)
                self._watch(self._start(spark, job, checkpoint), service, topics, executors, sinks)
                return topics.changed
            finally:
                server.close()

    def _start(self, spark: SparkSession, job: EngineJob, checkpoint: str) -> StreamingQuery:
        spark.dataSource.register(source_of(job))
        frame = observed(spark.readStream.format(NAME).load())
        writer = frame.writeStream.format("noop").queryName(self._config.application_id)
        # No program reads the checkpoint: it is written now and then, and not in the middle of a batch.
        writer = writer.options(
            checkpointLocation=checkpoint,
            asyncProgressTrackingEnabled=True,
            asyncProgressTrackingCheckpointIntervalMs=60_000,
        )
        return writer.trigger(processingTime=f"{self._setting.trigger_ms} milliseconds").start()

    def _watch(
        self,
        query: StreamingQuery,
        service: MicroBatchService,
        topics: _TopicsOfBatches,
        executors: Executors,
        sinks: SinkQueries,
    ) -> None:
        """Return when there is nothing left to do, or other topics match the patterns; raise what ended the query
        otherwise."""
        look_at = 0.0
        try:
            while query.isActive and service.failure is None and not service.ends(goes_on=topics.changed):
                time.sleep(_LOOK)
                if time.monotonic() >= look_at:
                    self._figures.progress, self._figures.sinks = last_progress(query), sinks.look()
                    service.has_cores(executors.cores)
                    look_at = time.monotonic() + _PROGRESS
                    if sinks.failure is not None:
                        service.closing.set()
                # One that catches up ends by itself; the next one looks for topics when it starts.
                if not self._setting.catches_up and topics.look():
                    service.closing.set()
            ended_first = service.failure is None and not query.isActive
            failure = (
                self._failure_of(query, service, executors, goes_on=topics.changed) if ended_first else service.failure
            )
        except ImmediateExit:
            raise  # its time is over, and Spark waits for the batch under way, however long that takes
        except BaseException:
            query.stop()  # also after Ctrl-C: the session of a Python program goes on
            raise
        query.stop()
        if failure is not None:
            raise failure

    @staticmethod
    def _failure_of(
        query: StreamingQuery, service: MicroBatchService, executors: Executors, *, goes_on: bool
    ) -> StreamsAppError | None:
        """The end of a query that ended first. Last snapshots are left to the next query of this run if it
        ``goes_on``."""
        error = query.exception()
        log.debug("the query ended", exc_info=error)
        why = "something else stopped it" if error is None else reason(error)
        if not service.closing.is_set():
            return executors.other_versions() or StreamsError(f"the query failed: {why}")
        log.warning("the query ended first: %s; the next one processes what it has not committed", why)
        try:
            if not goes_on:
                service.check_snapshots()
        except StreamsError as unwritten:
            return unwritten
        return None

    # ---- looking at it -----------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """The document of ``/status``."""
        return view.document(self._config, self._state.state, self._layout, self._figures, self._service, self._clock)

    def healthy(self) -> tuple[bool, str]:
        """Tell whether the query lives, and the batch under way goes on."""
        state, silent = self._state.state, 0.0 if self._service is None else self._service.stuck_seconds
        if state in (ClientState.ERROR, ClientState.PENDING_ERROR):
            return False, f"state is {state.value}"
        if silent > self._config.max_poll_interval_ms / 1000:
            return False, f"a batch has been under way for {silent:.0f} s"
        return True, f"state is {state.value}"

    def ready(self) -> tuple[bool, str]:
        """Tell whether a batch has been committed since the start, and the driver does not end."""
        good = self._state.state is ClientState.RUNNING and not self._closing.is_set()
        return good, f"state is {self._state.state.value}"

    def describe(self) -> TopologyDescription:
        """The topology's description."""
        return self._topology.describe()

    def samples(self) -> Iterable[Sample]:
        """Everything that is measured."""
        return view.samples(self._config, self._state.state, self._figures, self._service)


class _TopicsOfBatches:
    """Looks now and then whether other topics match the patterns than the ones that a query reads."""

    def __init__(self, config: StreamsConfig, admin: TopicAdmin, layouts: Layouts, read: ApplicationLayout) -> None:
        self._period = topics_period(config)
        self._admin = admin
        self._layouts = layouts
        self._read = read
        self._look_at = time.monotonic() + self._period
        self.changed = False

    def look(self) -> bool:
        """Return whether topics have come or gone. Raises ``TopicError`` for topics that cannot be read."""
        if not self.changed and self._read.matched and time.monotonic() >= self._look_at:
            self._layouts.look(self._admin)
            self._look_at = time.monotonic() + self._period
            self.changed = self._layouts.found().matched != self._read.matched
        return self.changed


def observed(frame: DataFrame) -> DataFrame:
    """Spark shows these with each batch: what was done in it, and how much state and lag there is after it."""
    figures = {name: sql.col("report")[at] for at, name in enumerate(FIGURES)}
    number = figures.pop("report")
    over_all = {"records": sql.sum, "outputs": sql.sum, "commit_ms": sql.max}
    # A row stands for a record, and few have a report. Java is slow at adding up until it has compiled that well.
    return frame.where("report is not null").observe(
        "streamsapp",
        *(
            (over_all[name](of) if name in over_all else sql.max_by(of, number)).alias(name)
            for name, of in figures.items()
        ),
    )
