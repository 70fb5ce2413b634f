"""An application as its snapshots show it: topology, configuration, and the tasks that have snapshots. Kafka is not
asked for anything.

Used on the driver and in Spark's Python workers. Every instance claims the tasks that it is given before it takes their
first snapshot, so only tasks that no instance has ever had can be missing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import msgspec

from streamsapp.config import StreamsConfig
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.manifest import StreamsApp
from streamsapp.manifest.entrypoint import load_topology
from streamsapp.manifest.load import decode
from streamsapp.manifest.to_config import to_config
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.manifest_chain import ManifestChain, chains_of
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.object_store_factory import open_store
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.resources import StateResources
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.topology.builder import Topology
from streamsapp.topology.internal_topics import changelog_topic
from streamsapp.topology.nodes import SubTopology
from streamsapp.topology.partitioning import placed_by_key
from streamsapp_spark.programs.manifest import only_code


@dataclass(frozen=True)
class ManifestPlace:
    """A manifest as plain data."""

    #: The manifest as JSON, and the folder that it lies in, where workers can see it too.
    manifest: bytes
    folder: str

    @classmethod
    def of(cls, app: StreamsApp, folder: Path) -> ManifestPlace:
        return cls(msgspec.json.encode(app), str(folder.resolve()))


@dataclass(frozen=True)
class StoredApplication:
    """The application that a manifest is about."""

    manifest: StreamsApp
    topology: Topology
    config: StreamsConfig
    objects: ObjectStore
    resources: StateResources

    @cached_property
    def parts(self) -> dict[int, SubTopology]:
        return {part.id: part for part in self.topology.sub_topologies()}

    def chain(self, task_id: TaskId) -> ManifestChain:
        """Returns the chain of a task's snapshots."""
        return ManifestChain(self.objects, self.config.application_id, task_id)

    def builder(self, store: str, *, with_snapshots: bool = True) -> StoreBuilder:
        """Returns the description of a store. Raises ``ConfigError`` if there is none of that name, ``StreamsError`` if
        it has to have snapshots and has none."""
        builders = {each.name: each for part in self.parts.values() for each in part.stores}
        if store not in builders:
            known = ", ".join(sorted(builders)) or "none"
            raise ConfigError(f"option 'store': the application has no store {store!r}; its stores: {known}")
        if with_snapshots and builders[store].engine is not Engine.ROCKSDB:
            raise StreamsError(f"store {store} is kept in memory and has no snapshots")
        return builders[store]

    def tasks_with(self, store: str, count: int | None = None) -> list[TaskId]:
        """Returns the tasks that have a part of a store, in order. Raises ``StreamsError`` if one of them is missing
        that has to be there, as there are ``count``, or as later ones are there."""
        part = self.part_with(store).id
        chains = chains_of(self.objects, self.config.application_id)
        found = [chain.task_id for chain in chains if chain.task_id.subtopology == part]
        if not found:
            raise StreamsError(f"no task of sub-topology {part}, which has store {store}, has a snapshot")
        missing = {TaskId(part, number) for number in range(max(found[-1].partition, count or 0))} - set(found)
        for task_id in sorted(missing):
            other = f"task {found[-1]} has" if task_id < found[-1] else f"store {store} has {count} tasks"
            raise StreamsError(f"task {task_id} has no snapshot, and {other}")
        if count is not None and found[-1].partition >= count:
            raise StreamsError(f"task {found[-1]} has a snapshot, and store {store} has {count} tasks")
        return found

    def with_keys(self, tasks: Sequence[TaskId], store: str, keys: Iterable[Any], count: int | None) -> list[TaskId]:
        """Returns those of a store's tasks that can have these keys: all of them where it is not known how the topics
        are partitioned, or how many tasks there are."""
        part, builder = self.part_with(store), self.builder(store)
        if count is None or part.id not in placed_by_key(self.parts.values()):
            return list(tasks)
        topic = changelog_topic(self.config.application_id, builder)
        serde = (builder.key_serde or self.config.default_key_serde).bind(topic, is_key=True)
        wanted = {partition_for(serde.serialize(key), count) for key in keys}
        return [each for each in tasks if each.partition in wanted]

    def plan(self, task_id: TaskId) -> TaskPlan:
        """Returns a task as far as its stores go."""
        part = self.parts[task_id.subtopology]
        changelogs = {
            each.name: TopicPartition(changelog_topic(self.config.application_id, each), task_id.partition)
            for each in part.stores
            if each.logging or each.changelog_topic is not None
        }
        return TaskPlan(task_id, part, {}, changelogs, {}, topic_name=str, partition_count=lambda _: 0)

    def part_with(self, store: str) -> SubTopology:
        """Returns the sub-topology with a store that there is."""
        return next(part for part in self.parts.values() if store in {each.name for each in part.stores})


@lru_cache(maxsize=1)
def stored_application(place: ManifestPlace) -> StoredApplication:
    """Builds the application once per process. User code is imported here. Raises ``ConfigError`` if it has no remote
    state."""
    app, folder = decode(msgspec.json.decode(place.manifest)), Path(place.folder)
    config = to_config(app, code=only_code(app, folder))
    if config.remote_state is None:
        raise ConfigError("spec.remoteState: is not set in the manifest, so there are no snapshots to read")
    return StoredApplication(app, load_topology(app, folder), config, open_store(config.remote_state), StateResources())
