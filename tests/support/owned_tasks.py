"""An instance's tasks over a fake consumer and a fake restoration thread, driven step by step.

Called by the tests of the runtime.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any, cast

from streamsapp import Processor, Record, TaskId, TopicPartition, Topology
from streamsapp.deadline import ClosingTime, Deadline
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Fetched
from streamsapp.record import TopicIdentity
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.input_feeder import InputFeeder
from streamsapp.runtime.instance_tasks import NO_CUTS, InstanceTasks
from streamsapp.runtime.start_positions import StartPositions
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KEY_VALUE
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp.testing import MockClock
from task_parts import config, feed, raw, task_of


class FakeConsumer:
    """Committed offsets, and what is fetched from where."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, tuple[int, str | None]] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.by_time: dict[int, int] = {}
        self.polls: list[Fetched] = []
        self.rests = False
        #: For how many seconds partitions were expected, each time.
        self.expected: list[float] = []

    def end_rest(self) -> None:
        self.rests = False

    def expect_partitions(self, seconds: float) -> None:
        self.expected.append(seconds)

    def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, str | None]]:
        return {each: self.offsets[each] for each in partitions if each in self.offsets}

    def offsets_for_time(self, partitions: Iterable[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self.by_time[timestamp_ms])

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Mapping[str, TopicIdentity] = NO_TOPICS,
    ) -> None:
        assert not self.positions.keys() & positions.keys(), "the client refuses what is assigned already"
        self.positions |= positions

    def topics(self, names: Iterable[str]) -> dict[str, TopicIdentity]:
        return {}

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            del self.positions[partition]

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        assert not partitions

    resume = pause

    def poll(self, limit: int, timeout: float) -> Fetched:
        return self.polls.pop(0)

    def reposition(
        self, positions: Mapping[TopicPartition, int], topics: Mapping[str, TopicIdentity] = NO_TOPICS
    ) -> None:
        self.unassign(positions)
        self.assign(positions)


class FakeRestoration:
    """Holds tasks until the test says that they are restored."""

    def __init__(self, offsets: Mapping[TopicPartition, tuple[int, str | None]]) -> None:
        self.offsets = offsets
        self.here: dict[TaskId, StreamTask] = {}
        self.restored: SimpleQueue[StreamTask] = SimpleQueue()
        self.promoted: list[StreamTask] = []
        self.settles = True

    def add(self, task: StreamTask) -> None:
        assert task.id not in self.here
        self.here[task.id] = task

    def close(self, tasks: Collection[StreamTask], *, wipe: bool = False, clean: bool = False) -> None:
        for task in tasks:
            if self.here.get(task.id) is task:
                del self.here[task.id]
            task.transition(TaskState.CLOSED)
            (task.stores.wipe if wipe else task.stores.close)()

    def wait_until_done(self, timeout: float, deadline: Deadline) -> bool:
        return self.settles

    def promote(self, task: StreamTask) -> None:
        assert task.id in self.here
        self.promoted.append(task)

    def begin(self) -> None:
        for task in self.here.values():
            task.transition(TaskState.RESTORING)
            task.stores.open()
            task.start_offsets = {
                each: ConsumedOffset(offset, OffsetMetadata.decode(metadata or "").partition_time)
                for each, (offset, metadata) in self.offsets.items()
                if each in task.plan.inputs
            }

    def finish(self) -> None:
        for task in self.here.values():
            task.changelog_positions = {"s": 0}
            self.restored.put(task)
        self.here.clear()


class Counting(Processor):
    """Counts into a store; its last words can be an exception."""

    closed: list[TaskId]
    raises_in_close = False

    def init(self, context: Any) -> None:
        self._context = context
        self._store = context.get_state_store("s")

    def process(self, record: Record) -> None:
        self._store.put(record.key, (self._store.get(record.key) or "") + record.value)

    def close(self) -> None:
        Counting.closed.append(self._context.task_id)
        if Counting.raises_in_close:
            raise RuntimeError("no last words")


def topology(offset_reset: str | None = None, engine: Engine = Engine.MEMORY) -> Topology:
    made = Topology()
    made.add_source("source", "in", offset_reset=offset_reset)
    made.add_processor("node", Counting, "source")
    return made.add_state_store(StoreBuilder("s", KEY_VALUE, engine), "node")


class Owned:
    """An instance's tasks over fakes of the consumer and the restoration thread."""

    def __init__(self, directory: Path) -> None:
        self.clock = MockClock()
        self.consumer = FakeConsumer()
        self.tasks = TaskManager(MostBufferedFirst())
        self.restoration = FakeRestoration(self.consumer.offsets)
        self.settings = config(state_dir=directory)
        self.directory = directory / self.settings.application_id
        consumer = cast(Any, self.consumer)
        self.feeder = InputFeeder(
            consumer, StartPositions(consumer, self.clock), self.tasks, 1 << 20, on_state_lost=self._lost
        )
        self.life = InstanceTasks(
            TaskAssembly(self.settings, StateResources(8 << 20), self.clock),
            self.directory,
            self.feeder,
            self.tasks,
            cast(Any, self.restoration),
            ClosingTime(self.clock),
        )

    def _lost(self, task: StreamTask, error: Exception) -> None:
        raise error

    def assign(self, *tasks: TaskId, of: Topology | None = None) -> None:
        self.take_roles(dict.fromkeys(tasks, TaskRole.ACTIVE), of)

    def take_roles(
        self,
        roles: Mapping[TaskId, TaskRole],
        of: Topology | None = None,
        moving: Collection[TaskId] = (),
        cuts: Mapping[TaskId, int] = NO_CUTS,
    ) -> None:
        made = of or topology()
        plans = {TaskId(0, number): task_of(made, number, running=False).plan for number in range(2)}
        self.life.assign(ApplicationLayout(plans, {"in": 2}, frozenset()), roles, moving, cuts)

    def run(self, *tasks: TaskId, of: Topology | None = None) -> None:
        """Assign, restore, run."""
        self.assign(*tasks, of=of)
        self.restore()

    def restore(self) -> None:
        self.restoration.begin()
        self.restoration.finish()
        self.life.take_restored()

    def process(self, task_id: TaskId, value: str, offset: int = 0) -> None:
        task = self.life.all[task_id]
        feed(task, [raw(offset, partition=task_id.partition, value=value.encode())])
        task.process(task.control, 10)

    def deleted(self, partition: TopicPartition) -> None:
        """The broker no longer has what is to be fetched next."""
        self.consumer.polls.append(Fetched(out_of_range=[partition]))
        self.feeder.feed(0)

    def commit(self, task_id: TaskId) -> None:
        task = self.life.all[task_id]
        epoch = task.freeze()
        assert epoch is not None
        list(task.stores.apply(epoch.frozen, {}))
        self.consumer.offsets |= {each: (at.offset, at.metadata) for each, at in epoch.offsets.items()}

    def stored(self, task_id: TaskId) -> dict[str, str]:
        return dict(self.life.all[task_id].stores.stores["s"].all())
