"""Reads the time markers that the application has recorded, so that a replay applies them where they were made.

Used in Spark's Python workers, on one thread.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsapp.config import StreamsConfig, client_properties
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.record import UNKNOWN_TOPIC, TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.tasks.stream_task import TaskPlan
from streamsapp.tasks.time_markers import TimeMarker, read_marker
from streamsapp_spark.history.end_offsets import PartitionOffsets
from streamsapp_spark.replay.task_inputs import from_kafka


def recorded_markers(
    plan: TaskPlan, config: StreamsConfig, until: Mapping[TopicPartition, int]
) -> dict[TopicPartition, list[TimeMarker]]:
    """Returns the markers of each source of a task, none later than its time in ``until``."""
    flow = plan.sub_topology.time
    if flow is None or not flow.idle_after_ms or flow.store not in plan.changelogs:
        return {}
    entries = _entries(plan.changelogs[flow.store], config)
    marked = [each for each, node in plan.inputs.items() if node.name in flow.idle_after_ms]
    ids = _topic_ids({each.topic for each in marked}, config)
    found: dict[TopicPartition, list[TimeMarker]] = {}
    for partition in marked:
        read = (read_marker(partition.topic, key, data, ids[partition.topic]) for key, data in entries.items())
        limit = until.get(partition)
        found[partition] = [each for each in read if each is not None and (limit is None or each.time <= limit)]
    return found


def _entries(changelog: TopicPartition, config: StreamsConfig) -> dict[bytes, bytes | None]:
    bounds = PartitionOffsets(config, {changelog})
    of = HistoryRange(*changelog, bounds.lows[changelog], bounds.highs[changelog])
    return {
        key: record.value()
        for records in from_kafka(of, config)
        for record in records
        if (key := record.key()) is not None
    }


def _topic_ids(names: set[str], config: StreamsConfig) -> dict[str, bytes]:
    consumer = PartitionConsumer(client_properties.restore_consumer(config))
    try:
        topics = consumer.topics(names)
    finally:
        consumer.close()
    return {name: topics.get(name, UNKNOWN_TOPIC).id_bytes for name in names}
