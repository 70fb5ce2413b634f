"""The output of all tasks, on its way to the broker: results, and the commits that make them count.

Called on the polling thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.metrics.samples import Histogram
from streamsapp.runtime.commit import RESTING_WAIT, Commit, CommitSchedule, Late
from streamsapp.runtime.streams_producer import StreamsProducer
from streamsapp.tasks.task_manager import TaskManager

#: Records drained into the producer in one pass.
DRAIN = 4000
#: How long results wait for others while tasks are processed that may bring more, in seconds.
PATIENCE = 0.01
#: How long results of few records are waited for before the loop looks at anything else, in seconds.
SOON = 0.002
#: How long a few results wait that no consumer can read before the commit, in seconds.
HOLD = 0.1
#: How long one pass works on a commit while tasks are processed, in seconds: a commit that drags on makes the next one
#: larger.
COMMIT_SLICE = 0.01


class Output:
    """Drains the record collector, and takes one commit at a time from its start to its end."""

    def __init__(
        self,
        producer: StreamsProducer,
        tasks: TaskManager,
        collector: RecordCollector,
        schedule: CommitSchedule,
        clock: Clock,
    ) -> None:
        self._producer = producer
        self._tasks = tasks
        self._collector = collector
        self._schedule = schedule
        self._clock = clock
        self._commit: Commit | None = None
        self._commit_began = 0.0
        self._send_at = 0.0
        #: Says whether the results are those of few records: once the tasks rest, nothing follows soon.
        self._few = False
        #: The tasks' last round after which there was nothing to commit.
        self._idle_in_round = -1
        #: How long commits took, in seconds; read by metrics.
        self.commit_latency = Histogram()

    @property
    def committing(self) -> bool:
        """True if a commit is under way."""
        return self._commit is not None

    @property
    def committing_seconds(self) -> float:
        """The seconds since the commit under way began; 0 if there is none. Any thread."""
        return max(0.0, self._clock.monotonic() - self._commit_began) if self.committing else 0.0

    @property
    def buffered_records(self) -> int:
        """Results that wait for the producer. Any thread."""
        return len(self._collector)

    @property
    def pending(self) -> bool:
        """True if there is something to send or to commit right now."""
        return self.committing or self._collector.enough

    @property
    def send_in(self) -> float:
        """Seconds until the thread is to look for unannounced results; infinite while that is not needed."""
        return PATIENCE if self._collector.prompt and self._tasks.busy else math.inf

    @property
    def uncommitted(self) -> bool:
        """True if tasks did anything since the last commit."""
        return self._tasks.anything_touched()

    def commit_in(self, *, rests: bool) -> float:
        """Seconds until it is to be looked whether a commit is due; infinite while no task does anything. One that is
        due brings the records that came while the input ``rests``."""
        if self._idle:
            return self._schedule.due_in if rests else math.inf
        return self._schedule.looks_in(self._tasks)

    @property
    def _idle(self) -> bool:
        """True if the tasks rest and have nothing to commit. That stays so until one is held again: they may be very
        many, and are looked at once."""
        tasks = self._tasks
        if not tasks.resting:
            return False
        if self._idle_in_round != tasks.rounds and not self.uncommitted:
            self._idle_in_round = tasks.rounds
        return self._idle_in_round == tasks.rounds

    def send(self) -> None:
        """Hand records that tasks sent to the producer, as far as it takes them. A few results that no consumer can
        read before the commit wait for it a little, so that they go into one request."""
        now = self._clock.monotonic()
        if self._collector.prompt or self._collector.enough or now >= self._send_at:
            self._send_at = now + HOLD
            self._collector.drain(self._producer.client.send, DRAIN)
            if self._few and not self._tasks.busy:
                self._few = False
                self._producer.client.no_more()
        self._producer.client.poll()

    def wait_for_results(self, *, near_commit: bool = False) -> None:
        """Let few records that just came be processed, if their results are sent before the commit: in the same pass of
        the loop then. Most of what few records cost are passes. With a ``near_commit`` results are waited for, too."""
        if self.committing:
            return
        if self._collector.prompt:
            self._few = True
            with self._collector.awaited():
                self._tasks.wait_for_rest(SOON)
        elif near_commit:
            self._tasks.wait_for_rest(SOON)

    def commit_if_due(self, catch_up: Callable[[], Late | None], *, wanted: bool) -> None:
        """Begin a commit when the schedule says so, or one was asked for, and there is something to commit once
        ``catch_up`` was called."""
        if self._schedule.due(self._tasks) or wanted:
            self._schedule.restart()
            late = catch_up()
            if late is not None or self.uncommitted:
                self.commit(late)

    def commit(self, late: Late | None = None) -> None:
        """Begin a commit; none is under way. ``late`` is given if records came that are to be part of it, and is called
        if they take too long to be processed."""
        self._commit_began = self._clock.monotonic()  # first: other threads read it once there is a commit
        self._commit = self._producer.new_commit(self._tasks)
        self._commit.late = late

    def advance(self) -> float | None:
        """Work on the commit under way for a moment; returns when it ended (monotonic seconds), if it did."""
        began = self._clock.monotonic()
        while self._commit is not None:
            if self._commit.advance():
                now = self._clock.monotonic()
                took = now - self._commit_began
                self.commit_latency.observe(took)
                self._commit = None
                self._schedule.restart(took)
                return now
            if self._clock.monotonic() - began >= (RESTING_WAIT if self._tasks.resting else COMMIT_SLICE):
                break
        return None

    def give_up_commit(self) -> None:
        """The commit under way, if there is one, has failed."""
        if self._commit is not None:
            self._commit.give_up()
            self._commit = None
