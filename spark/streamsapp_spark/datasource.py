"""``spark.read.format("streamsapp")``: reads the newest snapshots of a store as a table, one Spark partition per task.

    spark.read.format("streamsapp").option("manifest", "app.yaml").option("store", "counts").load()

Rows have ``key``, ``value``, ``timestamp`` (milliseconds; null where the store keeps none), ``task`` and ``offset``,
the changelog offset that the task's snapshot stands at. In stores of windows and sessions ``window_start`` and
``window_end`` (milliseconds) follow the key. Versioned stores give the latest version of each key,
with ``valid_from`` in place of ``timestamp``. Keys and values have the type of their serde; those without a type of
Spark's are text: JSON of the JSON serde, of others what Python prints.

Planned on the driver, read in Spark's Python workers. Spark finds it by itself (``pyspark_streamsapp``).
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from streamsapp.config import client_properties
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.manifest import load
from streamsapp.manifest.entrypoint import user_code
from streamsapp.manifest.to_config import to_config
from streamsapp.record import TaskId
from streamsapp.state.api import Engine, StoreBuilder, ValueAndTimestamp
from streamsapp.state.session import SessionStoreImpl
from streamsapp.state.versioned import VersionedRecord, VersionedStoreImpl, VersionedType
from streamsapp.tasks.assembly import task_stores
from streamsapp_spark.replay_job import Application, ReplayJob, application
from streamsapp_spark.snapshots import bring, newest, numbered, tasks_with

_BATCH = 10_000
_TIMED = ValueAndTimestamp | VersionedRecord

_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}


class StreamsAppDataSource(DataSource):
    """The data source that Spark makes of the options."""

    @classmethod
    def name(cls) -> str:
        return "streamsapp"

    def schema(self) -> StructType:
        found: StructType = from_arrow_schema(self._table().schema)
        return found

    def reader(self, schema: StructType) -> DataSourceReader:
        return SnapshotReader(self._table())

    def _table(self) -> _Table:
        job = _job(_option(self.options, "manifest"))
        return _table(job, _option(self.options, "store"))


@dataclass(frozen=True)
class _Table:
    """A store, as plain data."""

    job: ReplayJob
    store: str
    #: Names of serdes.
    key_kind: str
    value_kind: str
    #: Says whether its keys have windows.
    windowed: bool
    #: Says whether it keeps versions.
    versioned: bool

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(
            [
                ("key", _TYPES.get(self.key_kind, pa.string())),
                *([("window_start", pa.int64()), ("window_end", pa.int64())] if self.windowed else ()),
                ("value", _TYPES.get(self.value_kind, pa.string())),
                ("valid_from" if self.versioned else "timestamp", pa.int64()),
                ("task", pa.string()),
                ("offset", pa.int64()),
            ]
        )


@dataclass
class SnapshotPartition(InputPartition):
    """The Spark partition of one task's snapshot."""

    task: str
    number: int


class SnapshotReader(DataSourceReader):
    """Reads snapshots: it plans on the driver, and reads in workers."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    def partitions(self) -> Sequence[SnapshotPartition]:
        """Returns one partition per task; ``StreamsError`` names a task whose snapshot is missing or bad."""
        app = application(self._table.job)
        chains = [app.chain(task_id) for task_id in tasks_with(app, self._table.store)]
        return [SnapshotPartition(str(chain.task_id), newest(chain).number) for chain in chains]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the rows of one task."""
        assert isinstance(partition, SnapshotPartition)
        app, task_id = application(self._table.job), TaskId.parse(partition.task)
        directory = Path(tempfile.mkdtemp(prefix=f"streamsapp-read-{task_id}-"))
        try:
            chain, plan = app.chain(task_id), app.layout.plans[task_id]
            snapshot = numbered(chain, partition.number)
            bring(chain, snapshot, directory)
            point = snapshot.stores.get(self._table.store)
            stores = task_stores(plan, directory, app.config, app.resources)
            stores.open()
            try:
                store = stores.stores[self._table.store]
                yield from _batches(
                    _entries(store), self._table, partition.task, None if point is None else point.offset
                )
            finally:
                stores.close()
        finally:
            shutil.rmtree(directory, ignore_errors=True)


def _entries(store: Any) -> Iterator[tuple[Any, Any]]:
    """Iterates over all that a store has, of a versioned one over the latest versions."""
    if isinstance(store, SessionStoreImpl):
        return store.fetch_range(None, None)
    return store.latest_versions() if isinstance(store, VersionedStoreImpl) else iter(store.all())


def _batches(
    entries: Iterator[tuple[Any, Any]], table: _Table, task: str, offset: int | None
) -> Iterator[pa.RecordBatch]:
    while chunk := list(islice(entries, _BATCH)):
        values = [each.value if isinstance(each, _TIMED) else each for _, each in chunk]
        keys = [key for key, _ in chunk]
        columns: list[list[Any]] = [
            _column([key.key for key in keys] if table.windowed else keys, table.key_kind),
            *([[key.start_ms for key in keys], [key.end_ms for key in keys]] if table.windowed else ()),
            _column(values, table.value_kind),
            [each.timestamp if isinstance(each, _TIMED) else None for _, each in chunk],
            [task] * len(chunk),
            [offset] * len(chunk),
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, table.schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=table.schema)


def _column(values: list[Any], kind: str) -> list[Any]:
    """Returns a function that turns values into those that Spark takes, by the name of their serde."""
    if kind in _TYPES:
        return values
    show = _as_json if kind == "json" else str
    return [None if value is None else show(value) for value in values]


def _as_json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def _option(options: dict[str, str], name: str) -> str:
    found = options.get(name)
    if not found:
        raise ConfigError(f'option {name!r} is missing: spark.read.format("streamsapp").option("{name}", ...)')
    return found


def _job(path: str) -> ReplayJob:
    """Returns the job that workers need; the broker tells how many tasks there have to be."""
    app = load(Path(path))
    config = to_config(app, code=user_code(app, Path(path).parent))
    if config.remote_state is None:
        raise ConfigError(f"{path}: spec.remoteState: is not set, so there are no snapshots to read")
    partitions = TopicAdmin(client_properties.admin(config)).partition_counts()
    return ReplayJob.of(app, Path(path).parent, partitions, ("", 0, ""))


def _table(job: ReplayJob, store: str) -> _Table:
    app = application(job)
    builder = _builder(app, store)
    key, value = (
        builder.key_serde or app.config.default_key_serde,
        builder.value_serde or app.config.default_value_serde,
    )
    versioned = isinstance(builder.type, VersionedType)
    return _Table(job, store, key.name, value.name, builder.type.window_of is not None, versioned)


def _builder(app: Application, store: str) -> StoreBuilder:
    builders = {each.name: each for plan in app.layout.plans.values() for each in plan.sub_topology.stores}
    if store not in builders:
        known = ", ".join(sorted(builders)) or "none"
        raise ConfigError(f"option 'store': the application has no store {store!r}; its stores: {known}")
    if builders[store].engine is not Engine.ROCKSDB:
        raise StreamsError(f"store {store} is kept in memory and has no snapshots")
    return builders[store]
