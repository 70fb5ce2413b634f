"""A restoration thread that is driven pass by pass, over a fake broker that keeps changelogs.

Called by the tests of the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, cast

from confluent_kafka import KafkaError, KafkaException

from fetched_batches import fetched_batch
from streamsapp import Serdes, TaskId, TopicPartition, Topology, native
from streamsapp.kafka.fetching.decompression import all_decompressed
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Fetched
from streamsapp.record import RawRecord, TopicIdentity
from streamsapp.runtime.directory_preparation import NOTHING_TO_PREPARE, DirectoryPreparer
from streamsapp.runtime.listeners import StandbyUpdateListener, StateRestoreListener, SuspendReason
from streamsapp.runtime.restoration import RestorationThread
from streamsapp.runtime.restore_consumer import RestoreConsumer
from streamsapp.runtime.restore_events import RestoreEvents
from streamsapp.runtime.task_lookups import TaskLookups
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KEY_VALUE
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_context import TaskContext
from streamsapp.testing import MockClock
from task_parts import config, raw, task_of, through


@dataclass
class Log:
    """One partition on the broker; offsets without a record are control records or were compacted away."""

    records: list[RawRecord]
    end: int
    low: int = 0


def packed_records(partition: TopicPartition, records: Sequence[RawRecord]) -> native.PackedRecords:
    """As they come where record batches are fetched whole."""
    base = records[0].offset()
    given = ((it.offset() - base, it.timestamp()[1], it.key(), it.value(), it.headers()) for it in records)
    chunk = native.Chunk(
        topic=partition.topic,
        partition=partition.partition,
        data=fetched_batch(base, given),
        position=base,
        aborted=[],
        decompress=partial(all_decompressed, most=1 << 28),
    )
    return chunk.take_packed(len(records))


#: Of each topic, as long as it was not created anew.
FIRST_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


class FakeConsumer:
    """Delivers up to ``limit`` records per partition and poll, and says so when a partition's end is reached."""

    def __init__(self) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        #: One after the other, also those that are not read any more.
        self.assigned: list[TopicPartition] = []
        self.packed: set[TopicPartition] = set()
        self.offsets: dict[TopicPartition, int] = {}
        #: Ids of topics that were created anew.
        self.ids: dict[str, str] = {}
        self.cluster = "cluster"
        #: Reported with the next poll.
        self.replaced: list[TopicPartition] = []
        self.limit = 1000
        #: How often the wait for records was ended.
        self.ended_waits = 0
        self.error: Exception | None = None
        self.closed = False
        #: True while the broker does not answer requests for committed offsets.
        self.silent = False

    def watermarks(self, partition: TopicPartition, *, cached: bool) -> tuple[int, int] | None:
        log = self.logs.get(partition)
        return None if log is None else (log.low, log.end)

    def end_wait(self) -> None:
        self.ended_waits += 1

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def reposition(
        self, positions: Mapping[TopicPartition, int], topics: Mapping[str, TopicIdentity] = NO_TOPICS
    ) -> None:
        self.unassign(positions)
        self.assign(positions)

    def committed_by_now(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, int] | None:
        return None if self.silent else {each: self.offsets[each] for each in partitions if each in self.offsets}

    def topics(self, names: Iterable[str]) -> dict[str, TopicIdentity]:
        return {each: TopicIdentity(self.ids.get(each, FIRST_ID), self.cluster) for each in names}

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str]]:
        return {each: (self.offsets[each], "") for each in partitions if each in self.offsets}

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Mapping[str, TopicIdentity] = NO_TOPICS,
    ) -> None:
        self.assigned += positions
        self.positions |= positions
        self.packed |= set(packed)

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            if partition not in self.positions:
                raise KafkaException(KafkaError(KafkaError._INVALID_ARG, "can't subtract what is not assigned"))
            del self.positions[partition]
            self.paused.discard(partition)
            self.packed.discard(partition)

    def poll(self, limit: int, timeout: float) -> Fetched:
        if self.error is not None:
            raise self.error
        fetched = Fetched(replaced=self.replaced)
        self.replaced = []
        for partition, position in self.positions.items():
            if partition in self.paused:
                continue
            log = self.logs[partition]
            if position < log.low:
                fetched.out_of_range.append(partition)
                continue
            batch = [each for each in log.records if each.offset() >= position][: self.limit]
            if batch:
                if partition in self.packed:
                    fetched.packed.append((partition, packed_records(partition, batch)))
                else:
                    fetched.records.append((partition, batch))
                self.positions[partition] = batch[-1].offset() + 1
            else:
                fetched.ends[partition] = self.positions[partition] = log.end
        return fetched

    def close(self) -> None:
        self.closed = True


