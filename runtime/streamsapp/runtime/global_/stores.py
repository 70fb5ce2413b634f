"""The global stores of one instance: one database, written by the global thread, read by everybody.

The thread that fills the stores opens, restores, writes and closes them. Tasks get them by ``for_tasks``, read-only:
what they read comes straight from RocksDB, or from the sorted dict that stands for it in memory, and not from the
write-back layer, which is one thread's. They see what a batch of the topic wrote when it is applied, a few thousand
keys at a time. A scan of a persistent store is of one moment; a scan of a store in memory shows what is written
meanwhile, as far as it has not come by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, NoReturn

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StateStoreError, TaskCorruptedError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.state.backlog import BackloggedStore
from streamsapp.state.entries import Cell, Entry, EntryFormat
from streamsapp.state.key_value import KeyValueStoreImpl
from streamsapp.state.memory import MemoryStore
from streamsapp.state.resources import StateResources
from streamsapp.state.task_stores import TaskStores
from streamsapp.state.write_back import WriteBack
from streamsapp.topology.nodes import GlobalStore

#: What processors that fill global stores see as their task, as in Kafka Streams.
GLOBAL_TASK = TaskId(-1, -1)


class _Direct(WriteBack):
    """The engine of a global store without layers above it; any number of threads may read."""

    def __init__(self, store: GlobalStore, format: EntryFormat, resources: StateResources) -> None:
        super().__init__(format, resources, keeps_timestamps=False)
        self._filled_from = f"global store {store.store.name!r} is filled from topic {store.topic}"
        self.read = lambda key: self._engine().get(key)
        self.write = self._refuse

    def prefetch(self, keys: Iterable[bytes]) -> None:
        """There is nowhere to keep them."""

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        return self._engine().scan(start, end, reverse=reverse)

    def count(self) -> int:
        return self._engine().count()

    def write_cell(self, key: bytes, stored: object, timestamp: int) -> Cell:
        self._refuse(key, stored, timestamp)

    def _refuse(self, key: bytes, stored: object, timestamp: int) -> NoReturn:
        raise StateStoreError(f"{self._filled_from} and read-only elsewhere; write to the topic instead")


class GlobalStores(TaskStores):
    """All global stores of one instance. How far each partition of their topics was read is kept with the data."""

    def __init__(
        self,
        stores: Sequence[GlobalStore],
        directory: Path,
        config: StreamsConfig,
        resources: StateResources,
        context_timestamp: Callable[[], int],
    ) -> None:
        super().__init__(
            GLOBAL_TASK,
            directory,
            [each.store for each in stores],
            resources,
            default_key_serde=config.default_key_serde,
            default_value_serde=config.default_value_serde,
            context_timestamp=context_timestamp,
            topics={each.store.name: each.topic for each in stores},
        )
        self._by_topic = {each.topic: each.store.name for each in stores}
        self._direct = {
            each.store.name: _Direct(each, self._slots[each.store.name].format, resources) for each in stores
        }
        #: The stores as tasks get them, by name.
        self.for_tasks: Mapping[str, KeyValueStoreImpl] = {
            name: _over(self.stores[name], layers) for name, layers in self._direct.items()
        }
        #: The next offset to read of each partition, as far as it is known.
        self.positions: dict[TopicPartition, int] = {}

    def open(self) -> None:
        super().open()
        self.positions = {}
        for topic, store in self._by_topic.items():
            if self.changelog_offset(store) is not None:
                self.positions |= self._kept_positions(topic, store)

    def commit(self, moved: Mapping[TopicPartition, int]) -> None:
        """Write what was processed, together with where reading goes on."""
        self.positions |= moved
        read: dict[str, int] = {}
        for topic in {partition.topic for partition in moved}:
            store = self._by_topic[topic]
            offsets = {each.partition: at for each, at in self.positions.items() if each.topic == topic}
            self.put_metadata(_key(store), json.dumps({"topic": topic, "offsets": offsets}).encode())
            # Goes when the store leaves the topology, and so tells that the positions are of this store's data.
            read[store] = sum(offsets.values())
        for _ in self.apply(self.freeze(), read):
            pass

    def forget_positions(self) -> None:
        """What is here cannot be gone on from: readable until it is closed, restored anew when it is opened."""
        for store in self._by_topic.values():
            self.put_metadata(_key(store), b"null")
        for _ in self.apply(None, {}):
            pass
        self.flush()

    def close(self) -> None:
        for layers in self._direct.values():
            layers.attach(None)
        super().close()

    def _make_engine(self, slot: Any) -> BackloggedStore | MemoryStore:
        engine = super()._make_engine(slot)
        self._direct[slot.builder.name].attach(engine)
        return engine

    def _kept_positions(self, topic: str, store: str) -> dict[TopicPartition, int]:
        kept = json.loads(self.get_metadata(_key(store)) or b"null")
        if kept is None or kept["topic"] != topic:
            raise TaskCorruptedError(f"global store {store} was not filled from topic {topic}, or not to a known place")
        return {TopicPartition(topic, int(partition)): offset for partition, offset in kept["offsets"].items()}


def _key(store: str) -> str:
    return f"global/{store}"


def _over(store: KeyValueStoreImpl, layers: _Direct) -> KeyValueStoreImpl:
    """The same store on another way to its engine."""
    other = copy(store)
    other.layers, other.read, other.write, other.prefetch = layers, layers.read, layers.write, layers.prefetch
    return other
