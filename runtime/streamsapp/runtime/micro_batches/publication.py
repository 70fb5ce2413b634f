"""Compares what the object store has with what the application has committed: a run has to leave both the same.

Used by the driver, on the thread that plans batches.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.object_store_factory import open_store
from streamsapp.remote.snapshot import Snapshot
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.micro_batches.model import LaneReport
from streamsapp.runtime.snapshot_lag import SnapshotLag, SnapshotTask, snapshot_changelogs, snapshot_lags

#: Manifests that are read at a time.
_READERS = 8


class Publication:
    """The newest snapshots of all tasks, beside what the group has committed."""

    def __init__(self, layout: ApplicationLayout, config: StreamsConfig, admin: TopicAdmin, clock: Clock) -> None:
        self._config = config
        self._admin = admin
        self._clock = clock
        self._objects = None if config.remote_state is None else open_store(config.remote_state)
        plans = layout.plans.values()
        self._plans = {plan.id: plan for plan in plans if snapshot_changelogs(plan)}
        #: Tasks whose snapshots stand where they do: nothing was done since.
        self._published: set[TaskId] = set()

    def report(self, report: LaneReport) -> None:
        """A lane is done."""
        self._published.difference_update(task.id for task in report.tasks)
        self._published |= report.published

    def behind(self) -> list[SnapshotLag]:
        """Returns the tasks whose newest snapshot stands behind what is committed: a process was killed between the
        two, in this run or an earlier one. Raises ``KafkaException``, and what the object store raises."""
        doubtful = sorted(self._plans.keys() - self._published)
        if self._objects is None or not doubtful:
            return []
        with ThreadPoolExecutor(_READERS) as pool:
            snapshots = dict(zip(doubtful, pool.map(self._newest, doubtful), strict=True))
        tasks = [
            SnapshotTask(each, snapshots[each], snapshot_changelogs(self._plans[each]), self._plans[each].inputs.keys())
            for each in doubtful
        ]
        lags = snapshot_lags(self._config, self._admin, self._clock, tasks, GroupAdmin(self._config).committed())
        return [lag for lag in lags if lag.is_behind]

    def _newest(self, task_id: TaskId) -> Snapshot | None:
        assert self._objects is not None
        snapshot = ManifestChain(self._objects, self._config.application_id, task_id).newest()[1]
        return snapshot if snapshot is not None and snapshot.files else None
