"""Describes a task's stores at a commit as snapshots have them, for every part of the project that writes snapshots.

Called on the snapshot threads of an instance, and in Spark's Python workers by a bootstrap.
"""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import KafkaException

from streamsapp.errors import StateStoreError
from streamsapp.record import TaskId
from streamsapp.remote.snapshot import InputPoint, StorePoint
from streamsapp.remote.snapshot_writer import SnapshotContent
from streamsapp.runtime.application_layout import fingerprint
from streamsapp.state.commit_point import CommitPoint, Inputs
from streamsapp.tasks.task_plan import TaskPlan


def snapshot_content(
    plan: TaskPlan, families: Mapping[str, str], point: CommitPoint, topic_ids: Mapping[str, str]
) -> SnapshotContent:
    """Returns the content of a snapshot that stands at ``point``.

    ``families`` are the column families of the task's stores, ``topic_ids`` the ids of the topics that the stores were
    restored from, by store. A store without a changelog, or without an offset in it, is left out.
    """
    stores = {
        name: StorePoint(family, *changelog, topic_ids.get(name), offset)
        for name, changelog in plan.all_changelogs.items()
        if (family := families.get(name)) is not None and (offset := point.offsets.get(name)) is not None
    }
    return SnapshotContent(stores, input_points(point.inputs), fingerprint(plan.sub_topology))


def input_points(inputs: Inputs) -> tuple[InputPoint, ...]:
    """Returns committed input offsets in the form of a snapshot, in the order of their partitions."""
    return tuple(InputPoint(*partition, *at) for partition, at in sorted(inputs.items()))


def unknown_changelogs(task: TaskId, error: KafkaException) -> StateStoreError:
    """Returns the error of a task whose changelogs the broker does not report."""
    return StateStoreError(f"the broker does not describe the changelogs of task {task}: {error.args[0].str()}")
