"""``streamsapp preview``: what another program would do, on a copy of today's state and on the input since.

Runs on the driver's main thread, called by the command line; writes nothing anywhere.
"""

from __future__ import annotations

import argparse

from msgspec import structs
from pyspark.sql import DataFrame, SparkSession

from streamsapp.clock import SystemClock
from streamsapp.config import client_properties
from streamsapp.errors import ManifestError, StreamsError
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.manifest.entrypoint import read_app, user_code
from streamsapp.manifest.to_config import to_config
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp.runtime.application_layout import lay_out
from streamsapp_spark.history.end_offsets import PartitionOffsets
from streamsapp_spark.history.progress import SparkProgress
from streamsapp_spark.history.sources import KafkaHistory
from streamsapp_spark.history.stage_frames import StageFrames, cancelled_when_hopeless, compute, spark_partitions_of
from streamsapp_spark.preview.frames import side_by_side
from streamsapp_spark.preview.programs import PreviewedProgram, Succession
from streamsapp_spark.preview.report import PreviewReport
from streamsapp_spark.preview.start import Start, StartFacts, StartPlanner, Wanted
from streamsapp_spark.preview.task import PreviewWork, previewing
from streamsapp_spark.preview.text import ProgramText
from streamsapp_spark.programs.manifest import ManifestProgram
from streamsapp_spark.replay.job import ReplayJob
from streamsapp_spark.replay.worker_reports import Listener
from streamsapp_spark.session.command import Command
from streamsapp_spark.session.driver_port import driver_host
from streamsapp_spark.session.session import session

#: Records of input that are replayed at least, if nothing else is said.
RECORDS = 10_000

_SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"


def run(options: argparse.Namespace) -> int:
    """Runs the command, and returns its exit code."""
    return _Preview(options).run()