class FakeAdmin:
    """Reports where the fake broker's logs begin and end; answers are late until ``answers`` is set."""

    def __init__(self, consumer: FakeConsumer) -> None:
        self.logs = consumer.logs
        #: Of topics that were deleted and created again.
        self.ids: dict[str, str] = {}
        self.compacts = True
        #: Of all topics; and the answer to a question for them.
        self.settings: dict[str, str] = {}
        self.refusal: KafkaException | None = None

    def ends(
        self, partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        return self.request_offsets(partitions, earliest=True).result(), self.request_offsets(partitions).result()

    def topic_ids(self, topics: Iterable[str]) -> dict[str, str]:
        return {topic: self.ids.get(topic, f"id of {topic}") for topic in topics}

    def only_compacts(self, topic: str) -> bool:
        return self.compacts

    def setting(self, topic: str, name: str) -> str:
        if self.refusal is not None or name not in self.settings:
            raise self.refusal or KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return self.settings[name]

    def request_offsets(self, partitions: Iterable[TopicPartition], *, earliest: bool = False) -> Answer:
        asked = list(partitions)
        missing = [each for each in asked if each not in self.logs]
        if missing:
            error = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED, f"not allowed to describe {missing[0]}")
            return Answer(KafkaException(error))
        return Answer({each: self.logs[each].low if earliest else self.logs[each].end for each in asked})


@dataclass
class Answer:
    """The broker's answer about offsets."""

    says: dict[TopicPartition, int] | KafkaException
    done = True

    def result(self) -> dict[TopicPartition, int]:
        if isinstance(self.says, KafkaException):
            raise self.says
        return self.says


