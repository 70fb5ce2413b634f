"""Publishes replayed stores as a snapshot like the snapshots of instances, so that any of them can begin with it.

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
from streamsapp.remote.snapshot_writer import SnapshotWriter
from streamsapp.runtime.snapshot_content import snapshot_content, unknown_changelogs
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.task_plan import ConsumedOffset, TaskPlan
from streamsapp_spark.replay.job import Application

#: The writer that a snapshot names.
WRITER = "bootstrap"


class Publisher:
    """Publishes the snapshots of one task. It is made before the replay begins, and fences any earlier
    replay of the task."""

    def __init__(self, application: Application, plan: TaskPlan) -> None:
        self._application = application
        self._plan = plan
        self._writer = SnapshotWriter(application.chain(plan.id), WRITER, SystemClock())
        self._writer.claim()

    def publish(self, stores: TaskStores, directory: Path, inputs: Mapping[TopicPartition, ConsumedOffset]) -> None:
        """Publishes the stores as they are, with the ends of their changelogs. Raises ``SnapshotFencedError`` if
        the task was taken over."""
        offsets, ids = self._changelogs()
        for partition in self._plan.source_changelogs.values():
            offsets[partition] = inputs[partition].offset
        by_store = {store: offsets[partition] for store, partition in self._plan.all_changelogs.items()}
        committed = {partition: (at.offset, at.metadata) for partition, at in inputs.items()}
        for _ in stores.apply(None, by_store, committed):
            pass
        copy = directory / "checkpoint"
        point = stores.checkpoint(copy)
        if point is None:
            raise StateStoreError(f"bug: the stores of task {self._plan.id} stand at no commit")
        topic_ids = {store: ids[topic] for store, topic in self._plan.changelog_topics.items()}
        content = snapshot_content(self._plan, stores.families, point, topic_ids)
        self._writer.publish(copy, content)
        shutil.rmtree(copy, ignore_errors=True)

    def _changelogs(self) -> tuple[dict[TopicPartition, int], dict[str, str]]:
        """Returns the ends of the changelogs, and the ids of their topics."""
        partitions = list(self._plan.all_changelogs.values())
        admin = TopicAdmin(client_properties.admin(self._application.config_of(self._plan.id, "bootstrap")))

        def ask() -> tuple[dict[TopicPartition, int], dict[str, str]]:
            ends = admin.request_offsets(partitions)
            return ends.result(), admin.topic_ids({each.topic for each in partitions})

        try:
            return repeated(ask, f"looking up the changelogs of task {self._plan.id}")
        except KafkaException as error:
            raise unknown_changelogs(self._plan.id, error) from error
