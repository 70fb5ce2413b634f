"""The Spark task of a preview: it runs a stream task on a copy of today's state, and reports what it sends and what it
changes.

Runs in Spark's Python workers, once for today's program and once for tomorrow's. Nothing is written anywhere else: the
copy lies in a directory that goes with the Spark task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pyarrow as pa

from streamsapp.outgoing import OutputRecord
from streamsapp.record import TaskId
from streamsapp.remote.manifest_chain import ManifestChain
from streamsapp_spark.replay.replay import Replay
from streamsapp_spark.replay.stage_rows import NOBODY, InputRows, Row, batch_of
from streamsapp_spark.replay.task_run import ArrowBatches, GroupRun, TaskRun, Work, run_task
from streamsapp_spark.snapshots.database_comparison import Comparison
from streamsapp_spark.snapshots.download import bring, database_of, numbered

#: The subject of a row for the driver, in the place of its repartition key.
RESULT, STATE = 0, 1

_BATCH = 1_000


@dataclass(frozen=True)
class PreviewWork(Work):
    """The state that the tasks begin with."""

    #: The application whose state it is; its tasks and snapshots, by the task that begins with them.
    state_of: str = ""
    snapshots: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    #: The stores that both programs have.
    compared: frozenset[str] = frozenset()


def previewing(work: PreviewWork) -> Callable[[Iterable[pa.RecordBatch]], ArrowBatches]:
    """Returns the function for ``mapInArrow``."""
    return partial(run_task, _preview, work)


def _preview(work: PreviewWork, run: GroupRun, rows: InputRows) -> ArrowBatches:
    for task_id, task in run.tasks.items():
        if str(task_id) in work.snapshots:
            _bring(work, run, task)
    with run.replays(results=True) as replays:
        stored = {task_id: replay for task_id, replay in replays.items() if replay.stores.families}
        for task_id, replay in stored.items():
            replay.stores.checkpoint(run.tasks[task_id].directory / "before" / "rocksdb")
        results = {task_id: _Results(task_id, run.app.layout.repartition_topics) for task_id in run.tasks}
        for task, advance, batches in run.advances(replays, rows):
            yield from batches
            yield from _in_batches(results[task.plan.id].rows(advance.outputs))
        for task_id, replay in stored.items():
            yield from _in_batches(_changes(work, run.tasks[task_id], replay))


def _bring(work: PreviewWork, run: GroupRun, task: TaskRun) -> None:
    of, number = work.snapshots[str(task.plan.id)]
    chain = ManifestChain(run.app.objects, work.state_of, TaskId.parse(of))
    bring(chain, numbered(chain, number), task.directory)


class _Results:
    """The results of one task."""

    def __init__(self, task_id: TaskId, internal: frozenset[str]) -> None:
        self._writer = task_id.partition + (task_id.subtopology << 20)
        self._internal = internal
        self._sent = 0

    def rows(self, records: Iterable[OutputRecord]) -> Iterator[Row]:
        for topic, value, key, partition, _, _, timestamp, headers in records:
            if topic not in self._internal:
                self._sent += 1
                packed = msgspec.msgpack.encode(headers) if headers else None
                yield (RESULT, NOBODY, topic, partition, 0, self._writer, self._sent, key, value, timestamp, packed)


def _changes(work: PreviewWork, task: TaskRun, replay: Replay) -> Iterator[Row]:
    """Yields the changed entries; their earlier values are in the place of headers."""
    replay.stores.checkpoint(task.directory / "after" / "rocksdb")
    families = {name: family for name, family in replay.stores.families.items() if name in work.compared}
    names = list(replay.stores.families.values())
    with (
        database_of(task.app.resources, names, task.directory / "before") as before,
        database_of(task.app.resources, names, task.directory / "after") as after,
    ):
        for store, family in families.items():
            for key, was, is_ in Comparison(
                before.scan(family, b"", None, False), after.scan(family, b"", None, False)
            ):
                yield (STATE, NOBODY, store, task.plan.id.partition, 0, 0, 0, key, is_, 0, was)


def _in_batches(rows: Iterable[Row]) -> ArrowBatches:
    waiting: list[Row] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == _BATCH:
            yield batch_of(waiting)
            waiting = []
    if waiting:
        yield batch_of(waiting)
