"""The life of an instance: it joins, follows its assignment, commits, recovers from failures and closes.

The polling thread's side of the runtime: everything here runs on it. One place decides whether an error ends the
instance, by the answer of the uncaught exception handler.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from streamsapp.errors import FencedError, StreamsError, TaskCorruptedError, TopicError, UserInputError
from streamsapp.kafka.requests import NoAnswerError
from streamsapp.kafka.sending import DeliveryTimeoutError
from streamsapp.membership.api import Assignment, Lost, ShutdownRequested
from streamsapp.remote.object_store import UnfitObjectStoreError
from streamsapp.remote.snapshot_writer import SnapshotFencedError
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.application_topics import ApplicationTopics
from streamsapp.runtime.assignment_changes import assigned_roles
from streamsapp.runtime.client_state import ClientState, StateHolder
from streamsapp.runtime.group_follower import GroupFollower
from streamsapp.runtime.instance_tasks import InstanceTasks
from streamsapp.runtime.layouts import Layouts
from streamsapp.runtime.listeners import UncaughtExceptionResponse
from streamsapp.runtime.readiness import Readiness
from streamsapp.runtime.recovery import Recovery
from streamsapp.runtime.streams_producer import StreamsProducer
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.runtime.uncaught_exceptions import UncaughtExceptions, is_final
from streamsapp.tasks.states import TaskRole

log = logging.getLogger(__name__)


class Lifecycle:
    """The order in which things happen to an instance."""

    def __init__(
        self,
        topics: ApplicationTopics,
        group: GroupFollower,
        tasks: InstanceTasks,
        producer: StreamsProducer,
        recovery: Recovery,
        uncaught: UncaughtExceptions,
        state: StateHolder,
    ) -> None:
        self._topics = topics
        self._group = group
        self._tasks = tasks
        self._producer = producer
        self._recovery = recovery
        self._uncaught = uncaught
        self._state = state
        #: The tasks that this instance took over, and how long they stood still.
        self.hand_overs = group.hand_overs
        self.layout: ApplicationLayout | None = None
        #: From the start on; the topics' thread looks whether others match the patterns.
        self.layouts: Layouts | None = None
        #: The error that ended the instance, if one did.
        self.error: BaseException | None = None
        self.ended = False

    # ---- looked at by other threads ----------------------------------------------------------------------------

    @property
    def assignment(self) -> Assignment | None:
        """The last assignment; ``None`` before the first, and while the group goes on without this instance."""
        return self._group.assignment

    @property
    def readiness(self) -> Readiness:
        """The rule by which the instance has come back."""
        return self._group.readiness

    @property
    def outage(self) -> tuple[float, str] | None:
        """Since when (monotonic seconds) no broker answers, in order to start or as a member, and the last error."""
        return self._topics.outage or self._group.membership.outage

    @property
    def refused(self) -> bool:
        """True if there is an outage of a member's as either side refuses credentials or certificates."""
        return self._group.membership.refused

    # ---- running -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Learn the topics; join, or have the global stores restored first."""
        self._state.to(ClientState.REBALANCING)
        self._topics.wait_for_broker(lambda: self._state.state.ending)
        if self._state.state.ending:
            return
        self._producer.start()
        self.layout = self._topics.look_up()
        self._producer.know_dead_letters(self.layout.dead_letters)
        self.layouts = Layouts(self._topics.topology, self._topics.config, self.layout)
        self._group.join(self.layouts, self._tasks.holdings)

    def advance(self, committing: bool) -> bool:
        """Follow the group, run what is restored; once no commit is under way, revive what failed, give up what rests.
        Returns whether the group had news, as there may be more.

        A commit under way still needs the frozen writes of the tasks that failed after they ended their epoch. News are
        heard when tasks that others may have taken over are closed: one of them may be assigned here again.
        """
        if self._group.waits():
            return False
        self._group.check_session()
        if not committing:
            self._recovery.revive()
            if self._tasks.take_in_doubt():
                self._group.membership.rejoin(at_once=True)
        news = self._take_news()
        if not committing and self._tasks.giving_up and self._tasks.at_rest():
            self._give_up()
        self._tasks.take_restored()
        self.hand_overs.processed(self._tasks.all.values())
        if self._state.state is ClientState.REBALANCING:
            self._tell_state()
        self.readiness.update(self._tasks.all)
        self._group.follow_warmups(self._tasks.all)
        return news

    def _give_up(self) -> None:
        given_up = self._tasks.give_up()
        if given_up.waited_for:
            self._group.membership.rejoin(at_once=True)
        elif given_up.handed_over:
            self._group.membership.handed_over()

    def take_last_news(self) -> None:
        """Hear the group's news before the last commit, which may not begin otherwise; assignments are not followed.
        Raises ``AbortableError`` once others may have taken over."""
        self._group.check_session()
        self._take_news(leaving=True)

    def _take_news(self, *, leaving: bool = False) -> bool:
        try:
            news = self._group.membership.poll()
        except StreamsError as error:
            self._end(error)
            return True
        if isinstance(news, Assignment):
            self._group.assignment = news
            if not leaving:
                self._follow(news)
        elif isinstance(news, Lost):
            self._group.lost()
            raise FencedError(f"this instance is no longer in the group: {news.reason}")
        elif isinstance(news, ShutdownRequested):
            self._end(StreamsError("another instance asked the whole application to shut down; its log says why"))
        return news is not None

    def _follow(self, assignment: Assignment) -> None:
        assert self.layouts is not None
        self.layout = self.layouts.following(assignment.matched)
        roles = assigned_roles(assignment)
        self.hand_overs.assigned(assignment, [task.id for task in self._tasks.active])
        cuts = dict.fromkeys(assignment.by_cut, assignment.cut)
        self._tasks.assign(self.layout, roles, assignment.moving, cuts)
        self.readiness.assigned(roles.keys())
        self._tell_state()

    def _tell_state(self) -> None:
        joined = self.assignment is not None
        self._state.to(ClientState.RUNNING if joined and self._tasks.all_running else ClientState.REBALANCING)

    @property
    def calm(self) -> bool:
        """True if the tasks are the assigned ones, all of them run, and none is to go."""
        return self._state.state is ClientState.RUNNING and not self._tasks.giving_up

    # ---- pausing, draining -------------------------------------------------------------------------------------

    def pause(self, *, paused: bool) -> None:
        """Stop or resume processing and replicas; commits go on."""
        self._tasks.pause(paused=paused)

    def drain(self) -> None:
        """Ask the others to take over; an instance without a replica begins with a snapshot."""
        self._tasks.request_snapshots()
        self._group.drain()

    @property
    def drained(self) -> bool:
        """True if the others have everything that any of them can take."""
        return self._group.drained(self.layout)

    # ---- committing --------------------------------------------------------------------------------------------

    @property
    def may_write(self) -> bool:
        """True if no other instance can have taken over."""
        return self._group.may_write

    @property
    def may_commit(self) -> bool:
        """True if a commit may begin: not while the group assigns anew."""
        return self.sound and self._group.membership.may_commit

    @property
    def sound(self) -> bool:
        """True unless a failed task's output may be in the open transaction, or others may have taken over."""
        return self._recovery.sound and self.may_write

    @property
    def wants_commit(self) -> bool:
        """True if other instances wait for tasks of this one, the group is about to assign anew, or tasks that were
        taken over have their first results."""
        return bool(self._tasks.giving_up) or self._group.membership.commit_wanted or self.hand_overs.commit_wanted

    def nothing_to_commit(self) -> None:
        """A commit was wanted, and there is nothing to be committed."""
        if self._group.membership.commit_wanted:
            self._group.membership.end_commit()

    def committed(self, now: float) -> None:
        """A commit has ended, at ``now`` (monotonic seconds)."""
        self.hand_overs.committed(self._tasks.active, now)
        self._topics.purge(self.layout, self._tasks.active, now)

    def abort(self, error: Exception) -> None:
        """The output since the last commit is lost: all tasks continue from there, with a new producer; or stop, when
        other instances run them."""
        if isinstance(error, FencedError):
            log.warning("%s; its tasks stop without committing", error)
            self._recovery.taken_over()
            self._group.membership.rejoin(at_once=True)
            self._tell_state()
            return
        self._recovery.lost()
        log.warning("%s; all tasks go on from the last commit", error)
        if isinstance(error, DeliveryTimeoutError) and self._group.safe:
            self._producer.wait_longer()

    # ---- failing -----------------------------------------------------------------------------------------------

    def take_failures(self) -> None:
        """See to what other threads could not go on with."""
        for failure in self._uncaught.take():
            self.failed(failure)

    def failed(self, failure: ThreadFailure) -> None:
        """Ask the uncaught exception handler about an exception, and do what it says."""
        if self.ended:
            log.error("%s failed too: %s", failure.thread, failure.error)
            return
        if isinstance(failure.error, NoAnswerError):
            log.info("%s: %s", failure.thread, failure.error)
            return
        task = None if failure.task_id is None else self._tasks.all.get(failure.task_id)
        if isinstance(failure.error, SnapshotFencedError):
            if task is not None and task.role is TaskRole.ACTIVE:
                raise failure.error  # ends like a commit that was fenced
            return
        if isinstance(failure.error, TaskCorruptedError) and task is not None:
            self._recovery.task_corrupted(task, failure.error)
            return
        if task is not None and failure.alone and not is_final(failure.error):
            log.error("task %s failed and starts again from the last commit", task.id, exc_info=failure.error)
            self._recovery.failed_alone(task, failure.error)
            return
        response = self._uncaught.answer(failure)
        if response is UncaughtExceptionResponse.SHUTDOWN_APPLICATION:
            self._group.membership.request_shutdown()
        if response is not UncaughtExceptionResponse.REPLACE_THREAD:
            self._end(failure.error)
        elif task is None:
            log.error("all tasks start again from the last commit", exc_info=failure.error)
            self._recovery.lost()
        else:
            log.error("task %s failed and starts again from the last commit", task.id, exc_info=failure.error)
            self._recovery.task_failed(task)

    def _end(self, error: BaseException) -> None:
        self.error = self.error or error
        self.ended = True
        self._state.to(ClientState.PENDING_ERROR)

    # ---- ending ------------------------------------------------------------------------------------------------

    def close(self, error: BaseException | None, *, leave_group: bool) -> None:
        """Close the tasks and leave; the caller has committed what could be committed."""
        if error is not None:
            # A message that names topic and remedy says it all; the place in our own code is of no use to a user.
            told = isinstance(error, (UserInputError, TopicError, UnfitObjectStoreError))
            log.error("%s ends: %s", self._topics.application_id, error, exc_info=None if told else error)
            self._end(error)
        clean = self.error is None and self._recovery.sound
        if clean:
            self._tasks.last_snapshots()
        with self._noting_failures():
            self._tasks.close_all(clean=clean)
        try:
            self._producer.end()
            # The changelogs have all that was committed: the next owner of the tasks need not wait for RocksDB here.
            self._group.membership.leave(stay=not leave_group)
        finally:
            with self._noting_failures():
                self._tasks.wait_until_closed()

    @contextmanager
    def _noting_failures(self) -> Iterator[None]:
        try:
            yield
        except Exception as failure:
            log.exception("closing tasks failed")
            self.error = self.error or failure
