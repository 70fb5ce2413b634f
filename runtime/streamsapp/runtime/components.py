"""The modules and threads of one started instance, put together.

Made by :class:`~streamsapp.runtime.instance.StreamsRuntime` when it starts, on the application's thread. Per instance
there is one main consumer, one restore consumer, one producer, one admin client and one membership (the
Kafka Streams threading proposal).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.deadline import ClosingTime
from streamsapp.kafka.cluster import Cluster
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.kafka.wakeup import Wakeup
from streamsapp.membership.member import GroupMember
from streamsapp.membership.member_id import MemberId
from streamsapp.record import TaskId
from streamsapp.runtime.alignment_watch import PERIOD, AlignmentWatch
from streamsapp.runtime.application_topics import ApplicationTopics
from streamsapp.runtime.changelog_retention import ChangelogRetention
from streamsapp.runtime.changelog_watch import ChangelogWatch
from streamsapp.runtime.client_state import ClientState, StateHolder
from streamsapp.runtime.commit import CommitSchedule
from streamsapp.runtime.extensions import Extensions
from streamsapp.runtime.group_follower import GroupFollower
from streamsapp.runtime.hang_detection import HangDetector
from streamsapp.runtime.history_recorder import HistoryRecorder
from streamsapp.runtime.housekeeping import (
    CHANGELOGS_PERIOD,
    CLEANUP_PERIOD,
    METRICS_PERIOD,
    RETENTION_PERIOD,
    Cleanup,
    PeriodicThread,
    StoreStatistics,
    TopicWatch,
)
from streamsapp.runtime.input_feeder import InputFeeder, InputPolling
from streamsapp.runtime.instance_context import InstanceContext
from streamsapp.runtime.instance_tasks import InstanceTasks
from streamsapp.runtime.layouts import topics_period
from streamsapp.runtime.lifecycle import Lifecycle
from streamsapp.runtime.output import Output
from streamsapp.runtime.paused_ends import PausedEnds
from streamsapp.runtime.polling import PollingThread
from streamsapp.runtime.process_settings import CYCLIC_GC, SWITCHING
from streamsapp.runtime.processing import ProcessingThread
from streamsapp.runtime.processing_threads import ProcessingThreads
from streamsapp.runtime.record_ages import RecordAges
from streamsapp.runtime.recovery import Recovery
from streamsapp.runtime.restoration import RestorationThread
from streamsapp.runtime.set_aside import SetAside
from streamsapp.runtime.start_positions import StartPositions
from streamsapp.runtime.state_components import StateComponents
from streamsapp.runtime.streams_producer import StreamsProducer
from streamsapp.runtime.thread_failure import Failures, ThreadFailure
from streamsapp.runtime.uncaught_exceptions import UncaughtExceptions
from streamsapp.runtime.user_requests import UserRequests
from streamsapp.runtime.wall_clock_work import WallClockWork
from streamsapp.tasks.alignment import TimeAlignment
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.topology.builder import Topology
from streamsapp.topology.time_alignment import time_groups
from streamsapp.web.history import MomentHistory

log = logging.getLogger(__name__)

#: Memory of a record that waits to be sent, roughly; it turns the byte budget into a number of records.
_OUTPUT_RECORD_BYTES = 512
#: Results that may wait for the next transaction.
_TRANSACTION_RECORDS = 50_000
#: Fewer results do not wake the polling thread while more are on their way, nor at all if no consumer can read them
#: before the commit: records that arrive, or the commit, wake it soon enough. A small part of the results that may
#: wait.
_RESULTS_BATCH = 500
#: How long the threads may take to end after everything was closed, in seconds.
_JOIN = 10.0


class Components:
    """Everything a started instance consists of; attributes are read by ``status``."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        clock: Clock,
        state: StateHolder,
        extensions: Extensions,
        clients: ExitStack,
        history: MomentHistory,
    ) -> None:
        """``clients`` learns how to close each client that is made, for an instance that is not started then. The
        figures of the instance are recorded in ``history``."""
        self.state = state
        closing = ClosingTime(clock)
        admin = TopicAdmin(client_properties.admin(config), closing.remote)
        clients.callback(admin.close)
        wakeup = Wakeup()
        failures = Failures(wakeup.notify)
        self._context = context = InstanceContext(config, clock, extensions, admin, closing, failures, clients)
        self.stores = StateComponents(
            topology, context, lambda: clock.monotonic() < self.membership.safe_until, wakeup.notify
        )
        self.membership = GroupMember(
            config,
            clock,
            extensions.assignor,
            partial(MemberId, self.stores.locked_directory, extensions.member_listener),
            closing,
            wakeup.notify,
            lambda: self.feeder.seldom,
        )
        collector = RecordCollector(
            _output_capacity(config), wakeup.notify, _RESULTS_BATCH, prompt=not config.exactly_once
        )
        self.tasks = TaskManager(extensions.scheduler, closing.end, wakeup.notify)
        self.feeder = self._feeder(config, clock, wakeup)
        producer = StreamsProducer(config, self.membership, collector, clock, closing, self.feeder.confirm)
        clients.callback(producer.close)
        self.owned = self._owned_tasks(config, clock)
        producer.know_tasks(lambda: list(self.owned.active))
        groups = time_groups(topology.sub_topologies(), config.max_stream_time_skew_ms)
        self.owned.alignment = TimeAlignment.of(groups, clock, self.tasks.mark_ready)
        limit = config.max_poll_interval_ms / 1000
        set_aside = SetAside(self.tasks, clock, wakeup.notify)
        self.hangs = HangDetector(self.tasks, context.failures, limit, set_aside)
        self.life = self._lifecycle(topology, producer, collector)
        self.processing = ProcessingThreads(
            lambda number: ProcessingThread(
                f"{config.client_id}-processing-{number}", self.tasks, collector, context.failures, clock
            ),
            config.threads,
            self.tasks,
        )
        self.requests = UserRequests(closing, clock, wakeup.notify)
        schedule = CommitSchedule(config.commit_interval_ms / 1000, clock, config.memory.uncommitted)
        self.output = Output(producer, self.tasks, collector, schedule, clock)
        self.polling = PollingThread(
            f"{config.client_id}-polling",
            self.life,
            InputPolling(self.feeder, self.tasks),
            self.output,
            WallClockWork(self.tasks, self.feeder, self.hangs, clock, self.processing.fill_up),
            self.requests,
            self.end,
        )
        self.statistics = StoreStatistics(
            lambda: {task_id: task.stores for task_id, task in list(self.owned.all.items())}
        )
        self.owned.alignment.watch = self._alignment_watch(schedule, wakeup)
        self.periodic = self._periodic_threads(HistoryRecorder(history, self, clock))

    def _feeder(self, config: StreamsConfig, clock: Clock, wakeup: Wakeup) -> InputFeeder:
        properties = client_properties.main_consumer(config)
        rest, held = client_properties.input_rest(config), client_properties.input_held(config)
        consumer = PartitionConsumer(properties, self._context.closing.remote, wakeup, rest, held, has_handler=True)
        self._context.clients.callback(consumer.close)
        return InputFeeder(
            consumer,
            StartPositions(consumer, clock),
            self.tasks,
            config.memory.input_buffers,
            on_state_lost=lambda task, error: self._context.failures.put(
                ThreadFailure(f"{config.client_id}-polling", error, task.id)
            ),
            tasks_idle=config.max_task_idle_ms > 0,
            clock=clock,
        )

    def _owned_tasks(self, config: StreamsConfig, clock: Clock) -> InstanceTasks:
        stores = self.stores
        global_stores = {} if stores.global_thread is None else stores.global_thread.stores
        return InstanceTasks(
            TaskAssembly(config, stores.resources, clock, global_stores, call_loop=self._context.call_loop.calls),
            stores.directory,
            self.feeder,
            self.tasks,
            stores.restoration,
            self._context.closing,
            None if stores.remote is None else stores.remote.snapshots,
        )

    def _lifecycle(self, topology: Topology, producer: StreamsProducer, collector: RecordCollector) -> Lifecycle:
        context, restoration, global_thread = self._context, self.stores.restoration, self.stores.global_thread
        config = context.config
        recovery = Recovery(
            self.owned,
            self.tasks,
            collector,
            producer,
            restoration,
            self.hangs.set_aside,
            exactly_once=config.exactly_once,
        )
        return Lifecycle(
            ApplicationTopics(topology, config, context.admin, context.clock),
            GroupFollower(self.membership, global_thread, config, context.clock, restoration.reading.lag),
            self.owned,
            producer,
            recovery,
            UncaughtExceptions(
                context.failures,
                lambda: context.extensions.uncaught_exception_handler,
                None if global_thread is None else global_thread.name,
            ),
            self.state,
        )

    def _alignment_watch(self, schedule: CommitSchedule, wakeup: Wakeup) -> AlignmentWatch | None:
        alignment, config = self.owned.alignment, self._context.config
        if not alignment.groups:
            return None
        # Where others are is asked many times a second: the last offsets that are committed, not those to come.
        cluster = Cluster({**client_properties.main_consumer(config), "isolation.level": "read_uncommitted"})
        self._context.clients.callback(cluster.close)

        def commit() -> None:
            schedule.bring_forward(0.0)
            wakeup.notify()

        def plans() -> Mapping[TaskId, TaskPlan]:
            return {} if self.life.layout is None else self.life.layout.plans

        return AlignmentWatch(
            alignment, cluster, plans, config, self._context.clock, paused=lambda: self.tasks.paused, commit=commit
        )

    def _periodic_threads(self, recorder: HistoryRecorder) -> list[PeriodicThread]:
        config, failures = self._context.config, self._context.failures
        limit = None if config.remote_state is None else config.remote_state.max_unused_bytes
        cleanup = Cleanup(self.stores.directory, lambda: list(self.owned.all), limit)
        topics = TopicWatch(self._context.admin, lambda: self.life.layouts)
        retention = ChangelogRetention(self._context.admin, self._context.clock)
        ages = RecordAges(self._context.admin, self._context.clock)
        ends = PausedEnds(self._context.admin, self.feeder.classes)

        def see_to_topics() -> None:
            retention.see_to(self.owned.active)
            ages.look(self.owned.active)
            ends.look()

        def measure() -> None:
            self.statistics.run()
            recorder.run()

        name = config.client_id
        changelogs = ChangelogWatch(self._context.admin, lambda: self.owned.active)
        watch = self.owned.alignment.watch
        aligning = [] if watch is None else [PeriodicThread(f"{name}-alignment", PERIOD, watch.run, failures)]
        return [
            *aligning,
            PeriodicThread(f"{name}-cleanup", CLEANUP_PERIOD, cleanup.run, failures),
            PeriodicThread(f"{name}-metrics", METRICS_PERIOD, measure, failures),
            PeriodicThread(f"{name}-topics", topics_period(config), topics.run, failures),
            PeriodicThread(f"{name}-changelogs", CHANGELOGS_PERIOD, changelogs.run, failures),
            PeriodicThread(f"{name}-retention", RETENTION_PERIOD, see_to_topics, failures),
        ]

    @property
    def threads(self) -> list[threading.Thread]:
        """All threads of the instance; last the polling thread, which stops the others when it ends."""
        return [*self.stores.threads, *self.processing, *self.periodic, self.polling]

    def start(self) -> None:
        """Start all threads."""
        CYCLIC_GC.change()
        if self._context.config.scheduling:
            SWITCHING.change()
        for thread in self.threads:
            thread.start()

    def end(self) -> None:
        """Called on the polling thread as its last act: stop the others, close the clients, say that it is over."""
        self.tasks.close()
        if self.stores.remote is not None:
            self.stores.remote.stop(self._context.closing.end)
        others: list[ProcessingThread | RestorationThread | PeriodicThread]
        others = [*self.processing, self.stores.restoration, *self.periodic]
        for thread in others:
            thread.stop()
        for thread in others:
            self._join(thread)
        if self._context.call_loop.is_alive():
            self._context.call_loop.stop()
            self._join(self._context.call_loop)
        # Last: processing threads may read global stores to their end.
        if self.stores.global_thread is not None:
            self.stores.global_thread.stop()
            self._join(self.stores.global_thread)
        self.feeder.close()
        if (watch := self.owned.alignment.watch) is not None:
            watch.close()
        if not any(thread.is_alive() for thread in self.threads if thread is not self.polling):
            self._context.admin.close()
        self.stores.release()
        CYCLIC_GC.restore()
        if self._context.config.scheduling:
            SWITCHING.restore()
        if self.life.error is None:
            self.state.to(ClientState.PENDING_SHUTDOWN)
            self.state.to(ClientState.NOT_RUNNING)
        else:
            self.state.to(ClientState.PENDING_ERROR)
            self.state.to(ClientState.ERROR)

    def _join(self, thread: threading.Thread) -> None:
        def ended(within: float) -> bool:
            thread.join(within)
            return not thread.is_alive()

        if not self._context.closing.end.wait(ended, _JOIN):
            log.error("%s does not end; it is left behind", thread.name)


def _output_capacity(config: StreamsConfig) -> int:
    """The number of results that may be buffered. Under exactly once the output of tasks waits for the commit ahead of
    it, and so do readers of the results: under full load this bound is what keeps commits short."""
    affordable = max(1000, config.memory.output_buffers // _OUTPUT_RECORD_BYTES)
    return min(affordable, _TRANSACTION_RECORDS) if config.exactly_once else affordable
