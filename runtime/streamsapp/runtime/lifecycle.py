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
from streamsapp.errors import (
    FencedError,
    ProcessorHangsError,
    StreamsError,
    TaskCorruptedError,
    TopicError,
    UserInputError,
)
from streamsapp.kafka.producer import AtLeastOnceProducer, ExactlyOnceProducer
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.membership.api import Assignment, Holdings, Membership, TaskInfo
from streamsapp.record import TopicPartition
from streamsapp.runtime.client_state import ClientState, StateHolder
from streamsapp.runtime.commit import Commit
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.layout import Layout, make_layout
from streamsapp.runtime.listeners import UncaughtExceptionHandler, UncaughtExceptionResponse
from streamsapp.runtime.production import ProductionFailures
from streamsapp.runtime.tasks_life import TasksLife
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.topology.builder import Topology

log = logging.getLogger(__name__)

#: How long to wait for the threads to let go of their tasks before reviving them, in seconds.
STANDSTILL = 30.0
#: Seconds between two rounds of deleting consumed records (``repartition.purge.interval.ms``).
PURGE_PERIOD = 30.0

#: No handler is asked: starting again would fail again, wait for a thread that never returns, or take over from who
#: took over from us.
_FINAL = (UserInputError, TopicError, FencedError, ProcessorHangsError)


class Lifecycle:
    """The modules of one instance, and what happens to them over time."""

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig,
        admin: TopicAdmin,
        membership: Membership,
        life: TasksLife,
        tasks: TaskManager,
        collector: RecordCollector,
        state: StateHolder,
        clock: Clock,
        handler: Callable[[], UncaughtExceptionHandler],
    ) -> None:
        self._topology = topology
        self._config = config
        self._admin = admin
        self._membership = membership
        self._life = life
        self._tasks = tasks
        self._collector = collector
        self._state = state
        self._clock = clock
        self._handler = handler
        self._production = ProductionFailures(config, collector, clock)
        self.producer = self._make_producer()
        self.layout: Layout | None = None
        #: What ended the instance, if anything did.
        self.error: BaseException | None = None
        self.ended = False
        self._next_purge = 0.0
        self._to_revive: list[StreamTask] = []
        self._all_to_revive = False
        self._corrupted: list[StreamTask] = []

    # ---- running -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Fence a predecessor, learn the topics, join."""
        self._state.to(ClientState.REBALANCING)
        self._admin.wait_for_broker(lambda: self._state.state.ending)
        if self._state.state.ending:
            return
        self.producer.start()
        self.layout = make_layout(self._topology, self._config, self._admin)
        self._membership.start(
            {
                task_id: TaskInfo(frozenset(plan.inputs), stateful=bool(plan.changelogs or plan.source_changelogs))
                for task_id, plan in self.layout.plans.items()
            },
            Holdings,
        )

    def advance(self, committing: bool) -> None:
        """Follow the assignment; run what is restored; revive what failed once no commit is under way.

        A commit under way still needs the frozen writes of the tasks that failed after they ended their epoch.
        """
        assignment = self._membership.poll()
        if isinstance(assignment, Assignment):
            assert self.layout is not None
            self._state.to(ClientState.REBALANCING)
            self._life.assign(self.layout, assignment.active)
        if not committing:
            self._revive()
        self._life.take_restored()
        if self._state.state is ClientState.REBALANCING and self._life.all and self._life.all_running:
            self._state.to(ClientState.RUNNING)

    # ---- committing --------------------------------------------------------------------------------------------

    @property
    def may_commit(self) -> bool:
        """Not while a failed task's output may be in the open transaction."""
        return not self._all_to_revive

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
        consumed = {each: at for task in self._life.all.values() for each, at in task.committed_offsets.items()}
        self._admin.delete_records(
            {each: at for each, at in consumed.items() if each.topic in self.layout.repartition_topics}
        )

    def abort(self, error: Exception) -> None:
        """The transaction is lost: all tasks go on from the last commit, with a new producer."""
        log.warning("%s; all tasks go on from the last commit", error)
        self._all_to_revive = True

    # ---- failing -----------------------------------------------------------------------------------------------

    def failed(self, failure: ThreadFailure) -> None:
        """Ask the uncaught exception handler about an exception, and do what it says."""
        if self.ended:
            log.error("%s failed too: %s", failure.thread, failure.error)
            return
        task = None if failure.task_id is None else self._life.all.get(failure.task_id)
        if isinstance(failure.error, TaskCorruptedError) and task is not None:
            log.warning("task %s: %s; its local state is wiped and restored", task.id, failure.error)
            self._corrupted.append(task)
            # What it sent since the last commit is in the open transaction.
            in_transaction = self._config.exactly_once and task.state is TaskState.RUNNING
            self._all_to_revive = self._all_to_revive or in_transaction
            return
        if self._ask(failure) is not UncaughtExceptionResponse.REPLACE_THREAD:
            self._end(failure.error)
            return
        if task is None:
            log.error("all tasks start again from the last commit", exc_info=failure.error)
            self._all_to_revive = True
            return
        log.error("task %s failed and starts again from the last commit", task.id, exc_info=failure.error)
        self._to_revive.append(task)
        # A failed task takes the transaction with it.
        self._all_to_revive = self._all_to_revive or self._config.exactly_once

    def _ask(self, failure: ThreadFailure) -> UncaughtExceptionResponse:
        error = failure.error
        if isinstance(error, _FINAL) or not isinstance(error, Exception):
            log.error("%s failed: %s", failure.thread, error)
            return UncaughtExceptionResponse.SHUTDOWN_CLIENT
        try:
            return self._handler()(error)
        except Exception:
            log.exception("the uncaught exception handler raised; the instance shuts down")
            return UncaughtExceptionResponse.SHUTDOWN_CLIENT

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
        self.producer = self._make_producer()
        self.producer.start()
        self._life.revive(list(self._life.all.values()))
        self._to_revive, self._all_to_revive = [], False
        self._tasks.go_on()

    # ---- ending ------------------------------------------------------------------------------------------------

    def out_of_range(self, partitions: Iterable[TopicPartition]) -> None:
        """The broker no longer has what a task was to read next."""
        self._life.out_of_range(partitions)

    def close(self, error: BaseException | None) -> None:
        """Close the tasks and leave; the caller has committed what could be committed."""
        if error is not None:
            # A message that names topic and remedy says it all; where our own code noticed it is of no use to anybody.
            told = isinstance(error, (UserInputError, TopicError))
            log.error("%s ends: %s", self._config.application_id, error, exc_info=None if told else error)
            self._end(error)
        try:
            self._life.close(list(self._life.all.values()))
        except Exception as failure:
            log.exception("closing tasks failed")
            self.error = self.error or failure
        self.producer.close()
        self._membership.leave()

    def _make_producer(self) -> AtLeastOnceProducer | ExactlyOnceProducer:
        on_failure = self._production.failed
        if not self._config.exactly_once:
            return AtLeastOnceProducer(client_properties.producer(self._config), on_failure)
        transactional_id = self._membership.transactional_id
        return ExactlyOnceProducer(client_properties.producer(self._config, transactional_id), on_failure, self._clock)
