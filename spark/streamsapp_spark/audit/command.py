"""``streamsapp audit``: recomputes state from the topics and compares it with the snapshots.

Runs on the driver's main thread, called by the command line; writes nothing anywhere.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from streamsapp.config import client_properties
from streamsapp.errors import ManifestError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import Bootstraps, HistoryRange
from streamsapp.runtime.application_layout import ApplicationLayout, lay_out
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp_spark.audit.plan import AuditFacts, AuditPlan, AuditPlanner
from streamsapp_spark.audit.report import AuditReport
from streamsapp_spark.audit.task import AuditWork, Message, auditing, decoded
from streamsapp_spark.history.end_offsets import PartitionOffsets
from streamsapp_spark.history.progress import SparkProgress
from streamsapp_spark.history.sources import KafkaHistory
from streamsapp_spark.history.stage_frames import StageFrames, cancelled_when_hopeless, compute, spark_partitions_of
from streamsapp_spark.replay.job import ReplayJob
from streamsapp_spark.replay.stage_rows import NOBODY
from streamsapp_spark.replay.stages import Stages
from streamsapp_spark.replay.worker_reports import Address, Listener
from streamsapp_spark.session.command import Command
from streamsapp_spark.session.driver_port import driver_host
from streamsapp_spark.session.session import session
from streamsapp_spark.snapshots.database_comparison import audited_stores


def run(options: argparse.Namespace) -> int:
    """Runs the command, and returns its exit code."""
    return _Audit(options).run()


class _Audit(Command):
    """One call of the command."""

    def __init__(self, options: argparse.Namespace) -> None:
        super().__init__(options, "audit", "is not set, so there are no snapshots to audit")
        self._config = replace(self._config, client_id=f"{self._id}-audit")
        self._partitions = TopicAdmin(client_properties.admin(self._config)).partition_counts()

    def run(self) -> int:
        layout, _ = lay_out(self._topology, self._config, self._partitions, _missing)
        stages = Stages(layout)
        self._refuse_unknown_store(stages)
        plan = AuditPlanner(stages, self._known(layout), self._options.store).plan()
        report = AuditReport(plan, stages, as_json=self._options.output == "json")
        if plan.stages:
            with session(self._java) as spark:
                self._compare(spark, stages, plan, report)
        report.conclude(self._id)
        return 0 if report.is_good else 1

    def _refuse_unknown_store(self, stages: Stages) -> None:
        stores = sorted({each.name for part in stages.parts.values() for each in audited_stores(part, None)})
        if self._options.store is not None and self._options.store not in stores:
            known = ", ".join(stores) or "none"
            raise ManifestError(
                [f"--store: no snapshot holds a store {self._options.store!r}; the stores that snapshots hold: {known}"]
            )

    def _known(self, layout: ApplicationLayout) -> AuditFacts:
        bootstrap = Bootstraps(self._objects, self._id).newest()
        done = None if bootstrap is None or not bootstrap.is_done else bootstrap.done()
        return AuditFacts(
            self._config,
            self._objects,
            GroupAdmin(self._config).committed(),
            self._committed_times(layout),
            PartitionOffsets(self._config, {each for plan in layout.plans.values() for each in plan.inputs}),
            None if bootstrap is None else bootstrap.begun(),
            done,
            self._runs(),
        )

    def _committed_times(self, layout: ApplicationLayout) -> dict[TopicPartition, int]:
        """Returns the time that inputs with time markers had reached at the last commit."""
        marked = [plan for plan in layout.plans.values() if plan.sub_topology.time is not None]
        if not marked:
            return {}
        consumer = PartitionConsumer(client_properties.main_consumer(self._config))
        try:
            committed = consumer.committed([each for plan in marked for each in plan.inputs])
        finally:
            consumer.close()
        return {each: OffsetMetadata.decode(metadata).partition_time for each, (_, metadata) in committed.items()}

    def _runs(self) -> bool | None:
        if GroupAdmin(self._config).activity() is not None:
            return True
        spec = self._app.spec
        return None if spec.engine == "spark" and not spec.spark.catches_up else False

    # ---- comparing ---------------------------------------------------------------------------------------------

    def _compare(self, spark: SparkSession, stages: Stages, plan: AuditPlan, report: AuditReport) -> None:
        places = {number: place for place, stage in enumerate(plan.stages, 1) for number in stage}
        tasks = {str(each): places[each.subtopology] for each in sorted(plan.tasks)}
        progress = SparkProgress(_records(stages, plan), tasks)
        with (
            Listener(driver_host(spark), progress.heard) as listener,
            progress,
            cancelled_when_hopeless(spark, progress),
        ):
            work = self._work(listener.address, stages, plan)
            frames = StageFrames(spark, KafkaHistory(), stages, work, auditing(work))
            for stage in plan.stages:
                if report.failed_above(stage):
                    report.skip(stage)
                    continue
                frames.make(stage)
                frame = frames.keep(stage)
                compute(frame, progress)
                for message in _messages(frame):
                    report.take(message)

    def _work(self, report_to: Address, stages: Stages, plan: AuditPlan) -> AuditWork:
        shared = {each.topic for each in self._topology.global_stores()}
        partitions = {
            TopicPartition(topic, number) for topic in shared for number in range(stages.layout.sources[topic])
        }
        bounds = PartitionOffsets(self._config, partitions)
        of_globals = [HistoryRange(*each, bounds.lows[each], bounds.highs[each]) for each in sorted(partitions)]
        return AuditWork(
            ReplayJob.of(self._program, self._partitions, report_to),
            (*plan.ranges, *of_globals),
            tuple(plan.internal),
            spark_partitions_of(stages),
            times=plan.times,
            tasks=frozenset(map(str, plan.tasks)),
            snapshots=plan.snapshots,
            store=self._options.store,
        )


def _messages(frame: DataFrame) -> Iterator[Message]:
    """Yields the messages of one partition at a time, however many partitions there are."""
    for row in frame.filter(f"reader = {NOBODY}").select("value").toLocalIterator():
        yield decoded(bytes(row["value"]))


def _records(stages: Stages, plan: AuditPlan) -> dict[str, int]:
    spans = {each.of: each.until - each.start for each in plan.ranges}
    return {
        str(task_id): sum(spans.get(each, 0) for each in stages.layout.plans[task_id].inputs)
        for task_id in sorted(plan.tasks)
    }


def _missing(topic: str) -> str:
    return f"topic {topic} does not exist: without it nothing can be recomputed"
