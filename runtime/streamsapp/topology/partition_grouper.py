"""Partition groups: which partitions together make a task (KIP-28's partition grouper, replaceable).

Pure; called on the polling thread before tasks are assigned, and by the test driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from streamsapp.record import TaskId, TopicPartition


class PartitionGrouper(Protocol):
    """Divides the partitions of each sub-topology's source topics into tasks."""

    def __call__(
        self, sources: Mapping[int, frozenset[str]], partitions: Mapping[str, int]
    ) -> dict[TaskId, frozenset[TopicPartition]]:
        """``sources`` has the topics each sub-topology reads, ``partitions`` how many partitions each topic has."""
        ...


def group_by_partition(
    sources: Mapping[int, frozenset[str]], partitions: Mapping[str, int]
) -> dict[TaskId, frozenset[TopicPartition]]:
    """Makes one task per partition number, with that partition of every topic that has it. This is the default."""
    return {
        TaskId(sub_topology, partition): frozenset(
            TopicPartition(topic, partition) for topic in topics if partition < partitions[topic]
        )
        for sub_topology, topics in sorted(sources.items())
        for partition in range(max((partitions[topic] for topic in topics), default=0))
    }
