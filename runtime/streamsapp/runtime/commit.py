"""The commit: all tasks at once, without stopping them (docs/decisions/0001-rolling-epochs.md).

Runs on the polling thread as a generator that is advanced between fetches, so that input keeps flowing meanwhile:

    1. every task that did something ends its epoch at its next record boundary, after the few records that came with
       this commit: it emits what it held back, fixes its offsets and swaps in a fresh write-back layer (microseconds;
       processing goes on in the next epoch)
    2. what the tasks sent in the ended epoch is drained into the producer; at least once, it is acknowledged before 3
    3. so is the last value per key of every changed store, to its changelog
    4. the producer is flushed, the offsets are committed; under exactly once in the transaction, which the producer
       ends by itself, beginning while the last records are still on their way
    5. the changes go to RocksDB, the changelog offset they stand for with the last slice

A crash before 4 is through leaves RocksDB at the commit before; a crash after it leaves RocksDB behind the changelog,
from which the missing tail is replayed. RocksDB is never ahead of Kafka.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Iterator
from typing import Protocol

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.errors import CommitError
from streamsapp.kafka.producer import AtLeastOnceProducer, ExactlyOnceProducer, GroupOffsets
from streamsapp.kafka.sending import AbortableError
from streamsapp.runtime.last_commits import LastCommits
from streamsapp.tasks.stream_task import TaskEpoch
from streamsapp.tasks.task_manager import EpochEnd, TaskManager

log = logging.getLogger(__name__)

#: Records handed to the producer between two looks at the consumer.
SLICE = 2000
#: A store counts at least as so many of them.
OF_STORE = 20
#: How long one step may wait for acknowledgements, in seconds; and while there is nothing else to do.
STEP_WAIT, RESTING_WAIT = 0.005, 0.02
#: How long tasks may process records that came with the commit before they end their epochs, in seconds.
CATCH_UP = 0.01
#: How long a commit waits for a task that it can do without, in seconds.
PATIENCE = 0.05
#: First and longest pause between two tries at a commit the broker could not take, in seconds.
RETRY_FIRST, RETRY_LONGEST = 0.1, 5.0

#: How often tasks are asked whether they want a commit, in seconds; and how many times as long as asking took must pass
#: before they are asked again: with a thousand tasks that is longer.
CHECK_PERIOD, CHECK_REST = 0.05, 50.0
#: Unwritten entries are weighed at each of these checks, but not within so many seconds while they are less than such a
#: part of the limit.
SELDOM, LITTLE = 4 * CHECK_PERIOD, 0.25


class Epochs(Protocol):
    """The tasks that take part in a commit: those of a task manager, or of a batch."""

    def end_epochs(self, *, input_first: bool = False) -> EpochEnd:
        """Ask every task that did something since the last commit to end its epoch; with ``input_first`` after the
        records that it has by now."""
        ...

    def end_epochs_now(self) -> None:
        """Ask the tasks that have not ended theirs to leave the other records for the next one."""
        ...

    def leave_out(self) -> None:
        """Let the commit go on without tasks that have not ended theirs, where these are apart from the others."""
        ...

    def wait_for_progress(self, timeout: float) -> None:
        """Return when one has, or after ``timeout`` seconds."""
        ...

    @property
    def resting(self) -> bool:
        """True if no task is processed."""
        ...


class GroupCommits(GroupOffsets, Protocol):
    """The right to commit for the group."""

    def begin_commit(self) -> bool:
        """True if a commit may begin now."""
        ...

    def cuts(self, number: int) -> bool:
        """True if the commit under way may be the last one of tasks that move by this cut."""
        ...

    def end_commit(self) -> None:
        """The commit that was allowed has ended, well or not."""
        ...


#: Begins to find out whether tasks were given records that they must not have. The returned function says whether that
#: is known by now; it raises ``AbortableError`` if they were, and ``KafkaException`` if no broker answers.
Confirm = Callable[[], Callable[[], bool]]


#: Called if records that came with a commit take too long to be processed.
Late = Callable[[], None]


def nothing_to_confirm() -> Callable[[], bool]:
    """Tasks were given the right records."""
    return lambda: True


class Commit:
    """One commit under way."""

    def __init__(
        self,
        tasks: Epochs,
        collector: RecordCollector,
        producer: AtLeastOnceProducer | ExactlyOnceProducer,
        membership: GroupCommits,
        clock: Clock,
        give_up_after: float,
        confirm: Confirm = nothing_to_confirm,
    ) -> None:
        self._confirm = confirm
        #: Given before it is advanced, if records came that are to be part of it.
        self.late: Late | None = None
        self._tasks = tasks
        self._collector = collector
        self._producer = producer
        self._membership = membership
        self._clock = clock
        self._give_up_after = give_up_after
        self.end: EpochEnd | None = None
        #: Records of changelogs that the step under way has sent.
        self._in_step = 0
        self._steps = self._run()

    def advance(self) -> bool:
        """Do one bounded piece of work; whether the commit is through."""
        return next(self._steps, "done") == "done"

    def give_up(self) -> None:
        """Do no more of it: the group need not wait for its end."""
        self._steps.close()

    def _run(self) -> Generator[None, None, None]:
        yield from self._end_epochs()
        assert self.end is not None
        if self.end.broken and self._producer.transactional:
            raise AbortableError("a task failed in the middle of a transaction")
        # At least once, records of another topic may be processed twice. Begun now, it is known in step 4.
        confirmed = self._confirm() if self._producer.transactional else lambda: True
        while not self._collector.drained:
            self._collector.drain(self._producer.send, SLICE)
            if not self._collector.drained:
                self._producer.poll()
                yield
        if not self._producer.transactional:
            # A changelog that survives its results would have them for sent: a suppressed one has left its buffer.
            yield from self._acknowledged()
        positions = []
        for epoch in self.end.epochs:
            written: dict[str, int] = {}
            yield from self._write_changelog(epoch, written)
            positions.append(written)
        if not self._producer.transactional:
            yield from self._acknowledged()
        yield from self._commit_offsets(self.end.epochs, confirmed)
        self._collector.roll()
        for epoch, written in zip(self.end.epochs, positions, strict=True):
            yield from self._apply(epoch, written)

    def _end_epochs(self) -> Iterator[None]:
        self.end = self._tasks.end_epochs(input_first=self.late is not None)
        began = self._clock.monotonic()
        late_at = began + CATCH_UP
        while not self.end.done:
            if self._collector.drain(self._producer.send, SLICE):
                self._producer.poll()
            else:
                self._tasks.wait_for_progress(STEP_WAIT)
            if self.late is not None and not self.end.done and self._clock.monotonic() > late_at:
                self._tasks.end_epochs_now()
                self.late()
                self.late = None
            if not self.end.done and self._clock.monotonic() > began + PATIENCE:
                self._tasks.leave_out()
            yield

    def _acknowledged(self) -> Iterator[None]:
        """Wait until the broker has everything that was sent."""
        while not self._producer.flush(self._wait) or not self._collector.drained:
            # A record that cannot be written may have left a dead letter, which goes before the offsets too.
            self._collector.drain(self._producer.send, SLICE)
            yield

    @property
    def _wait(self) -> float:
        return RESTING_WAIT if self._tasks.resting else STEP_WAIT

    def _write_changelog(self, epoch: TaskEpoch, written: dict[str, int]) -> Iterator[None]:
        """Send the last value per key of every logged store, counting the records per store."""
        changelogs = epoch.task.plan.changelogs
        for store, changes in epoch.frozen.changelogs() if epoch.frozen is not None else ():
            changelog = changelogs.get(store)
            if changelog is None:
                continue
            for each in changes.slices(changelog.topic, changelog.partition, SLICE):
                written[store] = written.get(store, 0) + len(each)
                left = each
                while left:
                    left = self._producer.send_changes(left)
                    if left or self._worked_for_long(len(each)):
                        self._producer.poll()
                        yield

    def _worked_for_long(self, records: int) -> bool:
        """Say whether the step under way has sent enough, with so many records of one more store."""
        self._in_step += max(records, OF_STORE)
        if self._in_step < SLICE:
            return False
        self._in_step = 0
        return True

    def _commit_offsets(self, epochs: list[TaskEpoch], confirmed: Callable[[], bool]) -> Iterator[None]:
        """Commit; a commit that the broker cannot take now is tried again until the task time-out."""
        last = LastCommits(epochs, self._membership.cuts, transactional=self._producer.transactional)
        give_up = self._clock.monotonic() + self._give_up_after
        pause = RETRY_FIRST
        while True:
            while not self._membership.begin_commit():
                self._rest()  # the group assigns anew: whose the tasks are is known in a moment
                yield
            try:
                while not confirmed():
                    self._rest()
                    yield
                self._producer.poll()
                offsets = last.offsets()
                if self._collector.drained:  # by now, no record needs a dead letter
                    self._producer.prepare(offsets, self._membership)
                yield from self._acknowledged()
                self._producer.commit(offsets, self._membership)
                return
            except KafkaException as error:
                if self._clock.monotonic() > give_up:
                    raise CommitError(
                        f"no commit went through for {self._give_up_after:.0f} s: {error}; is the broker reachable?"
                    ) from error
                last.refused(error)
                log.warning("the commit did not go through, trying again in %.1f s: %s", pause, error)
            finally:
                self._membership.end_commit()
            again = self._clock.monotonic() + pause
            pause = min(2 * pause, RETRY_LONGEST)
            while self._clock.monotonic() < again:
                self._rest()
                yield

    def _rest(self) -> None:
        """Leave the processor to others for a moment: a commit is advanced again and again."""
        self._tasks.wait_for_progress(STEP_WAIT)

    def _apply(self, epoch: TaskEpoch, written: dict[str, int]) -> Iterator[None]:
        """Apply the ended epoch's writes to RocksDB after the commit, in slices."""
        task = epoch.task
        task.stores.commits += 1
        for store, count in written.items():
            # The control record that ends a transaction comes some time after the commit, before the next transaction;
            # brokers can leave it out (decision 7).
            end = task.changelog_positions[store] + count
            marked = store in task.unmarked and self._producer.end_of(task.plan.changelogs[store]) != end
            task.changelog_positions[store] = end + marked
            if self._producer.transactional:
                task.unmarked.add(store)
        for store, partition in task.plan.source_changelogs.items():
            if partition in epoch.offsets:
                task.changelog_positions[store] = epoch.offsets[partition].offset
        task.note_fresh(self._clock.now_ms())
        inputs = {partition: (consumed.offset, consumed.metadata) for partition, consumed in epoch.offsets.items()}
        if epoch.frozen is None and not task.stores.is_writing_due:
            task.stores.committed(inputs)
        else:
            yield from task.stores.apply(epoch.frozen, task.changelog_positions, inputs)


