"""The global stores of one instance: one database, written by the global thread, read by all threads.

The thread that fills the stores opens, restores, writes and closes them. Tasks get them by ``for_tasks``, read-only:
what they read comes straight from RocksDB, or from the sorted dict that stands for it in memory, and not from the
write-back layer, which is one thread's. They see what a batch of the topic wrote when it is applied, a few thousand
keys at a time. A scan of a persistent store is of one moment; a scan of a store in memory shows what is written
meanwhile, as far as it has not come by.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import TaskCorruptedError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.state.engine.missing_blocks import MissingBlocks
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.provenance import Provenance
from streamsapp.state.task_stores import TaskStores
from streamsapp.topology.nodes import GlobalStore

#: The task id that processors see which fill global stores, as in Kafka Streams.
GLOBAL_TASK = TaskId(-1, -1)


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
            default_serdes=config.default_serdes,
            context_timestamp=context_timestamp,
            topics={each.store.name: each.topic for each in stores},
        )
        self._by_topic = {each.topic: each.store.name for each in stores}
        #: The stores as tasks get them, by name.
        self.for_tasks: Mapping[str, KeyValueStoreImpl] = {
            each.store.name: self.read_only(
                each.store.name,
                f"global store {each.store.name!r} is filled from topic {each.topic} and read-only elsewhere; write to "
                "the topic instead",
            )
            for each in stores
        }
        #: The next offset to read of each partition, as far as it is known.
        self.positions: dict[TopicPartition, int] = {}
        #: The origin of what was read of each topic; it is kept with the positions.
        self.origins: dict[str, Provenance] = {}

    def open(self, missing: MissingBlocks | None = None) -> None:
        super().open(missing)
        self.positions, self.origins = {}, {}
        for topic, store in self._by_topic.items():
            if self.changelog_offset(store) is not None:
                self.positions |= self._kept_positions(topic, store)
                self.origins[topic] = self.provenance(store)

    def commit(self, moved: Mapping[TopicPartition, int]) -> None:
        """Write the processed records, together with the positions where reading goes on."""
        self.positions |= moved
        read: dict[str, int] = {}
        for topic in {partition.topic for partition in moved}:
            store = self._by_topic[topic]
            offsets = {each.partition: at for each, at in self.positions.items() if each.topic == topic}
            self.put_metadata(_key(store), json.dumps({"topic": topic, "offsets": offsets}).encode())
            # Belongs to the column family, and so shows that the positions are of data that is there.
            read[store] = sum(offsets.values())
            self.note_origin(store, self.origins.get(topic, Provenance()))
        for _ in self.apply(self.freeze(), read):
            pass

    def forget_positions(self) -> None:
        """Mark the stores as useless for the next start: they stay readable, and are restored anew when they are
        opened."""
        for store in self._by_topic.values():
            self.put_metadata(_key(store), b"null")
        for _ in self.apply(None, {}):
            pass
        self.flush()

    def _kept_positions(self, topic: str, store: str) -> dict[TopicPartition, int]:
        kept = json.loads(self.get_metadata(_key(store)) or b"null")
        if kept is None or kept["topic"] != topic:
            raise TaskCorruptedError(f"global store {store} was not filled from topic {topic}, or not to a known place")
        return {TopicPartition(topic, int(partition)): offset for partition, offset in kept["offsets"].items()}


def _key(store: str) -> str:
    return f"global/{store}"
