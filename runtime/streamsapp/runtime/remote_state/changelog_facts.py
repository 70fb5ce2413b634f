"""Facts about a task's changelogs, asked from the broker, which decide whether a snapshot can be continued with them.

Called on the threads that prepare tasks. A snapshot of a topic that was deleted and created again must never meet the
new one. No records may be skipped between a snapshot and the records that its changelog still has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from streamsapp.clock import Clock
from streamsapp.errors import StateStoreError
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.remote.snapshot import Snapshot, StorePoint, milliseconds
from streamsapp.runtime.outdated_state import TombstoneRetention
from streamsapp.tasks.stream_task import StreamTask

#: Seconds.
_IDS_ARE_NEW = 5.0


@dataclass(frozen=True)
class ChangelogGap:
    """Records between a snapshot and its changelog are gone."""

    store: str
    changelog: TopicPartition
    snapshot: int
    #: The offset that the snapshot stands at, and the first that the broker has.
    stands_at: int
    begins_at: int


@dataclass(frozen=True)
class ChangelogFacts:
    """A task's changelogs as the broker had them a moment ago."""

    #: Topic id per store.
    ids: Mapping[str, str]
    lows: Mapping[TopicPartition, int]
    highs: Mapping[TopicPartition, int]
    retention: TombstoneRetention

    def objection(self, snapshot: Snapshot, task: StreamTask) -> str | None:
        """Returns why a task cannot go on from a snapshot, if it cannot. Stores that one of both does not know do not
        matter: they are dropped, or restored from their changelog."""
        fault = self.mismatch(snapshot, task) or self._too_old(snapshot, task)
        if fault is None and (gaps := self.gaps(snapshot, task)):
            gap = gaps[0]
            stands = f"store {gap.store} stands at offset {gap.stands_at} of {gap.changelog}"
            return f"{stands}, which begins at {gap.begins_at}"
        return fault

    def _too_old(self, snapshot: Snapshot, task: StreamTask) -> str | None:
        """A snapshot of an active task's stores has all that their changelogs had when it was made."""
        for store, changelog in task.plan.all_changelogs.items():
            point = snapshot.stores.get(store)
            # The last record of a partition is never compacted away.
            if point is None or point.offset >= self.highs[changelog] - 1:
                continue
            if self.retention.passed(changelog.topic, milliseconds(snapshot.created_at)):
                return f"it was made at {snapshot.created_at}, and {changelog} may have lost deletions since"
        return None

    def mismatch(self, snapshot: Snapshot, task: StreamTask) -> str | None:
        """Returns why a snapshot is not of the task's stores and their changelogs, if it is not. A snapshot of these
        stores says where the task's inputs stood, also where :meth:`gaps` keep the task from its files."""
        known = {name: point for name, point in snapshot.stores.items() if name in task.plan.all_changelogs}
        if not any(point.family == task.stores.families.get(name) for name, point in known.items()):
            return f"it has none of the task's stores {', '.join(task.stores.families)}"
        faults = (self._fault(name, point, task.plan.all_changelogs[name]) for name, point in known.items())
        return next((fault for fault in faults if fault is not None), None)

    def _fault(self, store: str, point: StorePoint, changelog: TopicPartition) -> str | None:
        made_from = TopicPartition(point.changelog, point.partition)
        if made_from != changelog:
            return f"store {store} was made from {made_from}; its changelog is {changelog}"
        if point.topic_id is not None and point.topic_id != self.ids[store]:
            return (
                f"store {store} was made from a topic {changelog.topic} that was deleted and created again since, or is"
                " another cluster's"
            )
        if point.offset > self.highs[changelog]:
            return (
                f"store {store} stands at offset {point.offset} of {changelog}, which ends at {self.highs[changelog]}"
            )
        return None

    def gaps(self, snapshot: Snapshot, task: StreamTask) -> list[ChangelogGap]:
        """The places where records after the snapshot are gone."""
        return [
            ChangelogGap(name, changelog, snapshot.number, point.offset, self.lows[changelog])
            for name, changelog in task.plan.all_changelogs.items()
            if (point := snapshot.stores.get(name)) is not None
            and point.topic_id in (None, self.ids[name])
            and point.offset < self.lows[changelog]
        ]

    def tail(self, snapshot: Snapshot, task: StreamTask) -> int:
        """Records to be read after the snapshot, at most."""
        return sum(
            max(0, self.highs[changelog] - (self.lows[changelog] if point is None else point.offset))
            for name, changelog in task.plan.all_changelogs.items()
            for point in [snapshot.stores.get(name)]
        )


class ChangelogInspector:
    """Asks the broker."""

    def __init__(self, admin: TopicAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._ids: dict[str, tuple[float, str]] = {}
        self._retention = TombstoneRetention(admin, clock)

    def facts(self, task: StreamTask) -> ChangelogFacts:
        """Raises ``KafkaException`` when the broker does not answer for long."""
        changelogs = task.plan.all_changelogs

        def request() -> ChangelogFacts:
            low = self._admin.request_offsets(changelogs.values(), earliest=True)
            high = self._admin.request_offsets(changelogs.values())
            ids = self._topic_ids({each.topic for each in changelogs.values()})
            by_store = {store: ids[each.topic] for store, each in changelogs.items()}
            return ChangelogFacts(by_store, low.result(), high.result(), self._retention)

        return repeated(request, f"looking up the changelogs of task {task.id}")

    def refuse_gaps(self, gaps: list[ChangelogGap], task: StreamTask) -> None:
        """Raise ``StateStoreError`` where starting over from a changelog would silently miss records. Where the broker
        deletes old records by policy, a store of the remaining records is the wanted result."""
        for gap in gaps:
            if not repeated(
                partial(self._admin.only_compacts, gap.changelog.topic), "looking up the changelog's policy"
            ):
                continue
            raise StateStoreError(
                f"task {task.id}: store {gap.store} cannot be restored: {gap.changelog} begins at offset"
                f" {gap.begins_at}, and the newest usable snapshot (number {gap.snapshot}) stands at {gap.stands_at}:"
                f" the records between were deleted although the topic only compacts. Restore the topic, or rebuild the"
                " state from the input with `streamsapp reset`"
            )

    def _topic_ids(self, topics: set[str]) -> dict[str, str]:
        """The tasks of an assignment share them."""
        now = self._clock.monotonic()
        unknown = {each for each in topics if each not in self._ids or self._ids[each][0] < now - _IDS_ARE_NEW}
        if unknown:
            self._ids.update({topic: (now, found) for topic, found in self._admin.topic_ids(unknown).items()})
        return {topic: self._ids[topic][1] for topic in topics}
