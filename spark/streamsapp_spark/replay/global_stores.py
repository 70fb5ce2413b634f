"""Fills global stores for a task that is replayed: from all of their topics' history before the task begins, as an
instance does that starts now.

Used in Spark's Python workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from streamsapp.clock import SystemClock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp_spark.replay.job import Application
from streamsapp_spark.replay.task_inputs import from_kafka


@contextmanager
def global_stores(
    app: Application, ranges: Mapping[TopicPartition, HistoryRange], directory: Path, config: StreamsConfig
) -> Iterator[dict[str, KeyValueStoreImpl]]:
    """Returns the stores as tasks read them; none if the topology has none."""
    stores = app.topology.global_stores()
    if not stores:
        yield {}
        return
    task = GlobalTask(stores, config, SystemClock(), app.resources, directory)
    task.open()
    try:
        for partition, of in sorted(ranges.items()):
            if partition.topic in task.by_topic:
                for records in from_kafka(of, config):
                    task.restore(partition, records)
        task.start()
        yield dict(task.stores.for_tasks)
    finally:
        task.close()
