"""The topology that a query runs, on its way from the driver to Spark's Python workers.

Pickled on the driver, once; built in each worker once per process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256

from streamsapp.config import StreamsConfig
from streamsapp.errors import TopologyError
from streamsapp.record import TopicPartition
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.object_store_factory import open_store
from streamsapp.runtime.application_layout import ApplicationLayout, fingerprint, lay_out
from streamsapp.state.api import Engine
from streamsapp.state.engine.resources import StateResources
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.topology.async_calls import refuse_calls
from streamsapp.topology.builder import Topology
from streamsapp.topology.nodes import SubTopology
from streamsapp.topology.time_flow import refuse_idle_after
from streamsapp_spark.history.stage_frames import spark_partitions_of
from streamsapp_spark.programs.shipped import PickledProgram
from streamsapp_spark.replay.stages import Stages
from streamsapp_spark.session.executor_versions import Versions, refuse_other_versions, versions


@dataclass(frozen=True)
class BoundProgram:
    """A topology with its configuration, as plain data."""

    program: PickledProgram
    #: Partitions of the topics that are bound, and of topics that are not named there.
    partitions: tuple[tuple[str, int], ...]
    others: int
    #: The driver's.
    versions: Versions

    @classmethod
    def of(cls, topology: Topology, config: StreamsConfig, partitions: Mapping[str, int], others: int) -> BoundProgram:
        """Raises ``ConfigError`` for what cannot be sent to executors."""
        return cls(PickledProgram.of(topology, config), tuple(sorted(partitions.items())), others, versions())


@dataclass(frozen=True)
class BoundApplication:
    """The tasks of a program, and the place of their state."""

    config: StreamsConfig
    layout: ApplicationLayout
    objects: ObjectStore
    resources: StateResources = field(default_factory=StateResources)

    @cached_property
    def stages(self) -> Stages:
        return Stages(self.layout)

    @cached_property
    def destinations(self) -> dict[TopicPartition, tuple[int, int]]:
        """Returns where rows of each input partition go: the number that leads there, and the stage."""
        return spark_partitions_of(self.stages)

    @cached_property
    def descriptions(self) -> dict[int, str]:
        """Returns, by sub-topology, what has to stay the same for the state of its tasks to be of use: the partitions
        of each topic, too, as they decide which task has a key."""
        return {number: self._described(number, part) for number, part in self.stages.parts.items()}

    def _described(self, number: int, part: SubTopology) -> str:
        tasks = self.stages.tasks(number)
        topics = sorted(Counter(each.topic for task_id in tasks for each in self.layout.plans[task_id].inputs).items())
        digest = sha256(repr(topics).encode()).hexdigest()[:16]
        return f"{fingerprint(part)}, {len(tasks)} tasks, partitions {digest}"


@lru_cache(maxsize=2)
def bound_application(program: BoundProgram) -> BoundApplication:
    """Builds the application. Raises ``StreamsError`` for a topology that cannot be run over DataFrames, and
    ``ConfigError`` in a process of other versions than the driver's."""
    refuse_other_versions(program.versions)
    topology, config = program.program.load()
    refuse_calls(topology)
    refuse_idle_after(
        topology.sub_topologies(), "a run over DataFrames", "leave it out: history ends where the last record is"
    )
    layout, _ = lay_out(topology, config, dict(program.partitions), _unbound)
    if topology.global_stores():
        names = ", ".join(sorted(each.store.name for each in topology.global_stores()))
        raise TopologyError(
            f"the global stores {names} cannot be run over DataFrames: join with a table whose topic is bound, or join "
            "the DataFrame itself before it is bound"
        )
    assert config.remote_state is not None  # the driver has set it
    plans = {task_id: _on_disk(plan, program.others) for task_id, plan in layout.plans.items()}
    return BoundApplication(config, replace(layout, plans=plans), open_store(config.remote_state))


def _unbound(topic: str) -> str:
    return f"topic {topic} is read by the topology and bound to nothing: inputs={{{topic!r}: a streaming DataFrame}}"


def _on_disk(plan: TaskPlan, others: int) -> TaskPlan:
    """Returns the task with all of its stores in RocksDB: there is no changelog that memory could be restored from."""
    stores = tuple(replace(each, engine=Engine.ROCKSDB) for each in plan.sub_topology.stores)
    part = replace(plan.sub_topology, stores=stores)
    return replace(plan, sub_topology=part, partition_count=_counted(plan.partition_count, others))


def _counted(known: Callable[[str], int], others: int) -> Callable[[str], int]:
    def count(topic: str) -> int:
        try:
            return known(topic)
        except KeyError:  # a topic of results
            return others

    return count
