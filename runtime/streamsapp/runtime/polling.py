"""The polling thread of the Kafka Streams threading proposal: it alone touches main consumer, producer and membership.

One pass of its loop:

    1. take what others left: failures of threads, requests of the user, a new assignment, restored tasks
    2. fetch records into the tasks' input buffers
    3. drain the record collector into the producer
    4. start a commit when one is due, advance the one under way
    5. wake tasks whose wall-clock callbacks or idle waits are due

It waits in the fetch, and only as long as nothing else is to be done.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.deadline import ClosingTime, reserve
from streamsapp.errors import FencedError, StreamsError
from streamsapp.kafka.producer import AbortableError
from streamsapp.kafka.requests import NoAnswerError
from streamsapp.metrics.samples import Histogram
from streamsapp.runtime.commit import Commit, CommitSchedule
from streamsapp.runtime.failures import ThreadFailure
from streamsapp.runtime.hang_detection import HangDetector
from streamsapp.runtime.input_feeder import InputFeeder
from streamsapp.runtime.lifecycle import Lifecycle
from streamsapp.runtime.streams_producer import StreamsProducer
from streamsapp.tasks.task_manager import TaskManager

log = logging.getLogger(__name__)

#: Records drained into the producer in one pass.
DRAIN = 4000
#: Longest waits for input, in seconds: while records flow, and when nothing has happened for a while.
BUSY_WAIT, IDLE_WAIT = 0.002, 0.05
IDLE_AFTER = 1.0
#: How long one pass works on a commit, in seconds: a commit that drags on makes the next one larger.
COMMIT_SLICE = 0.01
#: How often due callbacks are looked for, in seconds.
TICK = 0.01


class PollingThread(threading.Thread):
    """Runs the loop until the instance ends."""

    def __init__(
        self,
        name: str,
        life: Lifecycle,
        producer: StreamsProducer,
        tasks: TaskManager,
        collector: RecordCollector,
        feeder: InputFeeder,
        schedule: CommitSchedule,
        failures: SimpleQueue[ThreadFailure],
        watch: HangDetector,
        clock: Clock,
        closing: ClosingTime,
        on_end: Callable[[], None],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._life = life
        self._producer = producer
        self._tasks = tasks
        self._collector = collector
        self._feeder = feeder
        self._schedule = schedule
        self._failures = failures
        self._watch = watch
        self._clock = clock
        self._closing = closing
        self._on_end = on_end
        self._commit: Commit | None = None
        self._next_tick = 0.0
        self._last_activity = 0.0
        self._close_wanted = False
        self._leave_group = True
        self._hand_over_until: float | None = None
        self._draining = False
        #: Set at the end: whether others had taken over everything before.
        self.drained = False
        self._pause_wanted = False
        self._paused = False
        self._commit_began = 0.0
        self.commit_latency = Histogram()

    # ---- any thread --------------------------------------------------------------------------------------------

    def close(self, within: float, *, leave_group: bool) -> None:
        """End within so many seconds: after a last commit, or without one when that takes too long."""
        self._leave_group = leave_group
        self._closing.begin(within)
        self._close_wanted = True

    def drain(self, within: float) -> None:
        """Hand all tasks over, then commit and end, all within so many seconds."""
        self._closing.begin(within)
        self._hand_over_until = self._clock.monotonic() + within - 2 * reserve(within)

    @property
    def leaving(self) -> bool:
        """Whether it was asked to drain or to close."""
        return self._hand_over_until is not None or self._close_wanted

    def pause(self, *, paused: bool) -> None:
        """Stop or resume processing; commits go on."""
        self._pause_wanted = paused

    # ---- polling thread ----------------------------------------------------------------------------------------

    def run(self) -> None:
        error: BaseException | None = None
        try:
            self._life.start()
            while not (self._close_wanted or self._life.ended):
                self._pass()
            if not self._life.ended:
                self._finish()
        except NoAnswerError as given_up:
            log.info("%s", given_up)
        except BaseException as failure:
            error = failure
        try:
            self._life.close(error, leave_group=self._leave_group)
            self._take_failures()  # a store that could not be flushed when it was closed
        finally:
            self._on_end()

    def _pass(self) -> None:
        """One pass; what it raises is put to the uncaught exception handler as any other thread's failure is."""
        try:
            self._run_once()
        except (AbortableError, FencedError) as error:
            self._commit = None
            self._life.abort(error)
        except (StreamsError, KafkaException) as error:
            self._commit = None
            self._life.failed(ThreadFailure(self.name, error))

    def _run_once(self) -> None:
        self._take_failures()
        if self._life.ended:
            return
        self._take_pause()
        self._take_drain()
        self._life.advance(self._commit is not None)
        self._feed()
        self._send()
        self._advance_commit()
        self._tick()

    def _take_failures(self) -> None:
        while True:
            try:
                failure = self._failures.get_nowait()
            except Empty:
                return
            self._life.failed(failure)

    def _take_pause(self) -> None:
        if self._pause_wanted == self._paused:
            return
        self._paused = self._pause_wanted
        self._life.pause(paused=self._paused)

    def _take_drain(self) -> None:
        if self._hand_over_until is None:
            return
        if not self._draining:
            self._draining = True
            self._life.drain()
        self.drained = self._life.drained and self._commit is None
        if self.drained or self._clock.monotonic() >= self._hand_over_until:
            self._close_wanted = True

    def _feed(self) -> None:
        if self._feeder.full:
            self._clock_wait()
            return
        now = self._clock.monotonic()
        working = self._commit is not None or len(self._collector) > 0
        idle = now - self._last_activity > IDLE_AFTER
        timeout = 0.0 if working else IDLE_WAIT if idle else BUSY_WAIT
        fetched = self._feeder.feed(timeout)
        if fetched.records or working:
            self._last_activity = now
        self._life.out_of_range(fetched.out_of_range)

    def _clock_wait(self) -> None:
        """Buffers are full: yield to the processing threads unless there is something to send."""
        if not len(self._collector) and self._commit is None:
            self._tasks.wait_for_progress(BUSY_WAIT)

    def _send(self) -> None:
        if not self._life.may_write:
            return
        self._collector.drain(self._producer.client.send, DRAIN)
        self._producer.client.poll()

    def _advance_commit(self) -> None:
        if self._commit is None and self._life.may_commit and self._commit_due():
            self._schedule.restart()
            if self._tasks.anything_touched():
                self._start_commit()
        until = self._clock.monotonic() + COMMIT_SLICE
        while self._commit is not None:
            if self._commit.advance():
                self._commit_ended()
            if self._clock.monotonic() >= until:
                return

    def _commit_due(self) -> bool:
        return self._life.wants_commit or self._schedule.due(self._tasks)

    def _start_commit(self) -> None:
        self._commit = self._producer.new_commit(self._tasks)
        self._commit_began = self._clock.monotonic()

    def _commit_ended(self) -> None:
        self.commit_latency.observe(self._clock.monotonic() - self._commit_began)
        self._commit = None
        self._schedule.restart()
        self._life.committed(self._clock.monotonic())

    def _tick(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_tick:
            return
        self._next_tick = now + TICK
        self._tasks.mark_due(self._clock.now_ms())
        self._watch.look(now)
        self._feeder.observe_lag(now)

    def _finish(self) -> None:
        """Commit what was processed, then end; records that are buffered and not processed stay for the next start."""
        try:
            self._commit_rest()
        except (AbortableError, FencedError) as error:
            log.warning("%s; what was not committed is processed again by whoever gets the tasks", error)

    def _commit_rest(self) -> None:
        """A commit under way when closing began leaves out what was processed meanwhile: that takes one more, and
        processing has to stop for it to be the last."""
        self._tasks.pause()
        last = False
        while not (self._closing.remote.passed or self._life.ended):
            self._take_failures()
            self._life.take_leave()
            if self._commit is None:
                if not (self._life.sound and self._tasks.anything_touched()):
                    return
                if self._life.may_commit:
                    self._start_commit()
                    last = True
                else:
                    self._tasks.wait_for_progress(BUSY_WAIT)
            self._send()
            if self._commit is not None and self._commit.advance():
                self._commit_ended()
                if last:
                    return
        log.warning("closing took too long: what was not committed is processed again after the next start")