class _Preview(Command):
    """One call of the command; its application is today's."""

    def __init__(self, options: argparse.Namespace) -> None:
        app, topology = read_app(options.file)
        config = to_config(app, code=user_code(app, options.file.parent))
        # Both programs may have modules of the same names.
        user_code(app, options.file.parent).forget()
        today = argparse.Namespace(**{**vars(options), "file": options.against})
        try:
            super().__init__(today, "preview", "is not set, so there is no state to begin with")
        except ManifestError as error:
            raise ManifestError([_of_today(fault, options) for fault in error.faults]) from error
        partitions = TopicAdmin(client_properties.admin(self._config)).partition_counts()
        # The state is today's, wherever tomorrow's would be.
        app = structs.replace(app, spec=structs.replace(app.spec, remote_state=self._app.spec.remote_state))
        layouts = [
            lay_out(of, settings, partitions, _missing)[0]
            for of, settings in ((self._topology, self._config), (topology, config))
        ]
        self._partitions = partitions
        self._both = Succession(
            PreviewedProgram(self._app, options.against.parent, self._topology, self._config, layouts[0]),
            PreviewedProgram(app, options.file.parent, topology, config, layouts[1]),
        )

    def run(self) -> int:
        today, tomorrow = self._both.today, self._both.tomorrow
        bounds = PartitionOffsets(self._config, today.sources | today.shared | tomorrow.sources | tomorrow.shared)
        start = self._start(bounds)
        positions = self._both.positions(start, bounds.lows, bounds.highs)
        states = (
            {str(task_id): (str(task_id), number) for task_id, number in start.snapshots.items()},
            self._both.snapshots(start),
        )
        records = sum(max(0, bounds.highs[each] - at) for each, (at, _) in positions.items() if each in bounds.highs)
        notes = [*start.notes, *self._both.notes(), *self._about_input(records)]
        with session(self._java) as spark:
            self._fit_shuffles(spark)
            sides = [
                self._frames(spark, program, self._ranges(program, bounds, positions), positions, state)
                for program, state in zip((today, tomorrow), states, strict=True)
            ]
            texts = ProgramText(today.layout, today.config), ProgramText(tomorrow.layout, tomorrow.config)
            report = PreviewReport(side_by_side(*sides), texts)
            if self._options.output == "json":
                report.print_json(records, notes)
            else:
                report.print_text(self._id, records, notes)
            if self._options.report is not None:
                # For a Job, which is done when both were compared.
                self._options.report.write_bytes(report.summary(records, notes))
                return 0
        return 1 if report.differences else 0

    def _fit_shuffles(self, spark: SparkSession) -> None:
        """Shuffles of the comparison have as many partitions as there are tasks, or cores if these are more. With
        Spark's 200 hundreds of its tasks would have next to nothing to do."""
        if not self._java.conf.contains(_SHUFFLE_PARTITIONS):
            tasks = max(len(program.layout.plans) for program in (self._both.today, self._both.tomorrow))
            spark.conf.set(_SHUFFLE_PARTITIONS, str(max(tasks, spark.sparkContext.defaultParallelism)))

    def _start(self, bounds: PartitionOffsets) -> Start:
        last = self._options.last
        wanted = Wanted(self._options.records or RECORDS, None if last is None else SystemClock().now_ms() - last)
        since = {} if wanted.since_ms is None else bounds.since(wanted.since_ms)
        committed = GroupAdmin(self._config).committed()
        facts = StartFacts(self._id, self._objects, committed, bounds.lows, bounds.highs, since)
        return StartPlanner(self._both.today.stages, facts, wanted).choose()

    def _about_input(self, records: int) -> list[str]:
        notes = [] if records else ["there is no input after the state that was begun with: nothing was compared"]
        joined = any(self._both.today.stages.upstream.values())
        if joined and GroupAdmin(self._config).activity() is not None:
            notes.append(
                "the application runs: behind a repartition topic, state may have some of the records already that are "
                "replayed, on both sides alike"
            )
        return notes

    # ---- replaying ---------------------------------------------------------------------------------------------

    def _ranges(
        self, program: PreviewedProgram, bounds: PartitionOffsets, positions: dict[TopicPartition, tuple[int, str]]
    ) -> tuple[HistoryRange, ...]:
        starts = {each: positions[each][0] for each in program.sources}
        starts |= {each: bounds.lows[each] for each in program.shared}
        return tuple(HistoryRange(*each, at, max(at, bounds.highs[each])) for each, at in sorted(starts.items()))

    def _frames(
        self,
        spark: SparkSession,
        program: PreviewedProgram,
        ranges: tuple[HistoryRange, ...],
        positions: dict[TopicPartition, tuple[int, str]],
        state: dict[str, tuple[str, int]],
    ) -> list[DataFrame]:
        stages = program.stages
        tasks = {
            str(task_id): place
            for place, stage in enumerate(stages.in_order, 1)
            for part in stage
            for task_id in stages.tasks(part)
        }
        progress = SparkProgress(_records(program, ranges, tasks), tasks)
        with (
            Listener(driver_host(spark), progress.heard) as listener,
            progress,
            cancelled_when_hopeless(spark, progress),
        ):
            work = PreviewWork(
                ReplayJob.of(ManifestProgram.of(program.app, program.folder), self._partitions, listener.address),
                ranges,
                (),
                spark_partitions_of(stages),
                starts=positions,
                state_of=self._id,
                snapshots=state,
                compared=self._both.compared(),
            )
            frames = StageFrames(spark, KafkaHistory(), stages, work, previewing(work))
            kept = []
            for stage in stages.in_order:
                frames.make(stage)
                kept.append(frames.keep(stage))
                try:
                    compute(kept[-1], progress)
                except StreamsError as error:
                    whose = "today's" if program is self._both.today else "tomorrow's"
                    raise StreamsError(f"{whose} program fails: {error}") from error
        return kept


def _records(program: PreviewedProgram, ranges: tuple[HistoryRange, ...], tasks: dict[str, int]) -> dict[str, int]:
    spans = {each.of: each.until - each.start for each in ranges}
    plans = program.layout.plans
    return {task: sum(spans.get(each, 0) for each in plans[TaskId.parse(task)].inputs) for task in tasks}


def _of_today(fault: str, options: argparse.Namespace) -> str:
    return fault if fault.startswith("--") else f"--against: {options.against}: {fault}"


def _missing(topic: str) -> str:
    return f"topic {topic} does not exist: without it nothing can be previewed"
