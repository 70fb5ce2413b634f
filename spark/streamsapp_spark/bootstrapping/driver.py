"""A bootstrap: makes snapshots of topic history, from which instances start.

Runs on the driver's main thread, called by ``streamsapp bootstrap`` and by Python programs. The driver fixes the
offsets, writes them down, has Spark replay one stage after the other, and says that it is done when every task is. If
anything ends it in between, the same call goes on where it was; until then no instance starts.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import reduce

from confluent_kafka import KafkaException
from pyspark.sql import DataFrame, SparkSession

from streamsapp.clock import SystemClock
from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import ManifestError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.manifest.history_end import LATEST
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import (
    TABLE,
    VERSION,
    BootstrapBegun,
    BootstrapDone,
    Bootstraps,
    BootstrapState,
    HistoryRange,
)
from streamsapp.remote.object_store import ObjectStore
from streamsapp.remote.snapshot import timestamp
from streamsapp.runtime.application_layout import ApplicationLayout, fingerprint, plan_layout
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.topology.builder import Topology
from streamsapp_spark.bootstrapping.outcome import Outcome
from streamsapp_spark.bootstrapping.preconditions import (
    INSTEAD,
    begin,
    has_gone_on,
    has_run,
    refuse_running,
    refuse_used,
)
from streamsapp_spark.bootstrapping.task import BootstrapWork, bootstrapping
from streamsapp_spark.history.end_offsets import PartitionOffsets, refuse_other
from streamsapp_spark.history.places import Tables
from streamsapp_spark.history.progress import SparkProgress
from streamsapp_spark.history.sources import KAFKA, History, KafkaHistory, TableHistory
from streamsapp_spark.history.stage_frames import StageFrames, cancelled_when_hopeless, compute, spark_partitions_of
from streamsapp_spark.programs.shipped import ShippedProgram
from streamsapp_spark.replay.job import ReplayJob
from streamsapp_spark.replay.stages import Stage, Stages
from streamsapp_spark.replay.worker_reports import Address, Listener
from streamsapp_spark.session.driver_port import driver_host

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class BootstrapOptions:
    """Choices of the user."""

    #: ``latest``, or the end of each partition as JSON or in a file.
    until: str = LATEST
    #: Says whether results of history are written, too.
    emit: bool = False
    #: Says that offsets without a row are right.
    accepts_gaps: bool = False


@dataclass(frozen=True)
class _Begun:
    """The bootstrap that was begun, with the history to replay."""

    bootstrap: BootstrapState
    begun: BootstrapBegun
    internal: tuple[HistoryRange, ...]


class Bootstrap:
    """One call of the command, or of the function."""

    def __init__(
        self,
        program: ShippedProgram,
        topology: Topology,
        config: StreamsConfig,
        objects: ObjectStore,
        tables: Tables | None,
        options: BootstrapOptions,
    ) -> None:
        """Takes ``tables`` that hold the history; ``None``: Kafka does."""
        self._program = program
        self._topology = topology
        self._config = config
        self._id = config.application_id
        self._objects = objects
        self._tables = tables
        self._options = options
        self._objects.probe()
        self._group = GroupAdmin(self._config)
        self._bootstraps = Bootstraps(self._objects, self._id)
        self._admin = TopicAdmin(client_properties.admin(self._config))
        #: Says whether instances wait for this bootstrap.
        self.has_begun = False

    def run(self, sessions: AbstractContextManager[SparkSession]) -> Outcome:
        """Builds all state in the session that the context gives, or finds it built. Raises ``StreamsAppError``."""
        refuse_running(self._group, self._id)
        before = self._bootstraps.newest()
        if before is not None and before.is_done:
            return self._done_before(before)
        layout, missing = plan_layout(self._topology, self._config, self._admin)
        stages = Stages(layout)
        stages.refuse_feedback()
        # Most mistakes are reported before Spark has started; nothing is begun before it has.
        found: tuple[HistoryRange, ...] = ()
        if before is not None:
            if before.begun().history == TABLE:
                raise ManifestError([before.unfinished(self._id)])
            self.has_begun = True
            self._refuse_change(before.begun(), layout)
        else:
            records = internal_records(self._config, layout, {topic.name for topic in missing})
            refuse_used(self._config, self._group, self._objects, records)
            found = self._ranges(KafkaHistory(), layout) if self._tables is None else ()
        with sessions as spark:
            history = self._open(spark, layout)
            if before is None:
                found = found or self._ranges(history, layout)
            else:
                history.check(before.begun().ranges)
            self._admin.create(missing, self._config.replication_factor)  # nothing is refused any more
            work = self._go_on(before, layout) if before is not None else self._begin(layout, history, found)
            return self._replay(spark, history, stages, work)

    def _open(self, spark: SparkSession, layout: ApplicationLayout) -> History:
        if self._tables is None:
            return KafkaHistory()
        topics = {each.topic for each in self._inputs(layout)}
        for topic in sorted(self._tables.topics - topics):
            raise ManifestError(
                [f"--from: the application reads no topic {topic!r}; it reads {', '.join(sorted(topics))}"]
            )
        tables = self._tables.fixed(spark)
        return TableHistory(tables.name, tables.open(spark), self._config, accepts_gaps=self._options.accepts_gaps)

    # ---- beginning ---------------------------------------------------------------------------------------------

    def _ranges(self, history: History, layout: ApplicationLayout) -> tuple[HistoryRange, ...]:
        partitions = self._inputs(layout)
        if self._tables is not None:
            partitions -= self._only_global(layout)
        return history.ranges(PartitionOffsets(self._config, partitions), self._options.until)

    def _begin(self, layout: ApplicationLayout, history: History, of: tuple[HistoryRange, ...]) -> _Begun:
        begun = BootstrapBegun(VERSION, timestamp(SystemClock().now_ms()), history.name, of, _fingerprints(layout))
        bootstrap = begin(self._bootstraps, self._group, self._id, begun)
        self.has_begun = True
        return _Begun(bootstrap, begun, self._internal(layout))

    def _refuse_change(self, begun: BootstrapBegun, layout: ApplicationLayout) -> None:
        """Refuses a change of the application: the same command must go on with the begun work."""
        since = f"began at {begun.begun_at}"
        differs = "start again from nothing with `streamsapp reset`, then `streamsapp bootstrap`"
        if has_run(self._config, self._group.committed()):
            raise ManifestError([f"{self._id} has run since its bootstrap {since}; {differs}"])
        if begun.fingerprints != _fingerprints(layout):
            raise ManifestError([f"spec.topology: is not the one that the bootstrap {since} with; {differs}"])
        self._refuse_other_history(
            begun.history, f"--from: the bootstrap {since} with {begun.history}; say so again, or {differs}"
        )
        refuse_other(begun.ranges, self._options.until, since)

    def _refuse_other_history(self, name: str, fault: str) -> None:
        if self._tables is not None:
            self._tables = self._tables.as_begun(name)
        elif name == KAFKA:
            return
        if self._tables is None:
            raise ManifestError([fault])

    def _go_on(self, bootstrap: BootstrapState, layout: ApplicationLayout) -> _Begun:
        begun, finished = bootstrap.begun(), len(bootstrap.finished)
        log.info(
            "the bootstrap of %s goes on: %d tasks of %d are finished", begun.begun_at, finished, len(layout.plans)
        )
        return _Begun(bootstrap, begun, self._internal(layout))

    def _inputs(self, layout: ApplicationLayout) -> set[TopicPartition]:
        """Returns the history of users' topics: of tasks and of global stores."""
        inputs = {each for plan in layout.plans.values() for each in plan.inputs}
        shared = {each.topic for each in self._topology.global_stores()}
        inputs |= {TopicPartition(topic, number) for topic in shared for number in range(layout.sources[topic])}
        return {each for each in inputs if each.topic not in layout.repartition_topics}

    def _only_global(self, layout: ApplicationLayout) -> set[TopicPartition]:
        """Returns the partitions that only global stores read. These stores are filled from Kafka, as an instance does:
        what tables have of them, if anything, does not show what they will hold then."""
        read = {each for plan in layout.plans.values() for each in plan.inputs}
        return self._inputs(layout) - read

    def _internal(self, layout: ApplicationLayout) -> tuple[HistoryRange, ...]:
        """Returns what is read from Kafka, whatever history is: global stores' topics, and the ends of repartition
        topics, whose records belong to no reader, as readers go on at their end."""
        shared = set() if self._tables is None else self._only_global(layout)
        bounds = PartitionOffsets(self._config, repartitioned(layout) | shared)
        return tuple(HistoryRange(*each, bounds.lows[each], high) for each, high in sorted(bounds.highs.items()))

    # ---- replaying ---------------------------------------------------------------------------------------------

    def _replay(self, spark: SparkSession, history: History, stages: Stages, work: _Begun) -> Outcome:
        needed = stages.needed(work.bootstrap.finished)
        tasks = {
            str(task_id): place
            for place, stage in enumerate(needed, 1)
            for group in stages.groups(stage)
            for task_id in group
        }
        progress = SparkProgress(_records(stages.layout, work.begun, tasks), tasks)
        with Listener(driver_host(spark), progress.heard) as listener, progress:
            if needed:
                bootstrap_work = self._work(listener.address, history, stages, work)
                frames = StageFrames(spark, history, stages, bootstrap_work, bootstrapping(bootstrap_work))
                with cancelled_when_hopeless(spark, progress):
                    _replay_all(stages, frames, needed, progress)
        return self._finish(stages, work, progress)

    def _work(self, report_to: Address, history: History, stages: Stages, work: _Begun) -> BootstrapWork:
        return BootstrapWork(
            ReplayJob.of(self._program, self._admin.partition_counts(), report_to),
            work.begun.ranges,
            work.internal,
            spark_partitions_of(stages),
            rows_only=not isinstance(history, KafkaHistory),
            number=work.bootstrap.number,
            emit=self._options.emit,
        )

    # ---- ending ------------------------------------------------------------------------------------------------

    def _finish(self, stages: Stages, work: _Begun, progress: SparkProgress) -> Outcome:
        found = self._bootstraps.newest()
        assert found is not None  # it was begun
        missing = stages.layout.plans.keys() - found.finished
        if missing:
            raise progress.error(f"tasks were not finished: {', '.join(map(str, sorted(missing)))}; run it again")
        tasks = tuple(found.task(task_id) for task_id in sorted(found.finished))
        done = BootstrapDone(VERSION, timestamp(SystemClock().now_ms()), tasks)
        found.finish(done)
        commit_offsets(self._config, done)
        return Outcome(self._id, work.begun, done, progress.seconds)

    def _done_before(self, bootstrap: BootstrapState) -> Outcome:
        done = bootstrap.done()
        refuse_other(bootstrap.begun().ranges, self._options.until, f"was done at {done.done_at}")
        if has_gone_on(self._config, self._group, done):
            raise ManifestError(
                [f"{self._id} has run since its bootstrap was done at {done.done_at}: its state is kept; {INSTEAD}"]
            )
        commit_offsets(self._config, done)
        return Outcome(self._id, bootstrap.begun(), done)


