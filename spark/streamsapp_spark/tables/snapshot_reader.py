"""Reads snapshots of a store, one Spark partition per task. Planned on the driver, read in Spark's Python workers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from streamsapp.errors import ConfigError, StreamsError
from streamsapp.record import TaskId
from streamsapp.remote.snapshot import Snapshot
from streamsapp_spark.snapshots.choice import AsOf, chosen
from streamsapp_spark.snapshots.download import numbered
from streamsapp_spark.tables.application import ManifestPlace, StoredApplication, stored_application
from streamsapp_spark.tables.columns import StoreColumns, arrow_batches
from streamsapp_spark.tables.freshness import IGNORE, store_lags, tell
from streamsapp_spark.tables.rows import changed_rows, stored_rows
from streamsapp_spark.tables.task_count import task_count
from streamsapp_spark.tables.types.column import TYPES, TypedColumn

#: Tasks whose snapshots are looked up at a time.
_LOOKED_UP = 8

#: The Python types of keys that are no text, by their serdes.
_KEYS: dict[str, type] = {"boolean": bool, "short": int, "integer": int, "long": int, "float": float, "double": float}


@dataclass(frozen=True)
class Table:
    """The part of a store that is read, as plain data."""

    place: ManifestPlace
    columns: StoreColumns
    as_of: AsOf | None
    #: Rows are changes since then.
    since: AsOf | None
    #: Only these, as their column has them.
    keys: frozenset[Any] | None
    #: The number of tasks, or the source that is asked.
    partitions: str | None
    #: The value of ``behind``, about snapshots that do not have all that is committed.
    behind: str | None


@dataclass
class SnapshotPartition(InputPartition):
    """The Spark partition of one task's snapshot."""

    task: str
    number: int
    #: The snapshot that it is compared with.
    before: int | None


class SnapshotReader(DataSourceReader):
    """Reads snapshots: it plans on the driver, and reads in workers."""

    def __init__(self, table: Table, schema: pa.Schema) -> None:
        self._table = table
        self._schema = schema

    def partitions(self) -> Sequence[SnapshotPartition]:
        """Returns one partition per task; ``StreamsError`` names a task whose snapshot is missing or bad."""
        app = stored_application(self._table.place)
        with ThreadPoolExecutor(_LOOKED_UP) as pool:
            return list(pool.map(lambda it: self._partition(app, *it), self._tasks(app).items()))

    def _tasks(self, app: StoredApplication) -> dict[TaskId, Snapshot | None]:
        """Returns the tasks that can have the keys that are wanted, with the snapshot if it was looked up already."""
        table, store = self._table, self._table.columns.store
        lags = None
        if table.as_of is None and table.behind != IGNORE:
            lags = store_lags(app, store)
            tell(app, store, lags, table.behind)
        if lags is None or table.partitions is not None:
            count = task_count(app, store, table.partitions)
            tasks: dict[TaskId, Snapshot | None] = dict.fromkeys(app.tasks_with(store, count))
        else:
            # A task without a snapshot, and without a record in its changelog, has no rows.
            count, tasks = len(lags), {lag.task.id: lag.task.snapshot for lag in lags if lag.task.snapshot is not None}
            if not tasks:
                raise StreamsError(f"no task of store {store} has a snapshot")
        if table.keys is None or table.columns.key_column.kind not in TYPES:
            return tasks
        return {each: tasks[each] for each in app.with_keys(list(tasks), store, table.keys, count)}

    def _partition(self, app: StoredApplication, task_id: TaskId, snapshot: Snapshot | None) -> SnapshotPartition:
        chain, table = app.chain(task_id), self._table
        snapshot = snapshot or chosen(chain, table.as_of)
        before = None if table.since is None else chosen(chain, table.since).number
        if before is not None and before > snapshot.number:
            raise ConfigError(
                f"option 'changes': {table.since} is after {table.as_of}: of task {task_id}, that is snapshot {before} "
                f"and snapshot {snapshot.number}; changes go from the older one to that of 'asOf'"
            )
        return SnapshotPartition(str(task_id), snapshot.number, before)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""
        assert isinstance(partition, SnapshotPartition)
        app, task_id = stored_application(self._table.place), TaskId.parse(partition.task)
        snapshot = numbered(app.chain(task_id), partition.number)
        directory = Path(tempfile.mkdtemp(prefix=f"streamsapp-read-{task_id}-"))
        try:
            rows = self._rows(app, snapshot, partition, directory)
            if self._table.keys is not None:
                rows = (row for row in rows if row[0] in self._table.keys)
            yield from arrow_batches(rows, self._schema, partition.task, self._table.columns)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _rows(
        self, app: StoredApplication, snapshot: Snapshot, partition: SnapshotPartition, directory: Path
    ) -> Iterator[tuple[Any, ...]]:
        if partition.before is None:
            return stored_rows(app, self._table.columns, snapshot, directory)
        before = numbered(app.chain(snapshot.task_id), partition.before)
        return changed_rows(app, self._table.columns, (before, snapshot), directory)


def wanted_keys(text: str, column: TypedColumn) -> frozenset[Any]:
    """Reads the option ``keys``. Raises ``ConfigError`` for what is no list of keys."""
    if not column.is_simple:
        raise ConfigError(
            f"option 'keys': these keys are {column.kind}, which JSON does not name as the column has them; filter the "
            "table"
        )
    try:
        return frozenset(msgspec.json.decode(text, type=list[_KEYS.get(column.kind, str)]))  # type: ignore[misc]
    except msgspec.MsgspecError as error:
        raise ConfigError(
            f"option 'keys': expected a JSON array of keys, as the column has them: {error}; got {text:.100}"
        ) from error
