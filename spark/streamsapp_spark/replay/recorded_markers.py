"""Reads the time markers that the application has recorded, so that a replay applies them where they were made.

Used in Spark's Python workers, on one thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsapp.config import StreamsConfig, client_properties
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.record import UNKNOWN_TOPIC, TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.tasks.time_markers import read_marker
from streamsapp_spark.replay.replay import RecordedMarkers
from streamsapp_spark.replay.task_inputs import from_kafka


def recorded_markers(
    plan: TaskPlan, config: StreamsConfig, until: Mapping[TopicPartition, int]
) -> dict[TopicPartition, RecordedMarkers]:
    """Returns the markers of each source of a task, none later than its time in ``until``."""
    flow = plan.sub_topology.time
    if flow is None or not flow.idle_after_ms or flow.store not in plan.changelogs:
        return {}
    marked = [each for each, node in plan.inputs.items() if node.name in flow.idle_after_ms]
    topics = {each.topic for each in marked}
    changelog = plan.changelogs[flow.store]
    consumer = PartitionConsumer(client_properties.restore_consumer(config))
    try:
        found_topics, bounds = consumer.topics(topics), consumer.watermarks(changelog, cached=False)
    finally:
        consumer.close()
    ids = {name: found_topics.get(name, UNKNOWN_TOPIC).id_bytes for name in topics}
    entries = {} if bounds is None else _entries(HistoryRange(*changelog, *bounds), config)
    found: dict[TopicPartition, RecordedMarkers] = {}
    for partition in marked:
        read = (read_marker(partition.topic, key, data, ids[partition.topic]) for key, data in entries.items())
        limit = until.get(partition)
        markers = [each for each in read if each is not None and (limit is None or each.time <= limit)]
        found[partition] = RecordedMarkers(markers, ids[partition.topic])
    return found


def _entries(of: HistoryRange, config: StreamsConfig) -> dict[bytes, bytes | None]:
    return {
        key: record.value()
        for records in from_kafka(of, config)
        for record in records
        if (key := record.key()) is not None
    }
