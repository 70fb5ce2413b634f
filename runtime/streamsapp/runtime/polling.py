"""The polling thread of the Kafka Streams threading proposal: it alone touches main consumer, producer and membership.

One pass of its loop:

    1. take the work that others left: failures of threads, requests of the user, a new assignment, restored tasks
    2. fetch records into the tasks' input buffers
    3. drain the record collector into the producer
    4. start a commit when one is due, advance the one under way
    5. wake tasks whose wall-clock callbacks or idle waits are due

It waits in the fetch, and only as long as nothing else is to be done. Everything that does not come by the clock ends
the wait (``kafka/wakeup.py``): records, output of tasks, tasks that are due sooner or restored, failures, requests,
news of the group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from confluent_kafka import KafkaException

from streamsapp.errors import FencedError, StreamsAppError, StreamsError
from streamsapp.kafka.requests import NoAnswerError
from streamsapp.kafka.rest import FEW
from streamsapp.kafka.sending import AbortableError
from streamsapp.runtime.input_feeder import InputPolling
from streamsapp.runtime.lifecycle import Lifecycle
from streamsapp.runtime.output import Output
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.runtime.user_requests import UserRequests
from streamsapp.runtime.wall_clock_work import WallClockWork

log = logging.getLogger(__name__)

#: Longest waits, in seconds: while tasks come or go, as some of that is found by looking (leave to commit is), and
#: while all run.
LONGEST_WAIT, LONGEST_REST = 0.05, 0.25


class PollingThread(threading.Thread):
    """Runs the loop until the instance ends."""

    def __init__(
        self,
        name: str,
        life: Lifecycle,
        input: InputPolling,
        output: Output,
        wall_clock: WallClockWork,
        requests: UserRequests,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._life = life
        self._input = input
        self._output = output
        self._wall_clock = wall_clock
        self._requests = requests
        self._on_end = on_end
        self._paused = False
        self._draining = self._commits_to_drain = False

    def run(self) -> None:
        error: BaseException | None = None
        try:
            self._life.start()
            while not (self._requests.close_now or self._life.ended):
                self._pass()
            if not self._life.ended:
                self._finish()
        except NoAnswerError as given_up:
            log.info("%s", given_up)
        except BaseException as failure:
            error = failure
        self._output.give_up_commit()
        try:
            self._life.close(error, leave_group=self._requests.leave_group)
            self._life.take_failures()  # a store that could not be flushed when it was closed
        finally:
            self._on_end()

    def _pass(self) -> None:
        """Make one pass; its errors are put to the uncaught exception handler like any other thread's failure."""
        try:
            self._run_once()
        except (AbortableError, FencedError) as error:
            self._output.give_up_commit()
            self._life.abort(error)
        except (StreamsAppError, KafkaException) as error:
            self._output.give_up_commit()
            self._life.failed(ThreadFailure(self.name, error))
        except Exception as error:
            self._output.give_up_commit()
            failure = StreamsError(f"{type(error).__name__} on the polling thread: {error}")
            failure.__cause__ = error
            self._life.failed(ThreadFailure(self.name, failure))

    def _run_once(self) -> None:
        self._life.take_failures()
        if self._life.ended:
            return
        self._take_pause()
        self._take_drain()
        self._end_sooner()
        news = self._life.advance(self._output.committing)
        hand_overs = self._life.hand_overs
        at_once = news or self._output.pending or (hand_overs.commit_wanted and self._life.may_commit)
        if 0 < self._input.poll(0.0 if at_once else self._wait()) < FEW:
            self._output.wait_for_results(near_commit=hand_overs.commit_near)
        self._send()
        if not self._output.committing and self._life.may_commit:
            self._output.commit_if_due(self._input.catch_up, wanted=self._life.wants_commit)
            if not self._output.committing:
                self._life.nothing_to_commit()
        if self._output.committing:
            self._advance_commit()
        self._wall_clock.run()

    def _wait(self) -> float:
        """Seconds until something is due by the clock, or may be."""
        if not (self._life.calm and self._life.may_commit) or self._draining:
            return min(LONGEST_WAIT, self._wall_clock.due_in, self._output.send_in)
        commit_in = self._output.commit_in(rests=self._input.rests)
        return min(LONGEST_REST, self._wall_clock.due_in, commit_in, self._output.send_in)

    def _take_pause(self) -> None:
        if self._requests.paused != self._paused:
            self._paused = self._requests.paused
            self._life.pause(paused=self._paused)

    def _take_drain(self) -> None:
        hand_over_by = self._requests.hand_over_by
        if hand_over_by is None:
            return
        if not self._draining and self._committed_first():
            self._draining = True
            self._life.drain()
        self._requests.drained = self._life.drained and not self._output.committing
        if self._requests.drained or hand_over_by.passed:
            self._requests.close_now = True

    def _committed_first(self) -> bool:
        """Commit what there is while the tasks go on: each stands still for its last commit, which is a small one then.
        Returns whether that is done."""
        if not self._commits_to_drain and self._life.may_commit and not self._output.committing:
            self._commits_to_drain = True
            if self._output.uncommitted:
                self._output.commit()
        return not self._output.committing

    def _end_sooner(self) -> None:
        """Leave without waiting for user code that hangs: the last commit never comes, and tasks go on elsewhere once
        the instance is gone."""
        if self._requests.leaving and self._wall_clock.hangs:
            self._requests.cut_short()

    def _send(self) -> None:
        if self._life.may_write:
            self._output.send()

    def _advance_commit(self) -> bool:
        if not self._life.may_write:
            return False  # the process stood still in the middle of this pass; the next one gives the commit up
        ended_at = self._output.advance()
        if ended_at is None:
            return False
        self._life.committed(ended_at)
        return True

    def _finish(self) -> None:
        """Commit the processed records, then end; records that are buffered and not processed stay for the next
        start."""
        try:
            self._commit_rest()
        except (AbortableError, FencedError) as error:
            log.warning("%s; records that were not committed are processed again by the next owner of the tasks", error)

    def _commit_rest(self) -> None:
        """A commit under way when closing began leaves out what was processed meanwhile: that takes one more, and
        processing has to stop for it to be the last."""
        self._life.pause(paused=True)
        last = False
        while not (self._requests.out_of_time or self._life.ended):
            self._end_sooner()
            self._life.take_failures()
            self._life.take_last_news()
            if not self._output.committing:
                if not (self._life.sound and self._output.uncommitted):
                    return
                if self._life.may_commit:
                    self._output.commit()
                    last = True
                else:
                    self._input.wait_for_tasks()
            self._send()
            if self._advance_commit() and last:
                return
        log.warning("closing took too long: what was not committed is processed again after the next start")
