"""Makes the state of an application of the rows that were put aside: changelogs, snapshots and committed offsets, as a
bootstrap does.

Runs on the driver, in the process that Spark commits a write in.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from streamsapp.clock import SystemClock
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import ManifestError, StreamsError
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import RawRecord
from streamsapp.remote.bootstraps import (
    TABLE,
    VERSION,
    BootstrapBegun,
    BootstrapDone,
    Bootstraps,
    HistoryRange,
    TaskDone,
)
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.snapshot import timestamp
from streamsapp.runtime.application_layout import ApplicationLayout, fingerprint, plan_layout
from streamsapp.runtime.snapshot_content import input_points
from streamsapp.tasks.assembly import task_stores
from streamsapp.tasks.task_plan import ConsumedOffset, TaskPlan
from streamsapp.topology.builder import Topology
from streamsapp.topology.internal_topics import InternalTopic
from streamsapp_spark.bootstrapping.driver import commit_offsets, internal_records, repartitioned
from streamsapp_spark.bootstrapping.kafka_output import KafkaOutput
from streamsapp_spark.bootstrapping.preconditions import INSTEAD, begin, refuse_running, refuse_used
from streamsapp_spark.history.end_offsets import PartitionOffsets
from streamsapp_spark.replay.job import Application
from streamsapp_spark.seed.rows import SeededEntry
from streamsapp_spark.snapshots.publisher import Publisher

#: Yields the rows in some objects.
Rows = Callable[[Sequence[str]], Iterator[list[SeededEntry]]]


def refuse_state(
    topology: Topology, config: StreamsConfig, objects: ObjectStore, admin: TopicAdmin
) -> tuple[ApplicationLayout, tuple[InternalTopic, ...]]:
    """Raises ``ManifestError`` for an application that runs, or that has state of any kind; else returns its tasks,
    and the internal topics that are missing."""
    group = GroupAdmin(config)
    refuse_running(group, config.application_id)
    before = Bootstraps(objects, config.application_id).newest()
    if before is not None and not before.is_done:
        raise ManifestError([before.unfinished(config.application_id)])
    if before is not None:
        raise ManifestError([f"{config.application_id} has state already: it was bootstrapped, or seeded; {INSTEAD}"])
    layout, missing = plan_layout(topology, config, admin)
    records = internal_records(config, layout, {topic.name for topic in missing})
    refuse_used(config, group, objects, records)
    return layout, missing


class Seeding:
    """Makes the state of all tasks. It begins what a bootstrap begins, and ends it."""

    def __init__(self, app: Application, store: str, inputs: tuple[HistoryRange, ...], rows: Rows) -> None:
        """Takes in ``inputs`` where instances go on."""
        self._app = app
        self._store = store
        self._inputs = inputs
        self._positions = {each.of: each.until for each in inputs}
        self._rows = rows

    def run(self, parts: Mapping[int, Sequence[str]]) -> None:
        """Makes it, of the objects with the rows of each partition of the changelog."""
        app, plans = self._app, self._app.layout.plans
        admin = TopicAdmin(client_properties.admin(app.config))
        _, missing = refuse_state(app.topology, app.config, app.objects, admin)
        admin.create(missing, app.config.replication_factor)
        self._positions |= PartitionOffsets(app.config, repartitioned(app.layout)).highs
        prints = {str(task_id): fingerprint(plan.sub_topology) for task_id, plan in sorted(plans.items())}
        now = timestamp(SystemClock().now_ms())
        begun = BootstrapBegun(VERSION, now, TABLE, self._inputs, prints)
        bootstraps = Bootstraps(app.objects, app.config.application_id)
        bootstrap = begin(bootstraps, GroupAdmin(app.config), app.config.application_id, begun)
        done = []
        for task_id, plan in sorted(plans.items()):
            keys = parts.get(task_id.partition, ()) if self._store in plan.changelogs else ()
            try:
                done.append(self._task(plan, keys))
            except Exception as error:
                raise StreamsError(
                    f"task {task_id}: {error}; no instance starts now: `streamsapp reset`, then write the table again"
                ) from error
            bootstrap.finish_task(done[-1])
        finished = BootstrapDone(VERSION, timestamp(SystemClock().now_ms()), tuple(done))
        bootstrap.finish(finished)
        commit_offsets(app.config, finished)

    def _task(self, plan: TaskPlan, keys: Sequence[str]) -> TaskDone:
        began, count, app = time.monotonic(), 0, self._app
        config = app.config_of(plan.id, "seed")
        with tempfile.TemporaryDirectory(prefix=f"streamsapp-{plan.id}-") as directory:
            stores = task_stores(plan, Path(directory), config, app.resources)
            publisher = Publisher(app, plan) if plan.has_snapshots(stores) else None
            stores.open()
            with closing(stores), closing(KafkaOutput(plan, config)) as output:
                for rows in self._rows(keys):
                    topic, partition = plan.changelogs[self._store]
                    records = [RawRecord(topic, partition, count + number, *row) for number, row in enumerate(rows)]
                    count += len(rows)
                    stores.restore(self._store, records, count)
                    output.commit(
                        None, [(topic, value, key, partition, None, None, at, None) for key, value, at in rows]
                    )
                stores.restored({}, {})
                inputs = {each: ConsumedOffset(self._positions[each], -1) for each in plan.inputs}
                if publisher is not None:
                    publisher.publish(stores, Path(directory), inputs)
        points = input_points({partition: (at.offset, at.metadata) for partition, at in inputs.items()})
        return TaskDone(VERSION, str(plan.id), points, count, 0, time.monotonic() - began)