class Listener(StateRestoreListener):
    """Writes down the calls that it gets; raises in the call that ``raises_in`` names."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.raises_in = ""

    def on_restore_start(
        self, topic_partition: TopicPartition, store_name: str, starting_offset: int, ending_offset: int
    ) -> None:
        self._note("start", topic_partition, store_name, starting_offset, ending_offset)

    def on_batch_restored(
        self, topic_partition: TopicPartition, store_name: str, batch_end_offset: int, num_restored: int
    ) -> None:
        self._note("batch", topic_partition, store_name, batch_end_offset, num_restored)

    def on_restore_end(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self._note("end", topic_partition, store_name, total_restored)

    def on_restore_suspended(self, topic_partition: TopicPartition, store_name: str, total_restored: int) -> None:
        self._note("suspended", topic_partition, store_name, total_restored)

    def _note(self, what: str, partition: TopicPartition, store: str, *numbers: int) -> None:
        self.told.append(" ".join(map(str, (what, partition, store, *numbers))))
        if what == self.raises_in:
            raise RuntimeError("the listener is broken")


class StandbyListener(StandbyUpdateListener):
    """Writes down the calls that it gets, among those of the restore listener."""

    def __init__(self, listener: Listener) -> None:
        self._note = listener._note

    def on_update_start(self, topic_partition: TopicPartition, store_name: str, starting_offset: int) -> None:
        self._note("update from", topic_partition, store_name, starting_offset)

    def on_batch_loaded(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        task_id: TaskId,
        batch_end_offset: int,
        batch_size: int,
        current_end_offset: int,
    ) -> None:
        self._note(f"{task_id} loaded", topic_partition, store_name, batch_end_offset, batch_size, current_end_offset)

    def on_update_suspended(
        self,
        topic_partition: TopicPartition,
        store_name: str,
        store_offset: int,
        current_end_offset: int,
        reason: SuspendReason,
    ) -> None:
        self._note(f"update {reason.value}", topic_partition, store_name, store_offset, current_end_offset)


class Restoring:
    """A restoration thread whose passes the test makes, and tasks for it."""

    def __init__(
        self, directory: Path, preparer: Callable[[FakeAdmin, MockClock], DirectoryPreparer] | None = None
    ) -> None:
        self.directory = directory
        self.resources = StateResources(8 << 20, backlog_bytes=0)
        self.consumer = FakeConsumer()
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.listener = Listener()
        self.standby_listener = StandbyListener(self.listener)
        self.clock = MockClock()
        self.admin = FakeAdmin(self.consumer)
        consumer = cast(Any, self.consumer)
        events = RestoreEvents(consumer, lambda: self.listener, lambda: self.standby_listener)
        #: Look-ups that have begun wait here while this is a list.
        self.lookups: list[Callable[[], None]] | None = None
        lookups = TaskLookups(consumer, cast(Any, self.admin), self.clock, self._look_up)
        self.reading = RestoreConsumer(consumer, cast(Any, self.admin), events, self.clock, lookups)
        #: Says whether there was a restored task, at each notice to the polling thread.
        self.told: list[bool] = []
        self.thread = RestorationThread(
            "restoration",
            self.reading,
            self.failures,
            self.clock,
            NOTHING_TO_PREPARE if preparer is None else preparer(self.admin, self.clock),
            on_restored=lambda: self.told.append(not self.thread.restored.empty()),
        )

    def _look_up(self, work: Callable[[], None]) -> None:
        work() if self.lookups is None else self.lookups.append(work)

    def log(self, partition: TopicPartition, *offsets: int, end: int | None = None, low: int = 0) -> None:
        """The broker has these records, keyed by their offset."""
        records = [raw(offset, topic=partition.topic, partition=partition.partition, key=b"%d" % offset)
                   for offset in offsets]  # fmt: skip
        self.consumer.logs[partition] = Log(records, (offsets[-1] + 1 if offsets else 0) if end is None else end, low)

    def task(
        self, number: int = 0, *stores: str, engine: Engine = Engine.ROCKSDB, role: TaskRole = TaskRole.ACTIVE
    ) -> StreamTask:
        """A task as it is handed over."""
        topology = _with_stores(stores or ("s",), engine)
        made = task_of(topology, number, running=False)
        context = TaskContext("app", made.id, MockClock())
        return StreamTask(made.plan, self.stores(topology, number), context, config(), role)

    def stores(self, topology: Topology, number: int = 0) -> TaskStores:
        return TaskStores(
            TaskId(0, number),
            self.directory / f"0_{number}",
            topology.sub_topologies()[0].stores,
            self.resources,
            default_serdes=(Serdes.string(), Serdes.string()),
            context_timestamp=lambda: 0,
        )

    def leave_on_disk(self, key: str, offset: int, number: int = 0) -> None:
        """An earlier run restored one record and stood at this offset when it ended."""
        stores = self.stores(_with_stores(("s",), Engine.ROCKSDB), number)
        stores.open()
        stores.restore("s", [raw(offset - 1, key=key.encode())], offset)
        stores.close()

    def passes(self, count: int = 1) -> None:
        for _ in range(count):
            self.thread._pass()

    def restore(self, *tasks: StreamTask) -> None:
        """Hand tasks over and go on until there is nothing to restore."""
        for task in tasks:
            self.thread.add(task)
        self.passes()
        while self.restoring:
            self.passes()

    @property
    def restoring(self) -> list[TopicPartition]:
        """Changelogs of active tasks that are being read."""
        return [partition for partition, reader in self.reading.readers.items() if not reader.follows]

    @property
    def restored(self) -> list[TaskId]:
        """Takes what is complete."""
        return [task.id for task in taken(self.thread.restored)]

    @property
    def failed(self) -> list[tuple[TaskId | None, str]]:
        """Takes what failed."""
        return [(failure.task_id, str(failure.error)) for failure in taken(self.failures)]


def _with_stores(names: Iterable[str], engine: Engine) -> Topology:
    topology = through()
    for name in names:
        topology.add_state_store(StoreBuilder(name, KEY_VALUE, engine), "node")
    return topology


def taken(queue: SimpleQueue[Any]) -> list[Any]:
    """Takes all that is in a queue."""
    taken = []
    while True:
        try:
            taken.append(queue.get_nowait())
        except Empty:
            return taken


def keys(task: StreamTask, store: str = "s") -> list[str]:
    return [key for key, _ in task.stores.stores[store].all()]
