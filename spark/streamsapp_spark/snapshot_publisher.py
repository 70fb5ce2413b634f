"""From replayed stores to a snapshot: like those that instances write, so that any of them can begin with it.

Used in Spark's Python workers.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.errors import StateStoreError
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.remote.snapshot import InputPoint, StorePoint
from streamsapp.remote.snapshot_writer import SnapshotContent, SnapshotWriter
from streamsapp.runtime.application_layout import fingerprint
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.stream_task import ConsumedOffset, TaskPlan
from streamsapp_spark.replay_job import Application

#: What a snapshot says of who wrote it.
WRITER = "bootstrap"


class Publisher:
    """The snapshots of one task. Made before the replay begins: whoever replayed the task before is fenced then."""

    def __init__(self, application: Application, plan: TaskPlan) -> None:
        self._application = application
        self._plan = plan
        self._writer = SnapshotWriter(application.chain(plan.id), WRITER, SystemClock())
        self._writer.claim()

    def publish(self, stores: TaskStores, directory: Path, inputs: Mapping[TopicPartition, ConsumedOffset]) -> None:
        """The stores as they are, with the ends of their changelogs. Raises ``SnapshotFencedError`` if the task was
        taken over."""
        offsets, ids = self._changelogs()
        for partition in self._plan.source_changelogs.values():
            offsets[partition] = inputs[partition].offset
        by_store = {store: offsets[partition] for store, partition in self._plan.all_changelogs.items()}
        committed = {partition: (at.offset, at.metadata) for partition, at in inputs.items()}
        for _ in stores.apply(None, by_store, committed):
            pass
        copy = directory / "checkpoint"
        if stores.checkpoint(copy) is None:
            raise StateStoreError(f"bug: the stores of task {self._plan.id} stand at no commit")
        changelogs = self._plan.all_changelogs
        points = {
            store: StorePoint(family, *changelogs[store], ids[changelogs[store].topic], by_store[store])
            for store, family in stores.families.items()
            if store in changelogs
        }
        content = SnapshotContent(points, input_points(inputs), fingerprint(self._plan.sub_topology))
        self._writer.publish(copy, content)
        shutil.rmtree(copy, ignore_errors=True)

    def _changelogs(self) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """Where changelogs end, and the ids of their topics."""
        partitions = list(self._plan.all_changelogs.values())
        admin = TopicAdmin(client_properties.admin(self._application.config_of(self._plan.id, "bootstrap")))

        def ask() -> tuple[dict[TopicPartition, int], dict[str, str]]:
            ends = admin.request_offsets(partitions)
            return ends.result(), admin.topic_ids({each.topic for each in partitions})

        try:
            return repeated(ask, f"looking up the changelogs of task {self._plan.id}")
        except KafkaException as error:
            raise StateStoreError(
                f"the broker does not tell of the changelogs of task {self._plan.id}: {error.args[0].str()}"
            ) from error


def input_points(inputs: Mapping[TopicPartition, ConsumedOffset]) -> tuple[InputPoint, ...]:
    """As snapshots have them."""
    return tuple(InputPoint(*partition, at.offset, at.metadata) for partition, at in sorted(inputs.items()))
