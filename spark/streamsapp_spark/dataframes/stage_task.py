"""The Spark task of one stage in one batch: it runs a stream task from its state after the batch before, and hands on
what is for other stages, and what is a result.

Runs in Spark's Python workers. Everything is opened anew in each batch: what a batch does depends on its rows and the
state before, and on nothing that a process happens to have kept.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles, TaskContext

from streamsapp.errors import StreamsError, TopologyError
from streamsapp.outgoing import OutputRecord
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp.remote.snapshot import Snapshot
from streamsapp.tasks.task_plan import ConsumedOffset, TaskPlan
from streamsapp_spark.dataframes.program import BoundApplication, BoundProgram, bound_application
from streamsapp_spark.dataframes.versions import TaskVersions
from streamsapp_spark.replay.loop import group_advances
from streamsapp_spark.replay.replay import Replay
from streamsapp_spark.replay.stage_rows import NOBODY, ORDER, SOURCE, InputRows, OutputRows, Row, batch_of
from streamsapp_spark.replay.task_inputs import from_rows

ArrowBatches = Iterator[pa.RecordBatch]

#: After ``ORDER`` come the rows of sources without offsets.
_SORTED = [(name, "ascending") for name in (*ORDER, "key", "value", "headers")]
_ROWS = 1_000
#: A batch that is run again needs the state before it.
_LEAST_RETAINED = 2


@dataclass(frozen=True)
class BatchTask:
    """One Spark task of one stage of one batch."""

    program: BoundProgram
    #: The number of the stage among all, and of the Spark task among its own.
    stage: int
    partition: int
    batch: int
    #: As Spark names the query: the same as long as its checkpoint lives.
    query: str
    #: The folder of the session's for stores, and for files that later batches need again.
    kept: Path

    @classmethod
    def current(cls, program: BoundProgram, stage: int) -> BatchTask:
        """Returns the one that Spark runs in this process."""
        context = TaskContext.get()
        batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        if context is None or batch is None:
            raise StreamsError("run_topology gives a streaming DataFrame: start it with writeStream")
        query = str(context.getLocalProperty("sql.streaming.queryId"))
        kept = Path(SparkFiles.getRootDirectory()).resolve() / "streamsapp" / query
        return cls(program, stage, context.partitionId(), int(batch), query, kept)

    def run(self, batches: Iterable[pa.RecordBatch]) -> ArrowBatches:
        """Yields rows for later stages, and results."""
        app = bound_application(self.program)
        stage = app.stages.in_order[self.stage]
        own = []
        for batch in batches:
            mine = pc.equal(batch.column("reader"), stage[0])
            own.append(batch.filter(mine))
            if (others := batch.filter(pc.invert(mine))).num_rows:
                yield others
        group = app.stages.groups(stage)[self.partition]
        # Beside the kept files, which it has links to; and a killed worker's goes when the session does.
        self.kept.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{group[0]}-", dir=self.kept) as directory:
            yield from _Group(self, app, group, Path(directory)).run([batch for batch in own if batch.num_rows])


class _Group:
    """The stream tasks of one Spark task: one, unless there are more that send each other records."""

    def __init__(self, task: BatchTask, app: BoundApplication, group: Sequence[TaskId], directory: Path) -> None:
        self._app = app
        self._plans = {task_id: app.layout.plans[task_id] for task_id in group}
        self._directory = directory
        self._versions = {
            task_id: TaskVersions(
                ManifestChain(app.objects, f"{app.config.application_id}.{task.query}", task_id),
                task.batch,
                app.descriptions[task_id.subtopology],
                task.kept / str(task_id),
            )
            for task_id in group
        }
        assert app.config.remote_state is not None  # the driver has set it
        self._retain = max(app.config.remote_state.retain, _LEAST_RETAINED)

    def run(self, rows: Sequence[pa.RecordBatch]) -> ArrowBatches:
        before = {task_id: versions.before() for task_id, versions in self._versions.items()}
        begins = {task_id: snapshot for task_id, (snapshot, _) in before.items() if snapshot is not None}
        written = all(is_written for _, is_written in before.values())
        if rows or not begins:
            yield from self._process(rows, begins, written=written)
        elif not written:
            for task_id, snapshot in begins.items():
                self._versions[task_id].repeat(snapshot, self._retain)

    def _process(
        self, rows: Sequence[pa.RecordBatch], begins: dict[TaskId, Snapshot], *, written: bool
    ) -> ArrowBatches:
        starts: dict[TopicPartition, ConsumedOffset] = {}
        for task_id, snapshot in begins.items():
            starts |= self._versions[task_id].restore(snapshot, self._directory / str(task_id))
        with ExitStack() as stack:
            replays = {
                task_id: stack.enter_context(self._replay(plan, starts)) for task_id, plan in self._plans.items()
            }
            for task_id, replay in replays.items():
                _refuse_wall_clock(task_id, replay)
                replay.go_on()
            yield from self._outputs(replays, rows, {each: at.offset for each, at in starts.items()})
            for task_id, replay in replays.items():
                _refuse_wall_clock(task_id, replay)  # scheduled by a record
            if not written:
                for task_id, replay in replays.items():
                    checkpoint = self._checkpoint(task_id, replay)
                    self._versions[task_id].write(begins.get(task_id), checkpoint, replay.standing(), self._retain)

    def _replay(self, plan: TaskPlan, starts: dict[TopicPartition, ConsumedOffset]) -> Replay:
        own = {each: starts[each] for each in plan.inputs if each in starts}
        return Replay(plan, self._app.config, self._directory / str(plan.id), self._app.resources, {}, own)

    def _outputs(
        self, replays: dict[TaskId, Replay], rows: Sequence[pa.RecordBatch], firsts: dict[TopicPartition, int]
    ) -> ArrowBatches:
        stages, internal = self._app.stages, self._app.layout.repartition_topics
        group = tuple(self._plans)
        onward = {topic: self._plans[group[0]].partition_count(topic) for topic in stages.onward(group)}
        rows_of = {task_id: OutputRows(task_id, onward, self._app.destinations) for task_id in group}
        inputs = from_rows(
            InputRows(_in_order(rows, firsts), firsts), sum(len(each.inputs) for each in self._plans.values())
        )
        for task_id, advance in group_advances(replays, stages.looped(group), inputs):
            yield from rows_of[task_id].batches(advance.outputs)
            yield from self._results(task_id, [each for each in advance.outputs if each[0] not in internal])
        for out in rows_of.values():
            yield from out.rest()

    def _results(self, task_id: TaskId, records: Sequence[OutputRecord]) -> ArrowBatches:
        # They go through later stages on their way: each task's through another Spark task.
        (repartition_key, _), *_ = (self._app.destinations[each] for each in self._plans[task_id].inputs)
        rows: list[Row] = [
            (repartition_key, NOBODY, topic, partition, 0, 0, 0, key, value, timestamp, _packed(headers))
            for topic, value, key, partition, _, _, timestamp, headers in records
        ]
        if rows:
            yield batch_of(rows)

    def _checkpoint(self, task_id: TaskId, replay: Replay) -> Path | None:
        stores = replay.stores
        if not stores.families:
            return None
        for _ in stores.apply(None, dict.fromkeys(stores.families, 0)):  # what layouts know is kept with offsets
            pass
        path = self._directory / f"{task_id}-after"
        stores.checkpoint(path)
        return path


def _refuse_wall_clock(task_id: TaskId, replay: Replay) -> None:
    if replay.waits_for_wall_clock:
        raise TopologyError(
            f"task {task_id}: a processor schedules callbacks by wall clock, which nothing calls between batches; "
            "schedule them by stream time"
        )


def _in_order(rows: Sequence[pa.RecordBatch], firsts: dict[TopicPartition, int]) -> list[pa.RecordBatch]:
    """Returns rows in the order in which they are processed; those of sources without offsets are numbered."""
    if not rows:
        return []
    table = pa.Table.from_batches(rows).sort_by(_SORTED)
    sequences = table["sequence"].to_numpy().copy()
    unnumbered = (table["writer"].to_numpy() == SOURCE) & (sequences < 0)
    for topic, partition in set(zip(*(table[name].to_pylist() for name in ("topic", "partition")), strict=True)):
        of = pc.and_(pc.equal(table["topic"], topic), pc.equal(table["partition"], partition))
        places = np.flatnonzero(of.to_numpy() & unnumbered)
        first = firsts.get(TopicPartition(topic, partition), 0)
        sequences[places] = np.arange(first, first + len(places))
    place = table.schema.get_field_index("sequence")
    numbered = table.set_column(place, table.schema.field(place), pa.array(sequences))
    return list(numbered.to_batches(max_chunksize=_ROWS))


def _packed(headers: list[tuple[str, bytes | None]] | None) -> bytes | None:
    return msgspec.msgpack.encode(headers) if headers else None
