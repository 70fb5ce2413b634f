"""The places where the history of source topics is: as the command line names them (``--from``), or DataFrames of a
Python program. Used on the driver.

    kafka                        the topics themselves
    parquet:PATH                 files, of all topics (column ``topic``)
    orders=delta:PATH@v12        a table of Delta Lake of one topic, as of a version, or of a time; without it the
                                 newest version, which stays the same if the bootstrap is interrupted and goes on
    orders=iceberg:TABLE@v12     a table of Iceberg, a folder or a name, as of a snapshot's id, or of a time, likewise
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession, functions

from streamsapp.errors import ConfigError, ManifestError
from streamsapp_spark.history.completeness import ACCEPT
from streamsapp_spark.history.record_columns import check_columns, record_columns
from streamsapp_spark.history.sources import KAFKA
from streamsapp_spark.session.java_process import reason

_EXPECTED = (
    f"expected {KAFKA}, or [TOPIC=]parquet:PATH, [TOPIC=]delta:PATH[@v12|@TIME] or [TOPIC=]iceberg:TABLE[@vID|@TIME] "
    "for each table"
)
_TABLE = re.compile(r"(?:([A-Za-z0-9._-]+)=)?(parquet|delta|iceberg):(.+)")
#: As Delta Lake's own paths have it, but for times, which are written as everywhere.
_AS_OF = re.compile(r"(.+)@(?:v([0-9]{1,19})|([0-9]{4}-[0-9]{2}-[0-9]{2}.*))")
_REQUIRED = ("partition", "offset", "key", "value", "timestamp")

_DELTA, _ICEBERG = "delta", "iceberg"
#: Settings of Spark's without which Delta Lake reads nothing.
DELTA_SETTINGS = (
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
)
NO_DELTA = (
    "needs Delta Lake, which Spark does not have here: give the version that fits Spark's, for 4.0 with "
    "--conf spark.jars.packages=io.delta:delta-spark_2.13:4.0.0, or put its jars where Spark has its own"
)

NO_ICEBERG = (
    "needs Iceberg, which Spark does not have here: give the version that fits Spark's, for 4.0 with "
    "--conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0, or put its jar where Spark "
    "has its own"
)
#: The remedy where a format with versions is missing.
_MISSING = {_DELTA: NO_DELTA, _ICEBERG: NO_ICEBERG}

#: Spark's words for a format, or a class of the settings above, that it does not have.
_NOT_FOUND = ("DATA_SOURCE_NOT_FOUND", "CATALOG_PLUGIN_CLASS_NOT_FOUND")


def lacks_format(error: Exception) -> bool:
    """Returns whether Spark failed because it does not have a format."""
    return any(word in str(error) for word in _NOT_FOUND)


class Tables(Protocol):
    """The tables of a bootstrap's history."""

    @property
    def name(self) -> str:
        """It distinguishes a bootstrap that was begun from another."""
        ...

    @property
    def topics(self) -> frozenset[str]:
        """Returns the topics that have tables of their own."""
        ...

    def as_begun(self, name: str) -> Tables | None:
        """Returns the tables of the bootstrap whose history has that name; ``None`` if these are others."""
        ...

    def fixed(self, spark: SparkSession) -> Tables:
        """Returns the tables; changing ones are read as of now. Raises ``ManifestError`` for a table that cannot be
        read."""
        ...

    def open(self, spark: SparkSession) -> DataFrame:
        """Returns the records. Raises ``ManifestError`` or ``ConfigError`` for a table that cannot be read, or lacks
        columns."""
        ...


@dataclass(frozen=True)
class _Table:
    """A table on disk."""

    topic: str | None
    format: str
    path: str
    version: str | None = None
    time: str | None = None

    @classmethod
    def parse(cls, text: str) -> _Table:
        found = _TABLE.fullmatch(text)
        if found is None:
            raise ManifestError([f"--from: {_EXPECTED}; got {text!r}"])
        topic, kind, path = found.groups()
        as_of = _AS_OF.fullmatch(path) if kind in _MISSING else None
        return cls(topic, kind, path) if as_of is None else cls(topic, kind, *as_of.groups())

    def __str__(self) -> str:
        as_of = f"@v{self.version}" if self.version is not None else f"@{self.time}" if self.time is not None else ""
        return f"{'' if self.topic is None else f'{self.topic}='}{self.format}:{self.path}{as_of}"

    @property
    def changes(self) -> bool:
        """Says whether it is another table when it is read again later."""
        return self.format in _MISSING and self.version is None and self.time is None

    def fixed(self, spark: SparkSession) -> _Table:
        if not self.changes:
            return self
        self.read(spark)
        return replace(self, version=_newest_snapshot(spark, self) if self.format == _ICEBERG else _newest(spark, self))

    def read(self, spark: SparkSession) -> DataFrame:
        options = {"versionAsOf": self.version, "timestampAsOf": self.time}
        reader = spark.read.format(self.format)
        reader = reader.options(**{name: value for name, value in options.items() if value is not None})
        try:
            return reader.load(self.path)
        except Exception as error:
            if self.format in _MISSING and lacks_format(error):
                raise ManifestError([f"--from: {self} {_MISSING[self.format]}"]) from error
            raise ManifestError([f"--from: {self} cannot be read: {reason(error)}"]) from error


