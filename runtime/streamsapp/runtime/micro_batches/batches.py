"""The micro-batches of an application as its driver plans them: what the group has committed, where topics end, and
which tasks are due.

Called on the driver's threads, one call at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaException

from streamsapp.clock import Clock
from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError
from streamsapp.kafka.consumer import BEGINNING, PartitionConsumer
from streamsapp.kafka.fetching.fetched import NO_TOPICS, Topics
from streamsapp.kafka.first_records import first_records
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.micro_batches.model import LaneOrder, LaneReport
from streamsapp.runtime.micro_batches.planning import MicroBatchPlanner
from streamsapp.runtime.micro_batches.publication import Publication
from streamsapp.runtime.snapshot_lag import SnapshotLag
from streamsapp.runtime.start_positions import StartPositions
from streamsapp.runtime.topics_created_anew import ended, lost_records, offsets_of_others

log = logging.getLogger(__name__)

#: Seconds between two rounds of deleting consumed records (``repartition.purge.interval.ms``).
_PURGE_PERIOD = 30.0
#: And between two looks whether topics are still the same ones.
_COMPARISON_PERIOD = 2.0
#: Offsets before an end that may all be control records.
_MARKERS = 100


class MicroBatches:
    """The work there is, until everything is done or for ever."""

    def __init__(
        self,
        layout: ApplicationLayout,
        config: StreamsConfig,
        admin: TopicAdmin,
        clock: Clock,
        planner: MicroBatchPlanner,
        *,
        catches_up: bool,
    ) -> None:
        """``catches_up``: there is an end, which is where topics end now."""
        self._layout = layout
        self._admin = admin
        self._clock = clock
        self.planner = planner
        self._catches_up = catches_up
        self._publication = Publication(layout, config, admin, clock)
        self._bounds: dict[TopicPartition, int] = {}
        #: Records that tasks have sent each other since the driver looked where topics end.
        self._passed_on = 0
        #: Committed offsets of repartition topics since the last purge.
        self._consumed: dict[TopicPartition, int] = {}
        self._next_purge = clock.monotonic() + _PURGE_PERIOD
        #: The topics that the inputs' names stood for when this began.
        self._topics: Topics = NO_TOPICS
        self._next_comparison = 0.0
        #: The time since which the broker does not report where topics end, in monotonic seconds, and the reason.
        self.outage: tuple[float, str] | None = None
        repeated(self._look, "looking up where topics end")
        self._find_positions(config)
        if catches_up:
            self._bounds = {
                each: end for each, end in planner.ends.items() if each.topic not in layout.repartition_topics
            }
        else:
            # As those of an instance are opened when it starts.
            planner.due_at_once(planner.partitions)

    def next(self) -> tuple[LaneOrder, ...]:
        """The next batch; nothing if no task has anything to do, or if the broker does not answer."""
        return self.planner.plan(self._clock.now_ms(), self._bounds) if self.look() else ()

    def look(self) -> bool:
        """Look where topics end; returns whether the broker answers. Raises ``TopicError`` for a topic that was created
        anew."""
        try:
            self._look()
        except KafkaException as error:
            if self.outage is None:
                log.warning("where topics end is not known: %s; asking again", error.args[0].str())
            self.outage = self.outage or (self._clock.monotonic(), error.args[0].str())
            return False
        if self.outage is not None:
            log.info("the broker answers again, after %.0f s", self._clock.monotonic() - self.outage[0])
            self.outage = None
        return True

    def report(self, report: LaneReport) -> None:
        """A lane is done."""
        self._publication.report(report)
        for task in report.tasks:
            self.planner.report(task)
            self._passed_on += task.passed_on
            self._consumed |= {each: at for each, at in task.committed.items() if self._is_internal(each)}
        self._purge()

    @property
    def caught_up(self) -> bool:
        """True if there is an end and it is reached: repartition topics are empty, and no transaction on them is still
        uncommitted."""
        if not self._catches_up or self.outage is not None or self.planner.plan(0, self._bounds):
            return False
        internal = [each for each in self.planner.partitions if each.topic in self._layout.repartition_topics]
        try:
            ends = self._admin.request_offsets(internal).result()
        except KafkaException as error:
            log.info("where repartition topics end is not known: %s; asking again", error.args[0].str())
            return False
        return all(ends[each] <= self.planner.positions[each] for each in internal)

    def behind(self) -> list[SnapshotLag]:
        """The tasks whose newest snapshot stands behind what is committed; asked when no lane is open any more. Raises
        ``StreamsError`` if it is not known."""
        try:
            return self._publication.behind()
        except KafkaException as error:
            raise StreamsError(error.args[0].str()) from error

    @property
    def lag(self) -> int:
        """Records that wait, of all tasks."""
        return self.planner.total_lag + self._passed_on

    def lags(self) -> dict[TaskId, int]:
        """Of every task."""
        return {task_id: self.planner.lag(task_id) for task_id in self._layout.plans}

    def _look(self) -> None:
        self._refuse_topics_created_anew()
        self.planner.ends = self._admin.request_offsets(self.planner.partitions, stable=True).result()
        self._passed_on = 0

    def _find_positions(self, config: StreamsConfig) -> None:
        consumer = PartitionConsumer(client_properties.main_consumer(config))
        try:
            committed = consumer.committed(self.planner.partitions)
            self._topics = consumer.topics({each.topic for each in self.planner.partitions})
            self.planner.positions = {each: at for each, (at, _) in committed.items()}
            self.planner.positions |= self._anew(offsets_of_others(committed, self._topics))
            self.planner.positions |= self._first(consumer, committed)
            self._pass_over_markers(consumer)
        finally:
            consumer.close()

    def _anew(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The beginnings of partitions of topics that were created anew since the group committed offsets."""
        for each in filter(self._is_internal, partitions):
            raise lost_records(next(plan.id for plan in self._layout.plans.values() if each in plan.inputs), each.topic)
        if not partitions:
            return {}
        return repeated(
            lambda: self._admin.request_offsets(partitions, earliest=True).result(), "looking up where topics begin"
        )

    def _refuse_topics_created_anew(self) -> None:
        now = self._clock.monotonic()
        if now < self._next_comparison:
            return
        self._next_comparison = now + _COMPARISON_PERIOD
        for topic, found in self._admin.topics(self._topics).items():
            if found.is_other(self._topics[topic]):
                raise ended(topic)

    def _first(
        self, consumer: PartitionConsumer, committed: Mapping[TopicPartition, object]
    ) -> dict[TopicPartition, int]:
        """The beginnings of partitions without a committed offset."""
        plans = {each: plan for plan in self._layout.plans.values() for each in plan.inputs if each not in committed}
        start = StartPositions(consumer, self._clock)
        wanted = {each: start.reset(plan, each) for each, plan in plans.items()}

        def ask() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
            low = self._admin.request_offsets(wanted, earliest=True)
            return low.result(), self._admin.request_offsets(wanted, stable=True).result()

        lows, highs = repeated(ask, "looking up where topics begin and end")
        # A snapshot may stand before them.
        self.planner.due_at_once([each for each, at in wanted.items() if at != BEGINNING])
        return {each: at if at >= 0 else lows[each] if at == BEGINNING else highs[each] for each, at in wanted.items()}

    def _pass_over_markers(self, consumer: PartitionConsumer) -> None:
        """A control record at the end of a partition is no work: no task is to be opened for that."""
        positions, ends = self.planner.positions, self.planner.ends
        near = {each: at for each, at in positions.items() if 0 < ends[each] - at <= _MARKERS}
        positions |= first_records(consumer, near, self._clock).ends

    def _purge(self) -> None:
        """Let the broker drop consumed records of repartition topics, now and then."""
        now = self._clock.monotonic()
        if self._consumed and now >= self._next_purge:
            self._next_purge = now + _PURGE_PERIOD
            self._admin.delete_records(self._consumed)
            self._consumed = {}

    def _is_internal(self, partition: TopicPartition) -> bool:
        return partition.topic in self._layout.repartition_topics