class CommitSchedule:
    """Decides when the next commit is due: by interval, on request of user code, or when writes and held results that
    are only in memory grow large: a commit brings those to RocksDB that wait for it."""

    def __init__(self, interval: float, clock: Clock, unwritten_limit: int) -> None:
        self._interval = interval
        self._clock = clock
        self._unwritten_limit = unwritten_limit
        self._due = clock.monotonic() + interval
        self._check_at = 0.0
        #: The tasks' rounds after which they were asked, and what they have was weighed; and when it will be again.
        self._asked_in_round = self._weighed_in_round = -1
        self._weigh_at = 0.0

    def looks_in(self, tasks: TaskManager) -> float:
        """Seconds until ``due`` is to be asked again: sooner than the interval ends if tasks may have come to want a
        commit since they were asked."""
        look_at = self._check_at
        if tasks.resting and tasks.rounds == self._asked_in_round:
            look_at = math.inf if tasks.rounds == self._weighed_in_round else max(self._check_at, self._weigh_at)
        return min(self.due_in, max(0.0, look_at - self._clock.monotonic()))

    @property
    def due_in(self) -> float:
        """Seconds until the interval ends."""
        return max(0.0, self._due - self._clock.monotonic())

    def due(self, tasks: TaskManager) -> bool:
        """Return whether to start a commit now."""
        now = self._clock.monotonic()
        if now >= self._due:
            return True
        if now < self._check_at:
            return False
        wanted = self._wanted(tasks, now)
        took = self._clock.monotonic() - now
        self._check_at = now + max(min(self._interval, CHECK_PERIOD), CHECK_REST * took)
        return wanted

    def _wanted(self, tasks: TaskManager, now: float) -> bool:
        rounds, owned = tasks.rounds, tasks.tasks.values()
        if any(task.context.commit_requested for task in owned):
            return True
        self._asked_in_round = rounds
        if now < self._weigh_at:
            return False
        self._weighed_in_round = rounds
        unwritten = sum(task.unwritten_bytes for task in owned)
        self._weigh_at = now + SELDOM if unwritten < LITTLE * self._unwritten_limit else now
        return unwritten > self._unwritten_limit

    def bring_forward(self, seconds: float) -> None:
        """Let the interval end within so many seconds."""
        self._due = min(self._due, self._clock.monotonic() + seconds)

    def restart(self, took: float = 0.0) -> None:
        """A commit begins, or has ended and took so many seconds: the interval is counted from its beginning. After a
        long one the tasks have as much time as it took to do more, but no more than the interval."""
        rest = min(self._interval, max(took, self._interval - took))
        self._due = self._clock.monotonic() + rest