def _newest(spark: SparkSession, table: _Table) -> str:
    tables = spark._jvm.io.delta.tables.DeltaTable  # type: ignore[union-attr]
    return str(tables.forPath(spark._jsparkSession, table.path).history(1).first().getLong(0))


def _newest_snapshot(spark: SparkSession, table: _Table) -> str:
    """Returns the id of the newest snapshot of Iceberg's branch ``main``."""
    refs = f"{table.path}{'#' if '/' in table.path else '.'}refs"
    found = spark.read.format(_ICEBERG).load(refs).filter("name = 'main'").select("snapshot_id").first()
    if found is None:
        raise ManifestError([f"--from: {table} has no snapshot, so it has no rows; leave it out, or write it first"])
    return str(found[0])


@dataclass(frozen=True)
class StoredTables:
    """Tables that the command line names."""

    tables: tuple[_Table, ...]

    @property
    def name(self) -> str:
        return ", ".join(map(str, self.tables))

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(each.topic for each in self.tables if each.topic is not None)

    @property
    def settings(self) -> tuple[str, ...]:
        """Returns the settings that Spark needs to read them."""
        return DELTA_SETTINGS if any(each.format == _DELTA for each in self.tables) else ()

    def as_begun(self, name: str) -> StoredTables | None:
        # A place without a version here has got one when it was fixed.
        patterns = [re.escape(str(each)) + ("@v([0-9]{1,19})" if each.changes else "()") for each in self.tables]
        found = re.fullmatch(", ".join(patterns), name)
        if found is None:
            return None
        versions = zip(self.tables, found.groups(), strict=True)
        return StoredTables(tuple(replace(each, version=as_of) if each.changes else each for each, as_of in versions))

    def fixed(self, spark: SparkSession) -> StoredTables:
        return StoredTables(tuple(each.fixed(spark) for each in self.tables))

    def open(self, spark: SparkSession) -> DataFrame:
        return _union(_records(f"--from: {each}", each.read(spark), each.topic) for each in self.tables)


@dataclass(frozen=True)
class GivenTables:
    """DataFrames of a Python program, by topic. It has to give the same ones again if it goes on."""

    frames: Mapping[str, DataFrame]

    @property
    def name(self) -> str:
        return f"DataFrames of {', '.join(sorted(self.frames))}"

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(self.frames)

    def as_begun(self, name: str) -> GivenTables | None:
        return self if name == self.name else None

    def fixed(self, spark: SparkSession) -> GivenTables:
        return self

    def open(self, spark: SparkSession) -> DataFrame:
        return _union(_records(f"--from: {topic}", frame, topic) for topic, frame in self.frames.items())


def tables_of(sources: Sequence[str], *, accepts_gaps: bool) -> StoredTables | None:
    """Returns the tables that ``--from`` names, ``None`` for Kafka. Raises ``ManifestError`` for a text that is no
    place."""
    if KAFKA in sources:
        if len(sources) > 1:
            raise ManifestError([f"--from: {KAFKA} has all topics; leave the tables out, or name one for each topic"])
        if accepts_gaps:
            raise ManifestError([f"{ACCEPT}: is about tables; it needs --from with files or tables"])
        return None
    return StoredTables(tuple(_Table.parse(each) for each in sources))


def _records(named: str, frame: DataFrame, topic: str | None) -> DataFrame:
    """Returns the rows as records, with headers if there are any."""
    if frame.isStreaming:
        raise ConfigError(f"{named}: its DataFrame streams, and history ends; make it with spark.read")
    if topic is not None:
        frame = frame.withColumn("topic", functions.lit(topic))
    elif "topic" not in frame.columns:
        raise ManifestError([f"{named}: it has no column 'topic'; if it is of one topic, name that: --from TOPIC=..."])
    check_columns(named, frame, _REQUIRED)
    records = record_columns(frame, "topic")
    return records if "headers" in frame.columns else records.drop("headers")


def _union(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)
