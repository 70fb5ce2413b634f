"""A table of a database, exact by a transaction that has the rows of a batch and its number.

Used on the driver; ``add`` on the thread on which Spark calls for each batch. Spark's writer fills a staging table, as
it has a transaction for each task, and takes no other statement into it; the driver then copies that in one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession, functions as sql
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from streamsapp.errors import ManifestError, StreamsError
from streamsapp.manifest.model import SinkSpec
from streamsapp.manifest.mounts import SECRETS_DIR, SINKS_FOLDER, database_login, mounted
from streamsapp_spark.sinks.batch_numbers import BatchNumbers
from streamsapp_spark.sinks.database import Database, DatabaseConnection, DatabaseError, driver_of
from streamsapp_spark.sinks.writer_options import writer_options
from streamsapp_spark.tables.types.parts import quoted

log = logging.getLogger(__name__)

_NO_DRIVER = (
    "Spark has no driver for this address here: name the database's in spec.spark.conf, such as spark.jars.packages: "
    "org.postgresql:postgresql:42.7.14, or put its jar where Spark has its own"
)
#: SQLSTATE: all kinds of a login that is wrong, and a connection that the database rejects, as one without a login.
_LOGIN, _REJECTED = "28", "08004"
_INSTEAD = "leave secretRef out if the database's driver knows the login by itself, as PostgreSQL's of ~/.pgpass,"


class DatabaseTable:
    """A table, and the number of its last batch beside it."""

    def __init__(self, spark: SparkSession, sink: SinkSpec, columns: str, field: str) -> None:
        """Makes the table, if there is none, and finds out whether it takes rows of these ``columns``."""
        assert sink.table is not None  # the manifest has one
        self._table, self._field, self._numbers = sink.table, field, BatchNumbers(sink.table)
        self._secret = None if sink.secret_ref is None else secret_folder(sink, field)
        options = writer_options(sink)
        driver = options.get("driver") or driver_of(spark, options["url"])
        if driver is None:
            raise ManifestError([f"{field}.options.url: {_NO_DRIVER}"])
        self._database = Database(spark, {**options, "driver": driver})
        empty = plain(spark.createDataFrame([], columns)).limit(0)
        self._columns = ", ".join(map(self._database.quoted, empty.columns))
        self._place = ", ".join(map(self._database.quoted, ("partition", "offset")))
        with self._named("options.url"), self._database.connection(self._login) as connection, self._named("table"):
            self._numbers.create(connection)
            self._database.write(empty, self._table, self._login, may_exist=True)
            self._try(connection, empty)

    def _try(self, connection: DatabaseConnection, empty: DataFrame) -> None:
        """Copies nothing, as batches are copied: the database finds out whether columns, types and rights fit."""
        schema, trial = self._table.rpartition(".")[:2], sha256(self._table.encode()).hexdigest()[:8]
        staging = f"{''.join(schema)}streamsapp_trial_{trial}"
        connection.drop(staging)  # of a driver that was killed
        self._database.write(empty, staging, self._login)
        try:
            self._copy(connection, staging)
        finally:
            connection.drop(staging)

    def has_rows(self) -> bool:
        with self._named("table"), self._database.connection(self._login) as connection:
            return connection.first(f"SELECT 1 FROM {self._table}") is not None  # noqa: S608 - checked

    def add(self, rows: DataFrame, query: str, batch: int) -> None:
        staging = self._numbers.staging()
        with self._database.connection(self._login) as connection:
            if not self._numbers.begin(connection, query, batch, staging):
                return
        try:
            self._database.write(plain(rows), staging, self._login)
            self._add_staged(staging, query, batch)
        finally:
            self._drop(staging)

    def _add_staged(self, staging: str, query: str, batch: int) -> None:
        with self._database.connection(self._login) as connection, connection.transaction():
            self._numbers.end(connection, query, batch, staging)
            self._copy(connection, staging)
            # Spark tries a task again whose executor was lost, also where its rows were committed. Nothing takes a row
            # away: none was there twice before if none is now.
            twice = f"SELECT {self._place} FROM {staging} GROUP BY {self._place} HAVING COUNT(*) > 1"  # noqa: S608
            if connection.first(twice) is not None:
                raise StreamsError(f"a task of batch {batch} has written its rows twice, and {self._table} has none")

    def _copy(self, connection: DatabaseConnection, staging: str) -> None:
        connection.execute(
            f"INSERT INTO {self._table} ({self._columns}) SELECT {self._columns} FROM {staging}"  # noqa: S608
        )

    def _drop(self, staging: str) -> None:
        try:
            with self._database.connection(self._login) as connection:
                connection.drop(staging)
        except StreamsError as error:
            log.warning("table %s stays until the next batch: %s", staging, error)

    @property
    def _login(self) -> dict[str, str]:
        """Read anew for each connection: a Secret may change."""
        if self._secret is None:
            return {}
        user, password = database_login(self._secret, self._field)
        return {"user": user, "password": password}

    @contextmanager
    def _named(self, field: str) -> Iterator[None]:
        """Names the field of the manifest for what the database does not do, unless that may pass."""
        try:
            yield
        except DatabaseError as error:
            if error.state.startswith(_LOGIN) or (self._secret is None and error.state == _REJECTED):
                fault = f"secretRef: the database refuses the login: {error}; correct username and password"
                raise ManifestError([f"{self._field}.{fault} of the Secret, or name one"]) from error
            if error.may_pass:
                raise StreamsError(f"{self._field}.{field}: the database cannot be used now: {error}") from error
            raise ManifestError([f"{self._field}.{field}: the database cannot be used: {error}"]) from error


def secret_folder(sink: SinkSpec, field: str) -> Path:
    """Returns the folder of a sink's Secret. Raises ``ManifestError`` if it is not there."""
    assert sink.secret_ref is not None
    return mounted(sink.secret_ref, field, SECRETS_DIR / SINKS_FOLDER / sink.name, _INSTEAD)


def plain(rows: DataFrame) -> DataFrame:
    """Returns rows with columns that every database has: lists, maps and structs are JSON."""
    return rows.select([_plain(of) for of in rows.schema])


def _plain(of: StructField) -> Column:
    column = sql.col(quoted(of.name))
    nested = isinstance(of.dataType, ArrayType | MapType | StructType)
    return sql.to_json(column, {"ignoreNullFields": "false"}).alias(of.name) if nested else column
