"""``TopologyTestDriver``: runs a topology without a broker, record by record, on the caller's thread (KIP-247).

It drives the same task code as the runtime: one task holds the whole topology, or each group of partitions has a task,
and every record is processed completely and committed before ``pipe_input`` returns. Records written to a topic that
the topology reads are fed back in.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Mapping, Sequence, Set as AbstractSet
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import TopologyError, UserInputError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.api import Duration
from streamsapp.record import Headers, InputRecord, TopicPartition
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.runtime.idle_inputs import IdleInputs
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.by_name import of_kind
from streamsapp.state.kinds.session import SessionStoreImpl
from streamsapp.state.kinds.versioned import VersionedStoreImpl
from streamsapp.state.kinds.window import WindowStoreImpl
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.fed_records import fed_record
from streamsapp.tasks.record_queue import ProcessingControl
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask, TaskEpoch
from streamsapp.tasks.task_context import record_by_record
from streamsapp.testing.driven_calls import DrivenCalls
from streamsapp.testing.given import unknown
from streamsapp.testing.mock_clock import MockClock
from streamsapp.testing.plans import Partitions, TopicPartitions, plans_by_partition, whole, whole_plan
from streamsapp.testing.stores import PlainValues, PlainWindows
from streamsapp.testing.topics import TestInputTopic, TestOutputTopic
from streamsapp.topology.builder import Topology
from streamsapp.topology.naming import check_names
from streamsapp.topology.nodes import SinkNode, SubTopology

S = TypeVar("S")


class TopologyTestDriver(JavaNames):
    """Pipes records through a topology and gives back the results, without a broker (KIP-247).

    ``config`` may leave ``bootstrap_servers`` out. Wall-clock time stands still, beginning at ``initial_wall_clock_ms``
    (milliseconds since 1970), until it is advanced. Close the driver, or use it as a context manager: it closes the
    processors and removes the state.

    ``partitions`` is the number that every topic has, or ``{topic: number}``, where the others have one. With more than
    one the driver has the application's tasks (KIP-1238): each has state and stream time of its own, and records find
    their partition as in Kafka. Raises ``TopicError`` if topics that are joined are not co-partitioned.
    """

    def __init__(
        self,
        topology: Topology,
        config: StreamsConfig | None = None,
        initial_wall_clock_ms: int = 0,
        partitions: Partitions = 1,
    ) -> None:
        if not isinstance(topology, Topology):
            raise TopologyError(
                f"TopologyTestDriver drives a Topology, got {type(topology).__name__}; give what build() returns"
            )
        self._config = config or StreamsConfig(application_id="test", bootstrap_servers="none:9092")
        check_names(topology.naming_fault, self._config)
        topology = topology.with_store_format(self._config.dsl_store_format)
        self._clock = MockClock(initial_wall_clock_ms)
        self._partitions = TopicPartitions(partitions)
        self._directory = Path(tempfile.mkdtemp(prefix="streamsapp-test-"))
        self._outputs: defaultdict[str, deque[OutputRecord]] = defaultdict(deque)
        self._written: set[str] = set()
        self._offsets: defaultdict[TopicPartition, int] = defaultdict(int)
        self._control = ProcessingControl()
        self._resources = StateResources()
        self._driven = DrivenCalls()
        self._global = self._make_global_task(topology)
        self._whole = self._parts(topology)
        self._internal = {topic.name for topic in self._whole.repartition_sources} | set(self._whole.repartition_sinks)
        self._tasks = self._make_tasks(topology)
        self._idle = IdleInputs(self._clock, self._ends, lambda task: None)
        self._idle.add(self._tasks)

    # ---- topics ------------------------------------------------------------------------------------------------

    def create_input_topic(
        self,
        topic: str,
        key_serde: AnySerde,
        value_serde: AnySerde,
        start_ms: datetime | int = 0,
        auto_advance_ms: Duration = 0,
    ) -> TestInputTopic:
        """Returns a topic to pipe records into; its time begins at ``start_ms`` (milliseconds since 1970, or a
        ``datetime`` with a zone) and advances with each record by ``auto_advance_ms`` (milliseconds, or a
        ``timedelta``). Raises ``TopologyError`` if no source of the topology reads the topic, and ``UserInputError``
        for a serde that is none."""
        if topic not in self._global.by_topic and self._input_of(topic) is None:
            raise TopologyError(not_read(topic, self._global.by_topic.keys() | self._topics_read()))
        return TestInputTopic(topic, key_serde, value_serde, start_ms, auto_advance_ms, self._pipe)

    def create_output_topic(
        self, topic: str, key_serde: AnySerde, value_serde: AnySerde, partition: int | None = None
    ) -> TestOutputTopic:
        """Returns a topic to read results from, or one ``partition`` of it; internal topics have their full names.
        Raises ``TopologyError`` if the topology never writes the topic, and ``UserInputError`` for a serde or a
        partition that is none."""
        self.require_written(topic)
        if partition is not None:
            self._partitions.require(topic, partition)
        return TestOutputTopic(topic, key_serde, value_serde, self._outputs[topic], partition)

    @property
    def produced_topic_names(self) -> set[str]:
        """Returns the names of the topics that were written so far, internal ones included."""
        return set(self._written)

    def require_written(self, topic: str) -> None:
        """Raises ``TopologyError`` for a topic that nothing writes; a sink that chooses by record may write any."""
        sinks = [node.topic for node in self._whole.nodes if isinstance(node, SinkNode)]
        fixed = {self._full_name(each) for each in sinks if isinstance(each, str)}
        letters = {self._config.dead_letter_queue_topic or ""} - {""}
        changelogs = {each.topic for task in self._tasks for each in task.plan.changelogs.values()}
        if topic in fixed | letters | changelogs | self._written or not all(isinstance(each, str) for each in sinks):
            return
        raise TopologyError(f"the topology never writes topic {topic}; it writes: {unknown(topic, fixed | changelogs)}")

    # ---- stores ------------------------------------------------------------------------------------------------

    @overload
    def get_state_store(self, name: str, *, partition: int | None = None) -> Any: ...
    @overload
    def get_state_store(self, name: str, kind: Callable[..., S], partition: int | None = None) -> S: ...
    def get_state_store(self, name: str, kind: Any = None, partition: int | None = None) -> Any:
        """Returns the store as the processors that write it see it; raises ``KeyError`` if there is none of that
        name. With a ``kind``, such as ``KeyValueStore[str, int]``, it raises ``TopologyError`` for a store of another
        kind, and is annotated as that. Where several tasks have the store, ``partition`` names the task; without it,
        or for a partition that no task has, it raises ``UserInputError``."""
        found = {task.id.partition: task.stores.stores for task in self._tasks if name in task.stores.stores}
        if name in self._global.stores.stores:
            return of_kind(self._global.stores.stores[name], name, kind)
        if not found:
            known = {each for task in self._tasks for each in task.stores.stores} | self._global.stores.stores.keys()
            raise KeyError(f"the topology has no store {name!r}; it has: {unknown(name, known)}")
        if partition is None and len(found) == 1:
            partition = next(iter(found))
        if partition not in found:
            raise UserInputError(
                f"store {name!r} has one part in each of the partitions {', '.join(map(str, found))}; name one of them "
                f"with partition=, got {partition!r:.50}"
            )
        return of_kind(found[partition][name], name, kind)

    def get_key_value_store(self, name: str, partition: int | None = None) -> Any:
        """Returns the store with plain values, even if it keeps timestamps; raises ``KeyError`` if there is none of
        that name."""
        return PlainValues(self.get_state_store(name, partition=partition), self._clock.now_ms)

    def get_window_store(self, name: str, partition: int | None = None) -> Any:
        """Returns the window store with plain values, even if it keeps timestamps; raises ``KeyError`` if there is
        none."""
        return PlainWindows(self._store_of(name, WindowStoreImpl, partition), self._clock.now_ms)

    def get_session_store(self, name: str, partition: int | None = None) -> Any:
        """Returns the session store; raises ``KeyError`` if there is none of that name."""
        return self._store_of(name, SessionStoreImpl, partition)

    def get_versioned_store(self, name: str, partition: int | None = None) -> Any:
        """Returns the versioned store; raises ``KeyError`` if there is none of that name."""
        return self._store_of(name, VersionedStoreImpl, partition)

    def _store_of(self, name: str, kind: type, partition: int | None) -> Any:
        store = self.get_state_store(name, partition=partition)
        if not isinstance(store, kind):
            raise KeyError(f"store {name!r} is of another kind; get_state_store({name!r}) returns it as it is")
        return store

    # ---- time --------------------------------------------------------------------------------------------------

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Moves the clock by a ``timedelta`` or milliseconds, and calls the wall-clock callbacks that became due.
        Inputs with ``idle_after`` that were silent for so long get one time marker, with all the time that passed."""
        self._clock.advance(duration)
        self._global.stores.commit({})
        for task in self._tasks:
            task.punctuate_wall_clock()
            self._commit(task)
        self._complete_work()
        self._idle.run()
        self._complete_work()

    def _ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Returns where partitions begin and end, as a broker would."""
        return {each: (0, self._offsets[each]) for each in partitions}

    def close(self) -> None:
        """Closes the processors and removes the state."""
        with ExitStack() as ends:
            ends.callback(shutil.rmtree, self._directory, ignore_errors=True)
            ends.callback(self._global.close)
            ends.callback(self._driven.close)
            for task in reversed(self._tasks):
                ends.callback(_close, task)
            self._tasks = []

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- the work ----------------------------------------------------------------------------------------------

    def _make_global_task(self, topology: Topology) -> GlobalTask:
        stores, letters = topology.global_stores(), _Letters(self._config, self._deliver)
        task = GlobalTask(stores, self._config, self._clock, self._resources, self._directory, letters)
        task.open()
        task.start()
        return task

    def _parts(self, topology: Topology) -> SubTopology:
        return whole(topology)

    def _restored(self, changelogs: Mapping[str, TopicPartition]) -> Mapping[str, Sequence[InputRecord]]:
        """Returns what stores begin with: the records of their changelogs."""
        return {}

    def _make_tasks(self, topology: Topology) -> list[StreamTask]:
        config, shared = self._config, self._global.stores.stores
        if self._partitions.make_tasks:
            plans = plans_by_partition(topology, config, self._partitions)
        else:
            plans = [whole_plan(self._whole, config.application_id, shared, self._full_name)]
        # Results of closed windows go out with the record that closes them, as in Kafka Streams' test driver.
        assembly = TaskAssembly(
            config, self._resources, self._clock, self._global.stores.for_tasks, record_by_record, self._driven.calls
        )
        return [
            assembly.started(plan, self._directory / str(plan.id), self._restored(plan.changelogs)) for plan in plans
        ]

    def _full_name(self, topic: str) -> str:
        return f"{self._config.application_id}-{topic}" if topic in self._internal else topic

    def _input_of(self, topic: str, partition: int = 0) -> TopicPartition | None:
        """Returns the input that has the records of a partition, if the topology reads the topic. A topic that a
        pattern matches is added to the one task when it is first used."""
        if self._partitions.make_tasks:
            found = TopicPartition(topic, partition)
            return found if any(found in task.queues for task in self._tasks) else None
        found = TopicPartition(topic, 0)  # with all partitions, each with offsets of its own
        if found not in self._tasks[0].queues:
            node = next((n for n in self._whole.sources if n.pattern and n.pattern.fullmatch(topic)), None)
            if node is None:
                return None
            self._tasks[0].add_input(found, node)
            self._idle.add(self._tasks)
        return found

    def _pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
        partition: int | None,
    ) -> None:
        if partition is None:
            partition = self._partitions.chosen(topic, key)
        self._partitions.require(topic, partition)
        record = self._numbered(topic, partition, key, value, timestamp, headers)
        self._global.stores.commit({})  # what the test itself wrote
        self._enqueue(record)
        self._complete_work()
        self._fill_global_store(record)

    def _numbered(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
    ) -> InputRecord:
        numbered = TopicPartition(topic, partition)
        self._offsets[numbered] += 1
        return fed_record(topic, partition, self._offsets[numbered] - 1, key, value, timestamp, headers)

    def _enqueue(self, record: InputRecord) -> None:
        found = self._input_of(record.topic(), record.partition())
        for task in self._tasks:
            if found is not None and found in task.queues:
                task.add_records(found, [record])

    def _fill_global_store(self, record: InputRecord) -> None:
        if record.topic() in self._global.by_topic:
            self._global.update(TopicPartition(record.topic(), record.partition()), [record])

    def _complete_work(self) -> None:
        """Lets the tasks process a record each in turn, until none has one that does not wait."""
        while sum(map(self._process_next, self._tasks)):
            pass

    def _process_next(self, task: StreamTask) -> bool:
        """Processes the next record of a task, and says whether it had one that does not wait."""
        for partition in task.queues:
            task.reached_end(partition)
        if not task.buffered_records or task.wait_ms(self._clock.now_ms()) != 0:
            return False
        while not task.process(self._control, 1) and task.is_expiring:
            pass
        if task.is_expiring:  # a marker has moved time
            task.expire()
        task.punctuate_stream_time()  # what the wall clock scheduled is due, also where the record was dropped
        self._commit(task)
        return True

    def _commit(self, task: StreamTask) -> None:
        """Commits as the runtime does: emits held results, ends the epoch, writes the changelog, applies it to the
        stores."""
        task.emit_all_held()
        while task.deliver():
            task.emit_all_held()
        output = task.take_output()
        epoch = task.freeze()
        if epoch is not None and epoch.frozen is not None:
            self._apply(epoch)
        for record in output:
            self._deliver(record)

    def _apply(self, epoch: TaskEpoch) -> None:
        assert epoch.frozen is not None
        positions: dict[str, int] = {}
        for store, changes in epoch.frozen.changelogs():
            changelog = epoch.task.plan.changelogs.get(store)
            if changelog is not None:
                for records in changes.records(*changelog, len(changes)):
                    self._outputs[changelog.topic].extend(records)
                    self._offsets[changelog] += len(records)
                self._written.add(changelog.topic)
                positions[store] = self._offsets[changelog]
        for _ in epoch.task.stores.apply(epoch.frozen, positions):
            pass

    def _deliver(self, record: OutputRecord) -> None:
        topic, value, key, partition, _, _, timestamp, headers = record
        if partition < 0:
            partition = self._partitions.chosen(topic, key)
        self._outputs[topic].append((topic, value, key, partition, None, None, timestamp, headers))
        self._written.add(topic)
        if self._input_of(topic, partition) is not None or topic in self._global.by_topic:
            fed_back = self._numbered(topic, partition, key, value, timestamp, headers)
            self._enqueue(fed_back)
            self._fill_global_store(fed_back)

    def _topics_read(self) -> set[str]:
        return {each.topic for task in self._tasks for each in task.queues}


class _Letters:
    """Hands the dead letters of global stores on like any output."""

    def __init__(self, config: StreamsConfig, deliver: Callable[[OutputRecord], None]) -> None:
        self._topic = config.dead_letter_queue_topic
        self._deliver = deliver

    def form(self) -> DeadLetters:
        return DeadLetters(self._topic)

    def write(self, letters: list[OutputRecord]) -> bool:
        for letter in letters:
            self._deliver(letter)
        return True


def _close(task: StreamTask) -> None:
    try:
        task.close_user_code()
    finally:
        task.transition(TaskState.CLOSED)
        task.stores.close()


def not_read(topic: str, read: AbstractSet[str]) -> str:
    """Returns the message about a topic that no source reads."""
    return f"no source of the topology reads topic {topic}; it reads: {unknown(topic, read)}"
