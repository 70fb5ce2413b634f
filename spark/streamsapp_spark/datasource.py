"""``spark.read.format("streamsapp")``: reads snapshots of a store as a table, one Spark partition per task;
``spark.readStream``: its changes.

    spark.read.format("streamsapp").option("manifest", "app.yaml").option("store", "counts").load()
    CREATE TABLE counts USING streamsapp OPTIONS (manifest 'app.yaml', store 'counts')

Rows have ``key``, ``value``, ``timestamp`` (milliseconds; null where the store keeps none), ``task`` and ``offset``,
the changelog offset that the task's snapshot stands at. In stores of windows and sessions ``window_start`` and
``window_end`` (milliseconds) follow the key. Versioned stores give the latest version of each key,
with ``valid_from`` in place of ``timestamp``. Keys and values have the types of their serdes: scalars, or the fields of
dataclasses, structs, Avro schemas and Protobuf messages. Values that may be anything are text: JSON of the JSON serde,
of a user's own serdes what Python prints.

Options: ``asOf`` (the newest snapshots that are not after a time or a number), ``changes`` (the rows that differ
between the snapshots as of then and those of ``asOf``), ``schema`` (the fields of JSON values), ``keys`` (a JSON array:
only these, from the tasks that can have them), ``partitions`` (how many tasks there are, or ``kafka``), ``behind``
(whether snapshots that do not have all that is committed are read: ``warn``, ``refuse``, ``ignore``). A filter of a
query that names keys is as good as ``keys`` where ``spark.sql.python.filterPushdown.enabled`` is set.

A stream has the same columns, a row for each committed record of the changelog, with its offset; the value of a
deletion is null. Option: ``startingOffsets``.

``df.write.format("streamsapp")`` seeds a store, see ``seed``.

Planned on the driver, from the object store and from what Kafka says is committed, if it answers; read in Spark's
Python workers. Spark finds it by itself (``pyspark_streamsapp``).
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from streamsapp.errors import ConfigError, ManifestError
from streamsapp.manifest import load
from streamsapp.state.kinds.versioned import VersionedType
from streamsapp_spark.snapshots.choice import AsOf
from streamsapp_spark.tables import options as names
from streamsapp_spark.tables.application import ManifestPlace, StoredApplication, stored_application
from streamsapp_spark.tables.columns import StoreColumns
from streamsapp_spark.tables.feed import Feed, FeedReader, starting_offsets
from streamsapp_spark.tables.feed_rows import refuse_without_feed
from streamsapp_spark.tables.freshness import checked
from streamsapp_spark.tables.key_filters import KeyFilteringReader, asks_for_filters
from streamsapp_spark.tables.options import comment, given, of_stream, of_table, required
from streamsapp_spark.tables.snapshot_reader import SnapshotReader, Table, wanted_keys
from streamsapp_spark.tables.types.column import TypedColumn

#: Options that choose snapshots, which a feed has nothing to do with.
_OF_SNAPSHOTS = (names.AS_OF, names.CHANGES, names.KEYS, names.BEHIND, names.PARTITIONS)


class StreamsAppDataSource(DataSource):
    """The data source that Spark makes of the options."""

    @classmethod
    def name(cls) -> str:
        return "streamsapp"

    def schema(self) -> str:
        options = given(self.options)
        columns = _columns(stored_application(_place(options)), options)
        return columns.ddl(comment(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        options = of_table(self.options, schema)
        if names.STARTING in options:
            raise ConfigError(f"option {names.STARTING!r}: is one of spark.readStream; a table has 'asOf'")
        place = _place(options)
        app = stored_application(place)
        app.builder(required(options, names.STORE))
        columns = _columns(app, options)
        as_of, since, keys = (options.get(each) for each in (names.AS_OF, names.CHANGES, names.KEYS))
        table = Table(
            place,
            columns,
            None if as_of is None else AsOf.parse(names.AS_OF, as_of),
            None if since is None else AsOf.parse(names.CHANGES, since),
            None if keys is None else wanted_keys(keys, columns.key_column),
            options.get(names.PARTITIONS),
            checked(options.get(names.BEHIND), as_of),
        )
        made = KeyFilteringReader if asks_for_filters() else SnapshotReader
        return made(table, columns.arrow(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        options = of_stream(self.options, schema)
        for name in _OF_SNAPSHOTS:
            if name in options:
                raise ConfigError(f"option {name!r}: chooses snapshots, and a stream reads the changelog; leave it out")
        place = _place(options)
        app = stored_application(place)
        refuse_without_feed(app.builder(required(options, names.STORE), with_snapshots=False))
        columns = _columns(app, options)
        return FeedReader(Feed(place, columns, starting_offsets(options.get(names.STARTING))), columns.arrow(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from streamsapp_spark.seed.writer import seeding  # readers need none of it

        return seeding(self.options, schema, overwrite=overwrite)


def _place(options: dict[str, str]) -> ManifestPlace:
    path = Path(required(options, names.MANIFEST))
    try:
        return ManifestPlace.of(load(path), path.parent)
    except ManifestError as error:
        raise ConfigError(f"option {names.MANIFEST!r}: {path.resolve()}: {error}") from error


def _columns(app: StoredApplication, options: dict[str, str]) -> StoreColumns:
    builder = app.builder(required(options, names.STORE), with_snapshots=False)
    key, value = (
        builder.key_serde or app.config.default_key_serde,
        builder.value_serde or app.config.default_value_serde,
    )
    kind = builder.type
    return StoreColumns(
        builder.name,
        TypedColumn.of(key),
        TypedColumn.of(value),
        kind.window_of is not None,
        isinstance(kind, VersionedType),
        changes=names.CHANGES in options,
        fields=options.get(names.FIELDS),
    )
