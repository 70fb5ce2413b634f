"""The job that every Spark task is given, and the application it is about: topology, configuration, tasks.

A ``ReplayJob`` is pickled by the driver; ``application`` builds the rest once per Python worker, and is pure after
that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import msgspec

from streamsapp.config import RemoteStateConfig, StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.object_store_factory import open_store
from streamsapp.runtime.application_layout import ApplicationLayout, lay_out
from streamsapp.state.engine.resources import StateResources
from streamsapp.topology.builder import Topology
from streamsapp_spark.programs.shipped import ShippedProgram
from streamsapp_spark.replay.stages import Stages
from streamsapp_spark.replay.worker_reports import Address
from streamsapp_spark.session.executor_versions import Versions, refuse_other_versions, versions


@dataclass(frozen=True)
class ReplayJob:
    """The job as plain data, the same for all tasks."""

    program: ShippedProgram
    #: Partitions of every topic there is, as JSON.
    partitions: bytes
    #: The address at which workers report how far they are.
    report_to: Address
    #: The driver's.
    versions: Versions

    @classmethod
    def of(cls, program: ShippedProgram, partitions: Mapping[str, int], report_to: Address) -> ReplayJob:
        return cls(program, msgspec.json.encode(dict(partitions)), report_to, versions())


@dataclass(frozen=True)
class Application:
    """The application that a job is about."""

    topology: Topology
    config: StreamsConfig
    layout: ApplicationLayout
    objects: ObjectStore
    resources: StateResources

    @property
    def remote(self) -> RemoteStateConfig:
        assert self.config.remote_state is not None  # the driver has looked
        return self.config.remote_state

    def config_of(self, task_id: TaskId, role: str) -> StreamsConfig:
        """Returns the configuration of a task, with clients that can be distinguished."""
        return replace(self.config, client_id=f"{self.config.application_id}-{role}-{task_id}")

    def chain(self, task_id: TaskId) -> ManifestChain:
        """Returns the chain of a task's snapshots."""
        return ManifestChain(self.objects, self.config.application_id, task_id)

    @cached_property
    def stages(self) -> Stages:
        return Stages(self.layout)

    @cached_property
    def owners(self) -> Mapping[TopicPartition, TaskId]:
        """Returns the task that reads each input partition."""
        return {each: task_id for task_id, plan in self.layout.plans.items() for each in plan.inputs}


@lru_cache(maxsize=1)
def application(job: ReplayJob) -> Application:
    """Builds the application once per process. User code is imported here. Raises ``ConfigError`` in a process of other
    versions than the driver's."""
    refuse_other_versions(job.versions)
    topology, config = job.program.load()
    layout, _ = lay_out(topology, config, msgspec.json.decode(job.partitions), _gone)
    assert config.remote_state is not None
    return Application(topology, config, layout, open_store(config.remote_state), StateResources())


def _gone(topic: str) -> str:
    raise StreamsError(f"topic {topic} was there when the work was planned, and is not any more")