def _replay_all(stages: Stages, frames: StageFrames, needed: list[Stage], progress: SparkProgress) -> None:
    """Runs one Spark action for all stages that no other stage reads, and one for each that several read, which is
    kept."""
    last = []
    for stage in needed:
        frame = frames.make(stage)
        readers = [each for each in stages.readers(stage) if each in needed]
        if not readers:
            last.append(frame)
        elif len(readers) > 1:
            compute(frames.keep(stage), progress)
    compute(reduce(DataFrame.union, last), progress)


def internal_records(
    config: StreamsConfig, layout: ApplicationLayout, missing: Collection[str]
) -> dict[TopicPartition, int]:
    """Returns how many records there are in each internal partition; topics that are ``missing`` have none."""
    internal = {
        each
        for plan in layout.plans.values()
        for store, each in plan.changelogs.items()
        if not _has_markers(plan, store)
    }
    internal |= repartitioned(layout)
    bounds = PartitionOffsets(config, {each for each in internal if each.topic not in missing})
    return {each: high - bounds.lows[each] for each, high in bounds.highs.items()}


def _has_markers(plan: TaskPlan, store: str) -> bool:
    """Says whether a store has time markers of sources: they belong to the history, and are applied again."""
    flow = plan.sub_topology.time
    return flow is not None and bool(flow.idle_after_ms) and store == flow.store


