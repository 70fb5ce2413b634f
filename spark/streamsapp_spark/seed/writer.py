"""``df.write.format("streamsapp")``: makes a table the state of a store, for an application that comes from elsewhere.

    df.write.format("streamsapp").mode("append").options(manifest="app.yaml", store="counts", inputs="latest").save()

Options: ``inputs``, where the application goes on in its input topics (``earliest``, ``latest``, or JSON as
``streamsapp bootstrap --until`` has it). Columns: ``key`` and ``value`` as reading the store gives them, ``timestamp``
(a timestamp, or milliseconds) if the store keeps one, and perhaps ``partition``, that of the changelog, if keys do not
lie by their hash.

Planned and committed on the driver, written in Spark's Python workers. It is a bootstrap whose history is the table:
workers put rows aside, by task; then the driver writes changelogs and snapshots of all tasks, and until it is done no
instance starts.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import uuid4

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from streamsapp.config import StreamsConfig, client_properties
from streamsapp.errors import ConfigError, ManifestError, StreamsError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.manifest.entrypoint import read_app, user_code
from streamsapp.manifest.to_config import to_config
from streamsapp.remote.bootstraps import HistoryRange, seed_folder
from streamsapp.remote.object_store_factory import open_store
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.key_value import KeyValueType
from streamsapp_spark.history.end_offsets import PartitionOffsets, ranges
from streamsapp_spark.programs.manifest import ManifestProgram
from streamsapp_spark.replay.job import Application, ReplayJob, application
from streamsapp_spark.seed.rows import SeededEntry, SeededStore
from streamsapp_spark.seed.state import Seeding, refuse_state
from streamsapp_spark.tables.types.column import TYPES

#: The memory for rows that wait to be put aside, and what Python takes for one beside its bytes. Rows of a partition
#: that are put aside together are written in one transaction.
_BYTES, _ROW_BYTES = 64 << 20, 250
_LIMIT = 1 << 30
_EARLIEST = "earliest"
_NOWHERE = ("", 0, "")

_decode = msgspec.msgpack.Decoder(list[SeededEntry]).decode


@dataclass
class _PutAside(WriterCommitMessage):
    """The objects that one Spark task has written, by partition of the changelog."""

    keys: tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class SeedWriter(DataSourceArrowWriter):
    """The writer as plain data: Spark sends it to workers, and brings it back to the driver."""

    job: ReplayJob
    store: str
    #: The place where instances go on.
    inputs: tuple[HistoryRange, ...]
    folder: str

    # ---- in workers --------------------------------------------------------------------------------------------

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _PutAside:
        """Puts rows aside. Raises ``StreamsError`` for a row that the store cannot have."""
        app = application(self.job)
        target, keys = SeededStore(app, self.store), list[tuple[int, str]]()
        waiting: defaultdict[int, list[SeededEntry]] = defaultdict(list)
        taken = 0
        for batch in iterator:
            for partition, entry in target.entries(batch):
                waiting[partition].append(entry)
                taken += len(entry[0]) + len(entry[1]) + _ROW_BYTES
                if taken >= _BYTES:
                    keys += self._put_aside(app, waiting)
                    taken = 0
        return _PutAside((*keys, *self._put_aside(app, waiting)))

    def _put_aside(self, app: Application, waiting: dict[int, list[SeededEntry]]) -> Iterator[tuple[int, str]]:
        while waiting:
            partition, rows = waiting.popitem()
            yield partition, self._uploaded(app, partition, rows)

    def _uploaded(self, app: Application, partition: int, rows: Sequence[SeededEntry]) -> str:
        key = f"{self.folder}/{partition}-{uuid4().hex}"
        with tempfile.NamedTemporaryFile(prefix="streamsapp-seed-") as file:
            file.write(msgspec.msgpack.encode(rows))
            file.flush()
            app.objects.upload(key, Path(file.name))
        return key

    # ---- on the driver -----------------------------------------------------------------------------------------

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes state of the rows. Raises ``StreamsError`` if keys are there twice: nothing is begun then."""
        app = application(self.job)
        parts: defaultdict[int, list[str]] = defaultdict(list)
        for message in messages:
            for partition, key in message.keys if isinstance(message, _PutAside) else ():
                parts[partition].append(key)
        for partition, keys in parts.items():
            self._refuse_doubled(app, partition, keys)
        Seeding(app, self.store, self.inputs, partial(_rows, app)).run(parts)
        # With what tasks of tries that were given up have put aside after that.
        _forget(app, seed_folder(app.config.application_id))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Forgets the rows that were put aside."""
        _forget(application(self.job), self.folder)

    def _refuse_doubled(self, app: Application, partition: int, keys: Sequence[str]) -> None:
        seen: set[bytes] = set()
        for rows in _rows(app, keys):
            for key, _, _ in rows:
                if key in seen:
                    raise StreamsError(
                        f"store {self.store}: the table has the key {key[:100]!r} (as bytes) more than once; keep one "
                        "row of each key"
                    )
                seen.add(key)


def _rows(app: Application, keys: Sequence[str]) -> Iterator[list[SeededEntry]]:
    for key in keys:
        yield _decode(app.objects.read(key, _LIMIT))


def _forget(app: Application, folder: str) -> None:
    app.objects.delete([info.key for info in app.objects.list(f"{folder}/")])


# ---- planning --------------------------------------------------------------------------------------------------


def seeding(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> SeedWriter:
    """Plans a write. Raises ``ConfigError`` or ``ManifestError`` for a write that cannot be made; nothing is
    touched."""
    for name in ("manifest", "store", "inputs"):
        if not options.get(name):
            raise ConfigError(f'option {name!r} is missing: df.write.format("streamsapp").option("{name}", ...)')
    if overwrite:
        raise ConfigError("mode 'overwrite': state is never overwritten; use mode('append'), after `streamsapp reset`")
    path = Path(options["manifest"])
    app, topology = read_app(path)
    config = to_config(app, code=user_code(app, path.parent))
    if config.remote_state is None:
        raise ConfigError("spec.remoteState: is not set in the manifest, and that is where snapshots go")
    store = options["store"]
    objects, admin = open_store(config.remote_state), TopicAdmin(client_properties.admin(config))
    objects.probe()
    layout, _ = refuse_state(topology, config, objects, admin)
    builders = {each.name: each for plan in layout.plans.values() for each in plan.sub_topology.stores}
    if store not in builders:
        raise ConfigError(f"option 'store': there is no store {store!r}; there are: {', '.join(sorted(builders))}")
    _check_store(builders[store])
    _check_columns(builders[store], config, schema)
    job = ReplayJob.of(ManifestProgram.of(app, path.parent), admin.partition_counts(), _NOWHERE)
    folder = f"{seed_folder(config.application_id)}/{uuid4().hex}"
    return SeedWriter(job, store, _goes_on(config, layout, options["inputs"]), folder)


def _check_store(builder: StoreBuilder) -> None:
    if not isinstance(builder.type, KeyValueType):
        raise ConfigError(
            f"option 'store': {builder.name} is not a key-value store: windows, sessions and versions are made of "
            "records; take the history of its topics, `streamsapp bootstrap`"
        )
    if not builder.logging or builder.changelog_topic is not None:
        why = "has no changelog" if not builder.logging else f"is made of topic {builder.changelog_topic} itself"
        raise ConfigError(f"option 'store': {builder.name} {why}, so a table cannot be its state")


def _check_columns(builder: StoreBuilder, config: StreamsConfig, schema: StructType) -> None:
    key, value = builder.key_serde or config.default_key_serde, builder.value_serde or config.default_value_serde
    wanted = {name: _type_of(serde.name) for name, serde in (("key", key), ("value", value))}
    if builder.type.keeps_timestamps:
        wanted["timestamp"] = pa.int64()
    for name in wanted.keys() - set(schema.names):
        raise ConfigError(f"store {builder.name}: the table has no column {name!r}; it has {', '.join(schema.names)}")
    wanted |= {"timestamp": pa.int64(), "partition": pa.int32()}
    for field in schema.fields:
        if field.name not in wanted:
            known = ", ".join(wanted)
            raise ConfigError(
                f"store {builder.name}: the table has a column {field.name!r}; select {known}, and no other"
            )
        if field.name == "timestamp" and isinstance(field.dataType, TimestampType):
            continue
        if to_arrow_type(field.dataType) != wanted[field.name]:
            has = field.dataType.simpleString()
            if isinstance(field.dataType, TimestampNTZType) and field.name == "timestamp":
                raise ConfigError(
                    f"store {builder.name}: column 'timestamp' is {has}, which names no time zone: "
                    "CAST(timestamp AS TIMESTAMP) takes the session's"
                )
            kind = from_arrow_type(wanted[field.name]).simpleString()
            raise ConfigError(f"store {builder.name}: column {field.name!r} is {has}, and has to be {kind}; cast it")


def _type_of(kind: str) -> pa.DataType:
    return pa.string() if kind == "json" else TYPES.get(kind, pa.binary())


def _goes_on(config: StreamsConfig, layout: ApplicationLayout, where: str) -> tuple[HistoryRange, ...]:
    """Returns the offsets at which instances begin to read."""
    inputs = {each for plan in layout.plans.values() for each in plan.inputs}
    bounds = PartitionOffsets(config, {each for each in inputs if each.topic not in layout.repartition_topics})
    if where == _EARLIEST:
        found = [HistoryRange(*each, low, low) for each, low in sorted(bounds.lows.items())]
    else:
        try:
            found = [HistoryRange(*each.of, each.until, each.until) for each in ranges(bounds, where)]
        except ManifestError as error:
            raise ConfigError(
                "; ".join(fault.replace("--until", "option 'inputs'") for fault in error.faults)
            ) from error
    return tuple(found)
