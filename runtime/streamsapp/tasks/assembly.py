"""Puts a task together: its stores, what they share with the rest of the instance, and the stream task over them.

The one place where that is done: for the runtime (polling thread), the test driver and Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.processor.async_calls import CallLoop, TaskCalls
from streamsapp.record import InputRecord, TopicPartition
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_context import Execution, TaskContext, by_instance
from streamsapp.tasks.task_plan import ConsumedOffset, TaskPlan

_EMPTY: Mapping[str, Sequence[InputRecord]] = MappingProxyType({})


@dataclass(frozen=True)
class TaskAssembly:
    """The parts that all tasks of one instance share."""

    config: StreamsConfig
    resources: StateResources
    clock: Clock
    #: Global stores: open to every task, for reading.
    shared_stores: Mapping[str, Any] = field(default_factory=dict)
    #: Called for each task.
    execution: Callable[[], Execution] = by_instance
    #: Makes the calls of coroutine functions; ``None``: topologies that have any are refused.
    call_loop: CallLoop | None = None

    def task(self, plan: TaskPlan, directory: Path, role: TaskRole = TaskRole.ACTIVE) -> StreamTask:
        """A task whose stores, in ``directory``, are still to be opened and restored."""
        execution = self.execution()._replace(calls=TaskCalls(self.call_loop))
        context = TaskContext(self.config.application_id, plan.id, self.clock, execution)
        stores = task_stores(plan, directory, self.config, self.resources, lambda: context.timestamp)
        stores.stores = {**stores.stores, **self.shared_stores}
        return StreamTask(plan, stores, context, self.config, role)

    def started(
        self,
        plan: TaskPlan,
        directory: Path,
        changelogs: Mapping[str, Sequence[InputRecord]] = _EMPTY,
        starts: Mapping[TopicPartition, ConsumedOffset] | None = None,
    ) -> StreamTask:
        """A task that runs. Its stores begin with the contents of ``directory``, which stands at ``starts``, and with
        these records of their changelogs; or empty."""
        task = self.task(plan, directory)
        task.start_offsets = dict(starts or {})
        task.stores.open()
        for store, records in changelogs.items():
            task.stores.restore(store, records, len(records))
        task.stores.restored({}, {})
        task.transition(TaskState.RESTORING)
        task.initialize()
        return task


def task_stores(
    plan: TaskPlan,
    directory: Path,
    config: StreamsConfig,
    resources: StateResources,
    context_timestamp: Callable[[], int] = lambda: -1,
) -> TaskStores:
    """A task's stores alone, not open yet; ``context_timestamp`` is that of the record in process."""
    return TaskStores(
        plan.id,
        directory,
        plan.sub_topology.stores,
        resources,
        default_serdes=config.default_serdes,
        context_timestamp=context_timestamp,
        topics=plan.changelog_topics,
    )
