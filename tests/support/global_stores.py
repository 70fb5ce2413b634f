"""Global stores over a fake broker, driven without waiting. Called by the tests of the runtime."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException

from streamsapp import StreamsConfig, TopicPartition, Topology
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Fetched
from streamsapp.outgoing import OutputRecord
from streamsapp.record import RawRecord, TopicIdentity
from streamsapp.runtime.global_stores.reading import GlobalReading
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.runtime.global_stores.thread import FlushSchedule, GlobalThread
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.state.engine.resources import StateResources
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.testing import MockClock
from task_parts import config

#: Longer than anything takes that works.
TIMEOUT = 60.0


@dataclass(frozen=True)
class Answer:
    """Offsets that were asked for, there at once."""

    offsets: Mapping[TopicPartition, int]
    done: bool = True

    def result(self) -> Mapping[TopicPartition, int]:
        return self.offsets


def content(thread: Any, store: str = "rates") -> dict[str, Any]:
    return dict(thread.stores[store].all())


class FakeBroker:
    """Topics with records, as the thread's consumer and admin client see them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.records: dict[TopicPartition, list[RawRecord]] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.low: dict[TopicPartition, int] = {}
        #: The begin of the first open transaction, if there is one.
        self.committed: dict[TopicPartition, int] = {}
        self.positions: dict[TopicPartition, int] = {}
        #: Of topics that were created anew.
        self.ids: dict[str, str] = {}
        self.limit = 1000
        self.error: Exception | None = None
        self.closed = False
        self.polls = 0

    # ---- the test ----------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int = 1) -> None:
        for number in range(partitions):
            each = TopicPartition(topic, number)
            self.records[each], self.ends[each], self.low[each] = [], 0, 0

    def send(self, topic: str, key: str | None, value: str | None, timestamp: int = 0, partition: int = 0) -> None:
        with self._changed:
            each = TopicPartition(topic, partition)
            coded = [None if text is None else text.encode() for text in (key, value)]
            self.records[each].append(RawRecord(topic, partition, self.ends[each], coded[0], coded[1], timestamp))
            self.ends[each] += 1

    def truncate(self, topic: str, low: int, end: int, partition: int = 0) -> None:
        """The partition now has these offsets only."""
        with self._changed:
            each = TopicPartition(topic, partition)
            self.records[each] = [record for record in self.records[each] if low <= record.offset() < end]
            self.low[each], self.ends[each] = low, end

    def wait_for_polls(self, count: int = 2) -> None:
        """Until everything sent so far was fetched and applied: the thread has come back for more, twice."""
        with self._changed:
            wanted = self.polls + count
            assert self._changed.wait_for(lambda: self.polls >= wanted, TIMEOUT)

    # ---- admin -------------------------------------------------------------------------------------------------

    def partition_counts(self) -> dict[str, int]:
        return {each.topic: each.partition + 1 for each in sorted(self.records)}

    def why_missing(self, topic: str) -> str:
        return f"topic {topic} does not exist"

    def request_offsets(self, partitions: Iterable[TopicPartition]) -> Answer:
        with self._changed:
            return Answer({each: self.ends[each] for each in partitions})

    # ---- consumer ----------------------------------------------------------------------------------------------

    def topics(self, names: Iterable[str]) -> dict[str, TopicIdentity]:
        return {each: TopicIdentity(self.ids.get(each, "AAAAAAAAAAAAAAAAAAAAAQ"), "cluster") for each in names}

    def setting(self, topic: str, name: str) -> str:
        return {"cleanup.policy": "compact", "delete.retention.ms": "86400000"}[name]

    def watermarks(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int]:
        return self.low[partition], self.committed.get(partition, self.ends[partition])

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Mapping[str, TopicIdentity] = NO_TOPICS,
    ) -> None:
        self.positions |= positions

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if partition not in self.positions:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "can't subtract what is not assigned"))
            del self.positions[partition]

    def poll(self, limit: int, timeout: float) -> Fetched:
        with self._changed:
            self.polls += 1
            self._changed.notify_all()
            if self.error is not None:
                raise self.error
            fetched = Fetched()
            for partition, position in self.positions.items():
                self._fetch(partition, position, fetched)
            if not fetched.records:
                self._changed.wait(0.001)
            return fetched

    def _fetch(self, partition: TopicPartition, position: int, fetched: Fetched) -> None:
        if not self.low[partition] <= position <= self.ends[partition]:
            fetched.out_of_range.append(partition)
            return
        batch = [each for each in self.records[partition] if each.offset() >= position][: self.limit]
        if batch:
            fetched.records.append((partition, batch))
            self.positions[partition] = batch[-1].offset() + 1
        else:
            fetched.ends[partition] = self.positions[partition] = self.ends[partition]

    def close(self) -> None:
        self.closed = True


class Listener:
    """Writes down the calls that it gets."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __getattr__(self, name: str) -> Any:
        what = name.removeprefix("on_")
        return lambda *details: self.told.append(" ".join(map(str, (what, *details))))


class Writer:
    """Takes dead letters, or says that the thread is to end before they are written."""

    def __init__(self) -> None:
        self.letters: list[OutputRecord] = []
        self.writes = True

    def form(self) -> DeadLetters:
        return DeadLetters("dead")

    def write(self, letters: list[OutputRecord]) -> bool:
        if self.writes:
            self.letters += letters
        return self.writes


class Globals:
    """Makes global threads over one broker and one directory, one after the other."""

    def __init__(self, directory: Path, broker: FakeBroker) -> None:
        self.directory = directory
        self.broker = broker
        self.listener = Listener()
        self.writer = Writer()
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.clock = MockClock()
        self.resources = StateResources(8 << 20)
        self._started: list[GlobalThread] = []

    def task(self, topology: Topology, settings: StreamsConfig) -> GlobalTask:
        directory = self.directory / "app"
        return GlobalTask(topology.global_stores(), settings, self.clock, self.resources, directory, self.writer)

    def thread(self, topology: Topology, settings: StreamsConfig | None = None) -> GlobalThread:
        """A thread that is not started."""
        broker = cast(Any, self.broker)
        settings = settings or config(commit_interval_ms=0)
        task = self.task(topology, settings)
        listener = cast(Any, self.listener)
        reading = GlobalReading(task, broker, broker, self.clock)
        flushes = FlushSchedule(settings.commit_interval_ms / 1000, self.clock)
        return GlobalThread("global", task, reading, flushes, self.failures, lambda: listener)

    def start(self, topology: Topology, settings: StreamsConfig | None = None) -> GlobalThread:
        """A thread that works; ``stop`` ends it."""
        thread = self.thread(topology, settings)
        self._started.append(thread)
        thread.start()
        thread.begin()
        return thread

    def restored(self, topology: Topology, settings: StreamsConfig | None = None) -> GlobalThread:
        """A thread that has restored everything."""
        thread = self.start(topology, settings)
        assert thread.restored.wait(TIMEOUT), self.failures.get_nowait()
        return thread

    def stop(self) -> None:
        """End what runs, as an instance does."""
        for thread in self._started:
            thread.stop()
            thread.join(TIMEOUT)
            assert not thread.is_alive()
        self._started.clear()
        self.broker.positions.clear()
