"""Orders the sub-topologies of an application for a replay, and finds the ones that have to be replayed at all.

Pure; called by the driver, and by workers that look for the tasks that they replay together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from streamsapp.errors import TopologyError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.topology.nodes import SinkNode, SubTopology

#: The sub-topologies that are replayed at the same time; the first one stands for it.
Stage: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Stages:
    """The sub-topologies as a graph: an edge for each internal topic between two of them."""

    layout: ApplicationLayout

    @cached_property
    def parts(self) -> dict[int, SubTopology]:
        return {plan.sub_topology.id: plan.sub_topology for plan in self.layout.plans.values()}

    def tasks(self, part: int) -> list[TaskId]:
        """Returns the tasks of a sub-topology, in order."""
        return sorted(task_id for task_id in self.layout.plans if task_id.subtopology == part)

    @cached_property
    def upstream(self) -> dict[int, frozenset[int]]:
        """Returns the sub-topologies that write the topics that each one reads."""
        writers: dict[str, set[int]] = {}
        for number, part in self.parts.items():
            for topic in part.repartition_sinks:
                writers.setdefault(topic, set()).add(number)
        return {
            number: frozenset(writer for topic in part.repartition_sources for writer in writers.get(topic.name, ()))
            for number, part in self.parts.items()
        }

    def above(self, part: int) -> frozenset[int]:
        """Returns all sub-topologies that a sub-topology gets records from, directly or through others: itself, too, if
        records come back to it."""
        found: set[int] = set()
        waiting = [part]
        while waiting:
            new = self.upstream[waiting.pop()] - found
            found |= new
            waiting += new
        return frozenset(found)

    @cached_property
    def in_order(self) -> list[Stage]:
        """Returns the stages, writers before readers. A stage is one sub-topology, or several that read each other's
        internal topics, as the two sides of a foreign-key join do."""
        above = {part: self.above(part) for part in self.parts}
        stages = {
            tuple(sorted({part, *(each for each in above[part] if part in above[each])})): above[part]
            for part in self.parts
        }
        # Each has more above it than those have that it reads.
        return sorted(stages, key=lambda stage: (len(stages[stage].union(stage)), stage))

    def groups(self, stage: Stage) -> list[tuple[TaskId, ...]]:
        """Returns the tasks of a stage by the Spark task that replays them: each has one of its own, but tasks that get
        records back from each other share one."""
        tasks = [task_id for part in stage for task_id in self.tasks(part)]
        return [tuple(tasks)] if stage[0] in self.above(stage[0]) else [(each,) for each in tasks]

    def group(self, task_id: TaskId) -> tuple[TaskId, ...]:
        """Returns the tasks that are replayed together with this one."""
        (stage,) = [each for each in self.in_order if task_id.subtopology in each]
        return next(group for group in self.groups(stage) if task_id in group)

    def looped(self, group: Sequence[TaskId]) -> dict[TopicPartition, TaskId]:
        """Returns the readers of the internal topics that tasks, replayed together, send each other."""
        written = self._written(group)
        plans = self.layout.plans
        return {each: task_id for task_id in group for each in plans[task_id].inputs if each.topic in written}

    def onward(self, group: Sequence[TaskId]) -> set[str]:
        """Returns the internal topics that tasks, replayed together, write for others."""
        return self._written(group) - {each.topic for each in self.looped(group)}

    def _written(self, group: Sequence[TaskId]) -> set[str]:
        plans = [self.layout.plans[task_id] for task_id in group]
        return {plan.topic_name(topic) for plan in plans for topic in plan.sub_topology.repartition_sinks}

    def writers(self, stage: Stage) -> list[Stage]:
        """Returns the other stages that write what this one reads."""
        upstream = {writer for part in stage for writer in self.upstream[part]}
        return [each for each in self.in_order if each != stage and upstream.intersection(each)]

    def readers(self, stage: Stage) -> list[Stage]:
        """Returns the other stages that read what this one writes."""
        return [each for each in self.in_order if stage in self.writers(each)]

    def needed(self, finished: Collection[TaskId]) -> list[Stage]:
        """Returns the stages to replay, writers before readers: those with tasks that are not finished, and those they
        read."""
        wanted: set[Stage] = set()
        for stage in reversed(self.in_order):
            tasks = {task_id for part in stage for task_id in self.tasks(part)}
            if not tasks <= set(finished) or wanted.intersection(self.readers(stage)):
                wanted.add(stage)
        return [stage for stage in self.in_order if stage in wanted]

    @property
    def fed_back(self) -> set[str]:
        """Returns topics of the user's that the application both writes and reads."""
        read = {topic for part in self.parts.values() for node in part.sources for topic in node.topics}
        internal = {topic.name for part in self.parts.values() for topic in part.repartition_sources}
        written = {
            node.topic
            for part in self.parts.values()
            for node in part.nodes
            if isinstance(node, SinkNode) and isinstance(node.topic, str)
        }
        return (read & written) - internal

    def refuse_feedback(self) -> None:
        """Raises if there is a topic that has no history yet of records which the application will write."""
        for topic in sorted(self.fed_back):
            raise TopologyError(
                f"topic {topic} is written and read by this application, so its history is not known before the "
                "application has run; use repartition() between the two, or start without a bootstrap"
            )
