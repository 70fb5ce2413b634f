"""What a Spark task of an audit does: replays one stream task up to where its snapshot stands, and compares.

Runs in Spark's Python workers. Differences are yielded as rows that no task reads, beside what the task writes to
internal topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import msgspec
import pyarrow as pa
from msgspec import Struct

from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.task_stores import TaskStores
from streamsapp_spark.comparing import Comparison, Words
from streamsapp_spark.rows import InputRows, message_batch
from streamsapp_spark.snapshots import bring, database_of, numbered
from streamsapp_spark.task_run import Batches, TaskRun, Work, run_task

_BATCH = 1_000


@dataclass(frozen=True)
class AuditWork(Work):
    """Which snapshots are looked at."""

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
    #: Where the snapshot stands: input partition to offset, and the changelog's.
    inputs: dict[str, int]
    offset: int


class Audited(Struct, frozen=True, tag="audited"):
    """A store that was compared to its end."""

    task: str
    store: str
    keys: int
    differences: int


_decoder = msgspec.json.Decoder(Finding | Audited)


def auditing(work: AuditWork) -> Callable[[Iterable[pa.RecordBatch]], Batches]:
    """The function for ``mapInArrow``."""
    return partial(run_task, _audit, work)


def decoded(message: bytes) -> Finding | Audited:
    """What a row for nobody says."""
    found: Finding | Audited = _decoder.decode(message)
    return found


def _audit(work: AuditWork, run: TaskRun, rows: InputRows) -> Batches:
    with run.global_stores() as shared, run.replay(shared) as replay:
        for _, batches in run.advances(replay, rows):
            yield from batches
        number = work.snapshots.get(str(run.plan.id))
        if number is not None:
            yield from _in_batches(_compared(work, run, replay.stores, number))


def _compared(work: AuditWork, run: TaskRun, stores: TaskStores, number: int) -> Iterator[Finding | Audited]:
    chain = run.app.chain(run.plan.id)
    snapshot = numbered(chain, number)
    bring(chain, snapshot, run.directory / "found")
    ours = run.directory / "expected" / "rocksdb"
    stores.checkpoint(ours)
    task, inputs = str(run.plan.id), {f"{each.topic}-{each.partition}": each.offset for each in snapshot.inputs}
    families = stores.families
    with (
        database_of(run.app, list(families.values()), run.directory / "expected") as expected,
        database_of(run.app, list(families.values()), run.directory / "found") as found,
    ):
        for store in audited_stores(run.plan.sub_topology.stores, work.store):
            family = families[store.name]
            comparison = Comparison(expected.scan(family, b"", None, False), found.scan(family, b"", None, False))
            words = Words(store, run.plan.changelog_topics.get(store.name, store.name), run.config)
            offset = snapshot.stores[store.name].offset if store.name in snapshot.stores else -1
            differences = 0
            for differences, (key, was, is_) in enumerate(comparison, 1):  # noqa: B007 - counted
                yield Finding(task, store.name, words.key(key), words.value(was), words.value(is_), inputs, offset)
            yield Audited(task, store.name, comparison.keys, differences)


def audited_stores(stores: Iterable[StoreBuilder], only: str | None) -> list[StoreBuilder]:
    """Those of a task that snapshots hold and a changelog continues."""
    return [
        each
        for each in stores
        if each.engine is Engine.ROCKSDB
        and (each.logging or each.changelog_topic is not None)
        and only in (None, each.name)
    ]


def _in_batches(messages: Iterator[Finding | Audited]) -> Batches:
    waiting: list[bytes] = []
    for message in messages:
        waiting.append(msgspec.json.encode(message))
        if len(waiting) == _BATCH:
            yield message_batch(waiting)
            waiting = []
    if waiting:
        yield message_batch(waiting)
