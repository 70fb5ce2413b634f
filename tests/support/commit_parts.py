"""A commit's surroundings: tasks that store and forward, and a producer and a group that the test plays.

Called by the unit tests of commits, on the test's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException

from streamsapp import ProcessorContext, Record, Serdes, Stores, TopicPartition, Topology
from streamsapp.collector.record_collector import RecordCollector
from streamsapp.outgoing import ChangelogSlice, OutputRecord
from streamsapp.runtime.commit import Commit, Late
from streamsapp.runtime.processing import ProcessingThread
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import feed, raw, task_of, through

CHANGELOG = "app-store-changelog"
GIVE_UP_AFTER = 60.0
Offsets = Mapping[TopicPartition, tuple[int, str]]


def retriable() -> KafkaException:
    return KafkaException(KafkaError(KafkaError._TIMED_OUT, retriable=True))


class FakeProducer:
    """Writes down what reaches the broker, and fails on request."""

    def __init__(self, *, transactional: bool) -> None:
        self.transactional = transactional
        #: The events, in order: ``sent <topic> <value>``, ``acknowledged``, ``committed <offsets>``.
        self.events: list[str] = []
        #: How many records the queue takes before it is full; a poll makes room for as many again.
        self.queue = self._room = 1_000
        #: How many flushes run out of time.
        self.slow_flushes = 0
        #: Raised by the commits to come.
        self.commit_errors: list[Exception] = []
        self.poll_errors: list[Exception] = []
        self.on_flush: list[Callable[[], None]] = []
        self.on_commit: Callable[[], None] = lambda: None
        self._unacknowledged = False
        #: The ends of partitions, as far as the broker reports them.
        self.ends: dict[TopicPartition, int] = {}

    def end_of(self, partition: TopicPartition) -> int | None:
        return self.ends.get(partition)

    def send(self, records: list[OutputRecord]) -> list[OutputRecord]:
        taken, rest = records[: self._room], records[self._room :]
        self._room -= len(taken)
        self._unacknowledged = self._unacknowledged or bool(taken)
        self.events += [f"sent {topic} {(value or b'').decode()}" for topic, value, *_ in taken]
        return rest

    def send_changes(self, changes: ChangelogSlice) -> ChangelogSlice:
        return changes.part(len(changes) - len(self.send(changes.records())))

    def poll(self) -> None:
        self._room = self.queue
        if self.poll_errors:
            raise self.poll_errors.pop(0)

    def flush(self, timeout: float) -> bool:
        self.poll()
        if self.on_flush:
            self.on_flush.pop(0)()
        if self.slow_flushes:
            self.slow_flushes -= 1
            return False
        if self._unacknowledged:
            self.events.append("acknowledged")
        self._unacknowledged = False
        return True

    def prepare(self, offsets: Offsets, group: Gate) -> None:
        assert group.inside
        if self.transactional:
            self.events.append("prepared")

    def commit(self, offsets: Offsets, group: object) -> None:
        if self.commit_errors:
            raise self.commit_errors.pop(0)
        assert not self._unacknowledged, "offsets before the data they stand for"
        self.on_commit()
        self.events.append(f"committed {', '.join(map(_listed, sorted(offsets.items())))}")


def _listed(committed: tuple[TopicPartition, tuple[int, str]]) -> str:
    partition, (offset, metadata) = committed
    cut = OffsetMetadata.decode(metadata).cut
    return f"{partition}@{offset}" + (f" cut {cut}" if cut else "")


class Gate:
    """The group's permission to commit."""

    def __init__(self) -> None:
        self.open = True
        self.inside = 0
        #: The cut that the assignment of the present generation has, while no join is under way.
        self.cut = 0

    def cuts(self, number: int) -> bool:
        assert self.inside
        return number == self.cut

    def begin_commit(self) -> bool:
        self.inside += self.open
        return self.open

    def end_commit(self) -> None:
        self.inside -= 1


class Instance:
    """The parts that a commit works with; one task per partition that stores and forwards every record."""

    def __init__(self, *, transactional: bool = True, partitions: int = 1, topology: Topology | None = None) -> None:
        self.gate = Gate()
        self.clock = MockClock()
        self.tasks = TaskManager(MostBufferedFirst())
        self.collector = RecordCollector(1_000)
        self.producer = FakeProducer(transactional=transactional)
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.all = [task_of(topology or storing(), number, clock=self.clock) for number in range(partitions)]
        for task in self.all:
            self.tasks.add(task)
        self.worker = ProcessingThread("worker", self.tasks, self.collector, self.failures, self.clock)
        self._offsets = dict.fromkeys(self.all, 0)

    def read(self, *values: str, task: int = 0) -> None:
        """The task processes these records."""
        self.receive(*values, task=task)
        self.work()

    def receive(self, *values: str, task: int = 0) -> None:
        """Records arrive in the task's input buffer."""
        each = self.all[task]
        for value in values:
            offset = self._offsets[each]
            feed(each, [raw(offset, partition=task, key=value[:1].encode(), value=value.encode())])
            self._offsets[each] += 1
        self.tasks.mark_ready([each])

    def work(self) -> None:
        """A processing thread's slices, a turn for each task and one to go on after the end of an epoch, on the test's
        own thread."""
        for _ in (*self.all, None):
            if not self.tasks.resting:
                self.worker._run_once()

    def commit(self, late: Late | None = None) -> Commit:
        """A commit; ``late`` is given if records came that are to be part of it."""
        producer, gate = cast(Any, self.producer), cast(Any, self.gate)
        commit = Commit(self.tasks, self.collector, producer, gate, self.clock, GIVE_UP_AFTER)
        commit.late = late
        return commit

    def goes_to_another(self, cut: int, task: int = 0) -> None:
        """The assignment gives the task to an heir, which goes on from this cut."""
        leaving = self.all[task]
        self.tasks.retire([leaving.id])
        leaving.control.cut, leaving.touched = cut, True

    def run(self, commit: Commit, *, limit: int = 100) -> None:
        """Advance to the end; tasks end their epochs meanwhile."""
        for _ in range(limit):
            if commit.advance():
                return
            if commit.end is not None and not commit.end.done:
                self.work()
        raise AssertionError("the commit does not come to an end")

    def applied(self, task: int = 0) -> int | None:
        """The changelog offset that the task's local state stands for."""
        return self.all[task].stores.changelog_offset("store")


def storing() -> Topology:
    def process(context: ProcessorContext, record: Record) -> None:
        if record.value == "bad":
            raise ValueError(record.value)
        context.get_state_store("store").put(record.key, record.value)
        context.forward(record)

    supplier = Stores.in_memory_key_value_store("store")
    builder = Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string())
    return through(process).add_state_store(builder, "node")
