"""Orders the sub-topologies of an application for a replay, and finds those that have to be replayed at all.

Pure; called by the driver.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from streamsapp.errors import TopologyError
from streamsapp.record import TaskId
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.topology.nodes import SinkNode, SubTopology


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
        """Returns all sub-topologies that a sub-topology gets records from, directly or through others."""
        direct = self.upstream[part]
        return direct.union(*(self.above(each) for each in direct))

    def downstream(self, part: int) -> list[int]:
        """Returns the sub-topologies that read what this one writes."""
        return [number for number, writers in self.upstream.items() if part in writers]

    @cached_property
    def in_order(self) -> list[int]:
        """Returns the sub-topologies, writers before readers; raises ``TopologyError`` if records go in circles."""
        ordered: list[int] = []
        while len(ordered) < len(self.parts):
            ready = [each for each in self.parts if each not in ordered and self.upstream[each] <= set(ordered)]
            if not ready:
                circle = ", ".join(str(each) for each in self.parts if each not in ordered)
                raise TopologyError(
                    f"the sub-topologies {circle} read each other's internal topics, as in a foreign-key join: such a "
                    "loop cannot be replayed one after the other; start without a bootstrap"
                )
            ordered += ready
        return ordered

    def needed(self, finished: Collection[TaskId]) -> list[int]:
        """Returns the sub-topologies to replay, writers before readers: those with tasks that are not finished, and
        those they read."""
        wanted: set[int] = set()
        for number in reversed(self.in_order):
            unfinished = not set(self.tasks(number)) <= set(finished)
            if unfinished or wanted.intersection(self.downstream(number)):
                wanted.add(number)
        return [number for number in self.in_order if number in wanted]

    def refuse_feedback(self) -> None:
        """Raises if the application both writes and reads a topic of the user's, which has no history yet of records
        that it will write."""
        read = {topic for part in self.parts.values() for node in part.sources for topic in node.topics}
        internal = {topic.name for part in self.parts.values() for topic in part.repartition_sources}
        written = {
            node.topic
            for part in self.parts.values()
            for node in part.nodes
            if isinstance(node, SinkNode) and isinstance(node.topic, str)
        }
        for topic in sorted((read & written) - internal):
            raise TopologyError(
                f"topic {topic} is written and read by this application, so its history is not known before the "
                "application has run; use repartition() between the two, or start without a bootstrap"
            )
