"""The Spark task of an audit: it replays a stream task up to where its snapshot stands, and compares.

Runs in Spark's Python workers. Differences are yielded as rows that no task reads, beside what the task writes to
internal topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import msgspec
import pyarrow as pa
from msgspec import Struct

from streamsapp.errors import StreamsError
from streamsapp.remote.snapshot import Snapshot
from streamsapp.state.task_stores import TaskStores
from streamsapp_spark.replay.hopeless import HOPELESS
from streamsapp_spark.replay.stage_rows import InputRows, message_batch
from streamsapp_spark.replay.task_run import ArrowBatches, GroupRun, TaskRun, Work, is_last_try, run_task
from streamsapp_spark.snapshots.database_comparison import Comparison, EntryReader, EntryText, audited_stores
from streamsapp_spark.snapshots.download import bring, database_of, numbered

_BATCH = 1_000


@dataclass(frozen=True)
class AuditWork(Work):
    """The tasks that are replayed, and the snapshots that they are compared with."""

    tasks: frozenset[str] = frozenset()
    #: Number by task.
    snapshots: Mapping[str, int] = field(default_factory=dict)
    #: Only this store.
    store: str | None = None


class Finding(Struct, frozen=True, tag="difference"):
    """A key for which the snapshot is not what history gives."""

    task: str
    store: str
    key: str
    expected: str
    found: str
    #: The place where the snapshot stands: input partition to offset, and the changelog's.
    inputs: dict[str, int]
    offset: int


class Audited(Struct, frozen=True, tag="audited"):
    """A store that was compared to its end."""

    task: str
    store: str
    keys: int
    differences: int


class Failed(Struct, frozen=True, tag="failed"):
    """A task that could not be replayed, or whose snapshot could not be read, in spite of all tries."""

    task: str
    error: str


class OffsetsUsed(Struct, frozen=True, tag="observed"):
    """Says that a task's code asks for the offsets of repartition topics, before its differences are reported: an
    offset there is the network's doing, so the replay has others, and values that are made of them differ without being
    wrong."""

    task: str
    topics: list[str]


#: The messages of a task to the driver.
Message: TypeAlias = Finding | Audited | Failed | OffsetsUsed

_decoder = msgspec.json.Decoder(Message)


def auditing(work: AuditWork) -> Callable[[Iterable[pa.RecordBatch]], ArrowBatches]:
    """Returns the function for ``mapInArrow``."""
    return partial(run_task, _audit, work)


def decoded(message: bytes) -> Message:
    """Returns the message in a row for the driver."""
    found: Message = _decoder.decode(message)
    return found


def _audit(work: AuditWork, run: GroupRun, rows: InputRows) -> ArrowBatches:
    tasks = [str(task_id) for task_id in run.tasks]
    if work.tasks.isdisjoint(tasks):
        return
    try:
        yield from _replayed(work, run, rows)
    except StreamsError as error:
        # Reported instead of raised: an error ends Spark's whole job, and the other tasks are to be compared.
        if not (isinstance(error, HOPELESS) or is_last_try()):
            raise
        text = str(error)
        failed = [Failed(task, text if text.startswith(f"task {task}") else f"task {task}: {text}") for task in tasks]
        yield message_batch([msgspec.json.encode(each) for each in failed])


def _replayed(work: AuditWork, run: GroupRun, rows: InputRows) -> ArrowBatches:
    # The snapshots first: a damaged one is found before anything is replayed.
    numbers = {task_id: work.snapshots.get(str(task_id)) for task_id in run.tasks}
    snapshots = {
        task_id: _brought(run.tasks[task_id], number) for task_id, number in numbers.items() if number is not None
    }
    with run.replays() as replays:
        for *_, batches in run.advances(replays, rows):
            yield from batches
        observed = {each: replay.observed(run.app.layout.repartition_topics) for each, replay in replays.items()}
        used = [
            OffsetsUsed(str(task_id), sorted({each.topic for each in partitions}))
            for task_id, partitions in observed.items()
            if partitions
        ]
        yield from _in_batches(used)
        for task_id, snapshot in snapshots.items():
            yield from _in_batches(_compared(work, run.tasks[task_id], replays[task_id].stores, snapshot))


def _brought(run: TaskRun, number: int) -> Snapshot:
    chain = run.app.chain(run.plan.id)
    snapshot = numbered(chain, number)
    bring(chain, snapshot, run.directory / "found")
    return snapshot


def _compared(work: AuditWork, run: TaskRun, stores: TaskStores, snapshot: Snapshot) -> Iterator[Message]:
    stores.checkpoint(run.directory / "expected" / "rocksdb")
    task, inputs = str(run.plan.id), {f"{each.topic}-{each.partition}": each.offset for each in snapshot.inputs}
    families = stores.families
    with (
        database_of(run.app.resources, list(families.values()), run.directory / "expected") as expected,
        database_of(run.app.resources, list(families.values()), run.directory / "found") as found,
    ):
        for store in audited_stores(run.plan.sub_topology, work.store):
            family = families[store.name]
            ours, theirs = (each.scan(family, b"", None, False) for each in (expected, found))
            comparison = Comparison(stores.living(store.name, ours), stores.living(store.name, theirs))
            topic = run.plan.changelog_topics.get(store.name, store.name)
            words = EntryText(EntryReader(store, topic, run.config))
            offset = snapshot.stores[store.name].offset if store.name in snapshot.stores else -1
            differences = 0
            for differences, (key, was, is_) in enumerate(comparison, 1):  # noqa: B007 - counted
                yield Finding(task, store.name, words.key(key), words.value(was), words.value(is_), inputs, offset)
            yield Audited(task, store.name, comparison.keys, differences)


def _in_batches(messages: Iterable[Message]) -> ArrowBatches:
    waiting: list[bytes] = []
    for message in messages:
        waiting.append(msgspec.json.encode(message))
        if len(waiting) == _BATCH:
            yield message_batch(waiting)
            waiting = []
    if waiting:
        yield message_batch(waiting)