def commit_offsets(config: StreamsConfig, done: BootstrapDone) -> None:
    """Commits the group's offsets, too: an instance that cannot reach the object store must not read history again."""
    offsets = {
        TopicPartition(each.topic, each.partition): (each.offset, each.metadata)
        for task in done.tasks
        for each in task.inputs
    }
    consumer = PartitionConsumer(client_properties.main_consumer(config))
    try:
        consumer.commit(offsets)
    except KafkaException as error:
        log.warning("offsets were not committed (%s): instances take them from the snapshots", error.args[0].str())
    finally:
        consumer.close()


def repartitioned(layout: ApplicationLayout) -> set[TopicPartition]:
    """Returns the partitions of internal topics that tasks read."""
    inputs = {each for plan in layout.plans.values() for each in plan.inputs}
    return {each for each in inputs if each.topic in layout.repartition_topics}


def _fingerprints(layout: ApplicationLayout) -> dict[str, str]:
    return {str(task_id): fingerprint(plan.sub_topology) for task_id, plan in sorted(layout.plans.items())}


def _records(layout: ApplicationLayout, begun: BootstrapBegun, tasks: Mapping[str, int]) -> dict[str, int]:
    """Returns how many records of history each task has, as far as that is known before."""
    spans = {each.of: each.until - each.start for each in begun.ranges}
    return {task: sum(spans.get(each, 0) for each in layout.plans[TaskId.parse(task)].inputs) for task in tasks}
