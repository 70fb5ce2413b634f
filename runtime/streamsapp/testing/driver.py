"""``TopologyTestDriver``: runs a topology without a broker, record by record, on the caller's thread (KIP-247).

It drives the same task code as the runtime: one task holds the whole topology, and every record is processed completely
and committed before ``pipe_input`` returns. Records written to a topic that the topology reads are fed back in.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, overload

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import TopologyError
from streamsapp.java_names.lookup import JavaNames
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.api import Duration
from streamsapp.record import Headers, InputRecord, TaskId, TopicPartition
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.by_name import of_kind
from streamsapp.state.kinds.session import SessionStoreImpl
from streamsapp.state.kinds.versioned import VersionedStoreImpl
from streamsapp.state.kinds.window import WindowStoreImpl
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.fed_records import fed_record
from streamsapp.tasks.record_queue import ProcessingControl
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask, TaskEpoch, TaskPlan
from streamsapp.tasks.task_context import record_by_record
from streamsapp.testing.given import unknown
from streamsapp.testing.mock_clock import MockClock
from streamsapp.testing.stores import PlainValues, PlainWindows
from streamsapp.testing.topics import TestInputTopic, TestOutputTopic
from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import SinkNode, SubTopology

_TASK = TaskId(0, 0)

S = TypeVar("S")


class TopologyTestDriver(JavaNames):
    """Pipes records through a topology and gives back the results, without a broker (KIP-247).

    ``config`` may leave ``bootstrap_servers`` out. Wall-clock time stands still, beginning at ``initial_wall_clock_ms``
    (milliseconds since 1970), until it is advanced. Close the driver, or use it as a context manager: it closes the
    processors and removes the state.
    """

    def __init__(self, topology: Topology, config: StreamsConfig | None = None, initial_wall_clock_ms: int = 0) -> None:
        if not isinstance(topology, Topology):
            raise TopologyError(
                f"TopologyTestDriver drives a Topology, got {type(topology).__name__}; give what build() returns"
            )
        self._config = config or StreamsConfig(application_id="test", bootstrap_servers="none:9092")
        self._clock = MockClock(initial_wall_clock_ms)
        self._directory = Path(tempfile.mkdtemp(prefix="streamsapp-test-"))
        self._outputs: defaultdict[str, deque[OutputRecord]] = defaultdict(deque)
        self._written: set[str] = set()
        self._offsets: defaultdict[TopicPartition, int] = defaultdict(int)
        self._control = ProcessingControl()
        self._resources = StateResources()
        self._global = self._make_global_task(topology)
        self._whole = self._parts(topology)
        self._sources = {topic: node for node in self._whole.sources for topic in node.topics}
        self._internal = {topic.name for topic in self._whole.repartition_sources} | set(self._whole.repartition_sinks)
        self._task = self._make_task()

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
        if topic not in self._global.by_topic:
            self._queue_of(TopicPartition(topic, 0))
        return TestInputTopic(topic, key_serde, value_serde, start_ms, auto_advance_ms, self._pipe)

    def create_output_topic(self, topic: str, key_serde: AnySerde, value_serde: AnySerde) -> TestOutputTopic:
        """Returns a topic to read results from; internal topics have their full names. Raises ``TopologyError`` if the
        topology never writes the topic, and ``UserInputError`` for a serde that is none."""
        self.require_written(topic)
        return TestOutputTopic(topic, key_serde, value_serde, self._outputs[topic])

    @property
    def produced_topic_names(self) -> set[str]:
        """Returns the names of the topics that were written so far, internal ones included."""
        return set(self._written)

    def require_written(self, topic: str) -> None:
        """Raises ``TopologyError`` for a topic that nothing writes; a sink that chooses by record may write any."""
        sinks = [node.topic for node in self._whole.nodes if isinstance(node, SinkNode)]
        fixed = {self._full_name(each) for each in sinks if isinstance(each, str)}
        letters = {self._config.dead_letter_queue_topic or ""} - {""}
        changelogs = {each.topic for each in self._task.plan.changelogs.values()}
        if topic in fixed | letters | changelogs | self._written or not all(isinstance(each, str) for each in sinks):
            return
        raise TopologyError(f"the topology never writes topic {topic}; it writes: {unknown(topic, fixed | changelogs)}")

    # ---- stores ------------------------------------------------------------------------------------------------

    @overload
    def get_state_store(self, name: str) -> Any: ...
    @overload
    def get_state_store(self, name: str, kind: Callable[..., S]) -> S: ...
    def get_state_store(self, name: str, kind: Any = None) -> Any:
        """Returns the store as the processors that write it see it; raises ``KeyError`` if there is none of that
        name. With a ``kind``, such as ``KeyValueStore[str, int]``, it raises ``TopologyError`` for a store of another
        kind, and is annotated as that."""
        stores = {**self._task.stores.stores, **self._global.stores.stores}
        if name not in stores:
            raise KeyError(f"the topology has no store {name!r}; it has: {unknown(name, stores)}")
        return of_kind(stores[name], name, kind)

    def get_key_value_store(self, name: str) -> Any:
        """Returns the store with plain values, even if it keeps timestamps; raises ``KeyError`` if there is none of
        that name."""
        return PlainValues(self.get_state_store(name), self._clock.now_ms)

    def get_window_store(self, name: str) -> Any:
        """Returns the window store with plain values, even if it keeps timestamps; raises ``KeyError`` if there is
        none."""
        return PlainWindows(self._store_of(name, WindowStoreImpl), self._clock.now_ms)

    def get_session_store(self, name: str) -> Any:
        """Returns the session store; raises ``KeyError`` if there is none of that name."""
        return self._store_of(name, SessionStoreImpl)

    def get_versioned_store(self, name: str) -> Any:
        """Returns the versioned store; raises ``KeyError`` if there is none of that name."""
        return self._store_of(name, VersionedStoreImpl)

    def _store_of(self, name: str, kind: type) -> Any:
        store = self.get_state_store(name)
        if not isinstance(store, kind):
            raise KeyError(f"store {name!r} is of another kind; get_state_store({name!r}) returns it as it is")
        return store

    # ---- time --------------------------------------------------------------------------------------------------

    def advance_wall_clock_time(self, duration: Duration) -> None:
        """Moves the clock by a ``timedelta`` or milliseconds, and calls the wall-clock callbacks that became due."""
        self._clock.advance(duration)
        self._global.stores.commit({})
        self._task.punctuate_wall_clock()
        self._commit()
        self._complete_work()

    def close(self) -> None:
        """Closes the processors and removes the state."""
        if self._task.state is TaskState.CLOSED:
            return
        try:
            self._task.close_user_code()
        finally:
            self._task.transition(TaskState.CLOSED)
            self._task.stores.close()
            self._global.close()
            shutil.rmtree(self._directory, ignore_errors=True)

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- the work ----------------------------------------------------------------------------------------------

    def _make_global_task(self, topology: Topology) -> GlobalTask:
        task = GlobalTask(topology.global_stores(), self._config, self._clock, self._resources, self._directory)
        task.open()
        task.start()
        return task

    def _parts(self, topology: Topology) -> SubTopology:
        return _whole(topology)

    def _restored(self, changelogs: Mapping[str, TopicPartition]) -> Mapping[str, Sequence[InputRecord]]:
        """Returns what stores begin with: the records of their changelogs."""
        return {}

    def _make_task(self) -> StreamTask:
        config = self._config
        plan = TaskPlan(
            id=_TASK,
            sub_topology=self._whole.with_access_to(self._global.stores.stores),
            inputs={TopicPartition(self._full_name(topic), 0): node for topic, node in self._sources.items()},
            changelogs={
                store.name: TopicPartition(f"{config.application_id}-{store.name}-changelog", 0)
                for store in self._whole.stores
                if store.logging and store.changelog_topic is None
            },
            source_changelogs={
                store.name: TopicPartition(store.changelog_topic, 0)
                for store in self._whole.stores
                if store.changelog_topic is not None
            },
            topic_name=self._full_name,
            partition_count=lambda topic: 1,
        )
        # Results of closed windows go out with the record that closes them, as in Kafka Streams' test driver.
        assembly = TaskAssembly(
            config, self._resources, self._clock, self._global.stores.for_tasks, execution=record_by_record
        )
        return assembly.started(plan, self._directory, self._restored(plan.changelogs))

    def _full_name(self, topic: str) -> str:
        return f"{self._config.application_id}-{topic}" if topic in self._internal else topic

    def _queue_of(self, partition: TopicPartition) -> TopicPartition:
        """Returns the task's input for a topic; a topic that a pattern matches is added when it is first used."""
        if partition not in self._task.queues:
            node = next((n for n in self._whole.sources if n.pattern and n.pattern.fullmatch(partition.topic)), None)
            if node is None:
                read = {each.topic for each in self._task.queues} | self._global.by_topic.keys()
                raise TopologyError(not_read(partition.topic, read))
            self._task.add_input(partition, node)
        return partition

    def _task_reads(self, topic: str) -> bool:
        patterns = (node.pattern for node in self._whole.sources if node.pattern is not None)
        return TopicPartition(topic, 0) in self._task.queues or any(pattern.fullmatch(topic) for pattern in patterns)

    def _pipe(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Headers | None,
        partition: int,
    ) -> None:
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
        """Hands a record to the one task, which has all partitions of a topic, each with offsets of its own."""
        if self._task_reads(record.topic()):
            self._task.add_records(self._queue_of(TopicPartition(record.topic(), 0)), [record])

    def _fill_global_store(self, record: InputRecord) -> None:
        if record.topic() in self._global.by_topic:
            self._global.update(TopicPartition(record.topic(), record.partition()), [record])

    def _complete_work(self) -> None:
        task = self._task
        while task.buffered_records:
            for partition in task.queues:
                task.reached_end(partition)
            if task.wait_ms(self._clock.now_ms()) != 0:
                return
            task.process(self._control, 1)
            task.punctuate()  # also where the record was dropped: what the wall clock scheduled by stream time is due
            self._commit()

    def _commit(self) -> None:
        """Commits as the runtime does: emits held results, ends the epoch, writes the changelog, applies it to the
        stores."""
        task = self._task
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
            changelog = self._task.plan.changelogs.get(store)
            if changelog is not None:
                for records in changes.records(*changelog, len(changes)):
                    self._outputs[changelog.topic].extend(records)
                    self._offsets[changelog] += len(records)
                self._written.add(changelog.topic)
                positions[store] = self._offsets[changelog]
        for _ in self._task.stores.apply(epoch.frozen, positions):
            pass

    def _deliver(self, record: OutputRecord) -> None:
        topic, value, key, _, _, _, timestamp, headers = record
        self._outputs[topic].append(record)
        self._written.add(topic)
        if self._task_reads(topic) or topic in self._global.by_topic:
            fed_back = self._numbered(topic, 0, key, value, timestamp, headers)
            self._enqueue(fed_back)
            self._fill_global_store(fed_back)


def not_read(topic: str, read: AbstractSet[str]) -> str:
    """Returns the message about a topic that no source reads."""
    return f"no source of the topology reads topic {topic}; it reads: {unknown(topic, read)}"


def _whole(topology: Topology) -> SubTopology:
    """Returns all sub-topologies as one, so that they share one task and one stream time, as in Kafka's test driver."""
    topology.validate()
    parts = topology.sub_topologies()
    order = {node.name: position for position, node in enumerate(topology.nodes)}
    nodes = sorted((node for part in parts for node in part.nodes), key=lambda node: order[node.name])
    return SubTopology(
        id=_TASK.subtopology,
        nodes=tuple(nodes),
        stores=tuple(store for part in parts for store in part.stores),
        repartition_sources=tuple(topic for part in parts for topic in part.repartition_sources),
        repartition_sinks=tuple(topic for part in parts for topic in part.repartition_sinks),
    )
