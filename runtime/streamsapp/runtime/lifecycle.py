"""From start to end of an instance: joins, follows its assignment, commits, recovers from failures, closes.

The polling thread's side of the runtime: everything here runs on it. What ends the instance is decided in one place,
by the answer of the uncaught exception handler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.deadline import ClosingTime
from streamsapp.errors import (
    FencedError,
    ProcessorHangsError,
    StreamsError,
    TaskCorruptedError,
    TopicError,
    UserInputError,
)
from streamsapp.kafka.producer import AbortableError, AtLeastOnceProducer, DeliveryTimeoutError, ExactlyOnceProducer
from streamsapp.kafka.requests import NoAnswerError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.membership.api import Assignment, Holdings, Lost, Membership, ShutdownRequested
from streamsapp.record import TopicPartition
from streamsapp.remote.object_store import UnfitObjectStoreError
from streamsapp.remote.snapshot_writer import SnapshotFencedError
from streamsapp.runtime.client_state import ClientState, StateHolder
from streamsapp.runtime.commit import Commit
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.global_.thread import GlobalThread
from streamsapp.runtime.layout import Layout, make_layout
from streamsapp.runtime.listeners import UncaughtExceptionHandler, UncaughtExceptionResponse
from streamsapp.runtime.production import ProductionFailures
from streamsapp.runtime.readiness import Readiness
from streamsapp.runtime.rebalance import assigned_roles
from streamsapp.runtime.restoration import RestorationThread
from streamsapp.runtime.tasks_life import TasksLife
from streamsapp.runtime.warmups import Warmups
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.topology.builder import Topology

log = logging.getLogger(__name__)

#: How long to wait for the threads to let go of their tasks before reviving them, in seconds.
STANDSTILL = 30.0
#: How long the broker may take to abort the last transaction, in seconds.
ABORT = 15.0
#: Seconds between two rounds of deleting consumed records (``repartition.purge.interval.ms``).
PURGE_PERIOD = 30.0

#: Under at least once nobody fences a producer: what it could not send before the group gave its tasks to others must
#: not be sent at all. This much less than the session time-out, in seconds.
DELIVERY_MARGIN = 1.0

#: No handler is asked: starting again would fail again, wait for a thread that never returns, or take over from who
#: took over from us.
_FINAL = (UserInputError, TopicError, FencedError, ProcessorHangsError, UnfitObjectStoreError)


class Lifecycle:
    """The modules of one instance, and what happens to them over time."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        admin: TopicAdmin,
        membership: Membership,
        life: TasksLife,
        restoration: RestorationThread,
        global_thread: GlobalThread | None,
        tasks: TaskManager,
        collector: RecordCollector,
        state: StateHolder,
        clock: Clock,
        closing: ClosingTime,
        handler: Callable[[], UncaughtExceptionHandler],
    ) -> None:
        self._topology = topology
        self._config = config
        self._admin = admin
        self._membership = membership
        self._life = life
        self._restoration = restoration
        self._global = global_thread
        self._tasks = tasks
        self._collector = collector
        self._state = state
        self._clock = clock
        self._closing = closing
        self._handler = handler
        self._production = ProductionFailures(config, collector, clock)
        self._delivery_timeout = config.session_timeout_ms / 1000 - DELIVERY_MARGIN
        self.producer = self._make_producer(reports=False)
        self.layout: Layout | None = None
        #: What ended the instance, if anything did.
        self.error: BaseException | None = None
        self.ended = False
        #: The last assignment; ``None`` before the first, and while the group goes on without this instance.
        self.assignment: Assignment | None = None
        self.readiness = Readiness(restoration.lag, config.acceptable_recovery_lag, clock)
        self._waits_for_global_stores = False
        self._warmups = Warmups(restoration.lag, config.acceptable_recovery_lag, clock)
        self._drain_wanted = False
        self._safe = False
        self._disowned = False
        self._next_purge = 0.0
        self._to_revive: list[StreamTask] = []
        self._all_to_revive = False
        self._corrupted: list[StreamTask] = []

    # ---- running -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Learn the topics; join, or have the global stores restored first."""
        self._state.to(ClientState.REBALANCING)
        self._admin.wait_for_broker(lambda: self._state.state.ending)
        if self._state.state.ending:
            return
        self.producer.start()
        self.layout = make_layout(self._topology, self._config, self._admin)
        self._production.dead_letters = self.layout.dead_letters
        if self._global is None:
            self._membership.start(self.layout.task_infos, self._holdings)
        else:
            self._waits_for_global_stores = True
            self._global.begin()

    def advance(self, committing: bool) -> None:
        """Follow the group, run what is restored; once no commit is under way, revive what failed, give up what rests.

        A commit under way still needs the frozen writes of the tasks that failed after they ended their epoch.
        """
        if self._waits_for_global_stores and not self._global_stores_complete():
            return
        self._look_at_the_clock()
        self._take_news()
        if not committing:
            self._revive()
            if self._life.giving_up and self._tasks.at_rest(self._life.giving_up):
                self._life.give_up()
                self._membership.rejoin()
        self._life.take_restored()
        if self._state.state is ClientState.REBALANCING:
            self._tell_state()
        self.readiness.look(self._life.all)
        self._follow_warmups()

    def _global_stores_complete(self) -> bool:
        """Tasks read global stores from their first record on: only then is the group joined."""
        if self.layout is None or self._global is None or not self._global.restored.is_set():
            return False
        self._waits_for_global_stores = False
        self._membership.start(self.layout.task_infos, self._holdings)
        if self._drain_wanted:
            self._membership.drain()
        return True

    def take_leave(self) -> None:
        """Before the last commit: what the group assigns now is not taken on, but heard, or no commit may begin."""
        self._take_news(leaving=True)

    def _take_news(self, *, leaving: bool = False) -> None:
        try:
            news = self._membership.poll()
        except StreamsError as error:
            self._end(error)
            return
        if isinstance(news, Assignment):
            assert self.layout is not None
            self.assignment = news
            if not leaving:
                roles = assigned_roles(news)
                self._life.assign(self.layout, roles)
                self.readiness.assigned(roles.keys())
                self._tell_state()
        elif isinstance(news, Lost):
            self.assignment = None
            self.readiness.lost()
            raise FencedError(f"this instance is no longer in the group: {news.reason}")
        elif isinstance(news, ShutdownRequested):
            self._end(StreamsError("another instance asked the whole application to shut down; its log says why"))

    def _tell_state(self) -> None:
        joined = self.assignment is not None
        self._state.to(ClientState.RUNNING if joined and self._life.all_running else ClientState.REBALANCING)

    def _holdings(self) -> Holdings:
        """Called on the membership's thread."""
        tasks = list(self._life.all.values())
        return Holdings(
            generation=-1 if self.assignment is None else self.assignment.generation,
            active=frozenset(task.id for task in tasks if task.role is TaskRole.ACTIVE),
            lags={task.id: self._restoration.lag(task) for task in tasks if task.role is not TaskRole.ACTIVE},
            on_disk=self._life.on_disk() - {task.id for task in tasks},
        )

    def _follow_warmups(self) -> None:
        """A warm-up replica that has caught up is reason to assign anew."""
        wanted = frozenset() if self.assignment is None else self.assignment.warmup
        if wanted and self._warmups.caught_up(self._life.all[each] for each in wanted & self._life.all.keys()):
            self._membership.rejoin()

    # ---- the right to write ------------------------------------------------------------------------------------

    @property
    def may_write(self) -> bool:
        """Whether nobody can have taken over. Under exactly once the broker decides that: it fences producers."""
        return self._config.exactly_once or self._clock.monotonic() < self._membership.safe_until

    def _look_at_the_clock(self) -> None:
        """A process that stood still, or lost the coordinator for too long, must not send what it has left: its tasks
        may run elsewhere by now."""
        safe, before = self.may_write, self._safe
        self._safe = safe
        if before and not safe:
            raise AbortableError("no sign of life from the group's coordinator: other instances may have taken over")

    # ---- pausing, draining -------------------------------------------------------------------------------------

    def pause(self, *, paused: bool) -> None:
        """Stop or resume processing and replicas; commits go on."""
        self._restoration.paused = paused
        (self._tasks.pause if paused else self._tasks.resume)()

    def drain(self) -> None:
        """Ask the others to take over; those that have no replica begin with a snapshot."""
        self._drain_wanted = True
        self._life.ask_for_snapshots()
        self._membership.drain()

    @property
    def drained(self) -> bool:
        """Whether the others have everything that anybody can take."""
        if self.assignment is None or self.layout is None or not self._drain_wanted:
            return False
        others = [peer for peer in self.assignment.peers.values() if not peer.draining]
        wanted = self.layout.plans.keys() - self.assignment.held_back
        return not others or wanted <= set().union(*(peer.active for peer in others))

    # ---- committing --------------------------------------------------------------------------------------------

    @property
    def may_commit(self) -> bool:
        """Not while the group assigns anew."""
        return self.sound and self._membership.may_commit

    @property
    def sound(self) -> bool:
        """Not while a failed task's output may be in the open transaction, or others may have taken over."""
        return not self._all_to_revive and self.may_write

    @property
    def wants_commit(self) -> bool:
        """Somebody waits for tasks of this instance."""
        return bool(self._life.giving_up)

    def make_commit(self) -> Commit:
        """A commit of all tasks, to be advanced by the caller."""
        return Commit(
            self._tasks,
            self._collector,
            self.producer,
            self._membership,
            self._clock,
            self._config.max_poll_interval_ms / 1000,
        )

    def committed(self, now: float) -> None:
        """Let the broker drop what was consumed from repartition topics, now and then (``now``: monotonic seconds)."""
        if self.layout is None or not self.layout.repartition_topics or now < self._next_purge:
            return
        self._next_purge = now + PURGE_PERIOD
        consumed = {each: at for task in self._life.active for each, at in task.committed_offsets.items()}
        self._admin.delete_records(
            {each: at for each, at in consumed.items() if each.topic in self.layout.repartition_topics}
        )

    def abort(self, error: Exception) -> None:
        """What was sent since the last commit is lost: all tasks go on from there, with a new producer; or stop, when
        other instances run them."""
        self._all_to_revive = True
        if isinstance(error, FencedError):
            log.warning("%s; its tasks stop without committing", error)
            self._disowned = True
            self._membership.rejoin()
            return
        log.warning("%s; all tasks go on from the last commit", error)
        if isinstance(error, DeliveryTimeoutError) and self._safe:
            self._delivery_timeout *= 2
            log.warning("records may now take %.0f s to be written", self._delivery_timeout)

    # ---- failing -----------------------------------------------------------------------------------------------

    def failed(self, failure: ThreadFailure) -> None:
        """Ask the uncaught exception handler about an exception, and do what it says."""
        if self.ended:
            log.error("%s failed too: %s", failure.thread, failure.error)
            return
        if isinstance(failure.error, NoAnswerError):
            log.info("%s: %s", failure.thread, failure.error)
            return
        task = None if failure.task_id is None else self._life.all.get(failure.task_id)
        if isinstance(failure.error, SnapshotFencedError):
            if task is not None and task.role is TaskRole.ACTIVE:
                raise failure.error  # ends like a commit that was fenced
            return
        if isinstance(failure.error, TaskCorruptedError) and task is not None:
            self._restoration.damaged(task, failure.error)
            self._corrupted.append(task)
            # What it sent since the last commit is in the open transaction.
            in_transaction = self._config.exactly_once and task.initialized
            self._all_to_revive = self._all_to_revive or in_transaction
            return
        response = self._ask(failure)
        if response is UncaughtExceptionResponse.SHUTDOWN_APPLICATION:
            self._membership.request_shutdown()
        if response is not UncaughtExceptionResponse.REPLACE_THREAD:
            self._end(failure.error)
            return
        if task is None:
            log.error("all tasks start again from the last commit", exc_info=failure.error)
            self._all_to_revive = True
            return
        log.error("task %s failed and starts again from the last commit", task.id, exc_info=failure.error)
        self._to_revive.append(task)
        # A failed task takes the transaction with it; a replica has no part in it.
        self._all_to_revive = self._all_to_revive or (self._config.exactly_once and task.role is TaskRole.ACTIVE)

    def _ask(self, failure: ThreadFailure) -> UncaughtExceptionResponse:
        error = failure.error
        if isinstance(error, _FINAL) or not isinstance(error, Exception):
            log.error("%s failed: %s", failure.thread, error)
            return UncaughtExceptionResponse.SHUTDOWN_CLIENT
        try:
            response = self._handler()(error)
        except Exception:
            log.exception("the uncaught exception handler raised; the instance shuts down")
            return UncaughtExceptionResponse.SHUTDOWN_CLIENT
        of_global_thread = self._global is not None and failure.thread == self._global.name
        if response is UncaughtExceptionResponse.REPLACE_THREAD and of_global_thread:
            log.warning("the global thread cannot be replaced; the instance shuts down")
            return UncaughtExceptionResponse.SHUTDOWN_CLIENT
        return response

    def _end(self, error: BaseException) -> None:
        self.error = self.error or error
        self.ended = True
        self._state.to(ClientState.PENDING_ERROR)

    def _revive(self) -> None:
        corrupted, self._corrupted = self._corrupted, []
        self._life.revive(corrupted, wipe=True)
        if self._all_to_revive:
            self._revive_all()
        elif self._to_revive:
            tasks, self._to_revive = self._to_revive, []
            self._life.revive(tasks)

    def _revive_all(self) -> None:
        """Under exactly once a failed task takes the transaction with it, and with it everybody's work since the last
        commit. The producer is replaced: after some errors the old one cannot tell what became of its transaction."""
        if not self._tasks.stand_still(STANDSTILL):
            raise StreamsError("tasks did not stop to be revived; a processor hangs")
        self.producer.close()
        self._collector.reset(self._tasks.abandon_commit())
        disowned, self._disowned = self._disowned, False
        if disowned:  # before the producer is started, which may take long: they run elsewhere
            self._life.close(self._life.active)
        self.producer = self._make_producer(reports=True)
        self.producer.start()
        if not disowned:
            self._life.revive(self._life.active)
        self._to_revive, self._all_to_revive = [], False
        self._tasks.go_on()

    # ---- ending ------------------------------------------------------------------------------------------------

    def out_of_range(self, partitions: Iterable[TopicPartition]) -> None:
        """The broker no longer has what a task was to read next."""
        self._life.out_of_range(partitions)

    def close(self, error: BaseException | None, *, leave_group: bool) -> None:
        """Close the tasks and leave; the caller has committed what could be committed."""
        if error is not None:
            # A message that names topic and remedy says it all; where our own code noticed it is of no use to anybody.
            told = isinstance(error, (UserInputError, TopicError, UnfitObjectStoreError))
            log.error("%s ends: %s", self._config.application_id, error, exc_info=None if told else error)
            self._end(error)
        clean = self.error is None and not self._all_to_revive
        if clean:
            self._life.last_snapshots()
        try:
            self._life.close_all(clean=clean)
        except Exception as failure:
            log.exception("closing tasks failed")
            self.error = self.error or failure
        self.producer.abort(self._closing.end.left(ABORT, part=0.5))
        self.producer.close()
        self._membership.leave(stay=not leave_group)

    def _make_producer(self, *, reports: bool) -> AtLeastOnceProducer | ExactlyOnceProducer:
        """``reports``: under exactly once, whether the producer shall tell why a transaction is lost: one that replaces
        another does, so that a record which cannot be written is named when it comes again."""
        on_failure = self._production.failed
        if not self._config.exactly_once:
            properties = client_properties.producer(self._config, delivery_timeout=self._delivery_timeout)
            return AtLeastOnceProducer(properties, on_failure)
        transactional_id = self._membership.transactional_id
        properties = client_properties.producer(self._config, transactional_id)
        deadline = self._closing.remote
        return ExactlyOnceProducer(properties, on_failure, self._clock, reports=reports, deadline=deadline)
