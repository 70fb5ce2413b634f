"""The tables that batches of rows are added to, each exact by the number of the batch: a batch that is added again
changes nothing.

Used on the driver: by its main thread before the first batch, and by the thread on which Spark calls for each batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from streamsapp.errors import ManifestError, StreamsError
from streamsapp.manifest.model import SinkSpec
from streamsapp_spark.history.places import DELTA_SETTINGS, NO_DELTA, lacks_format
from streamsapp_spark.session.java_process import reason

#: Rows of a file at most, unless ``maxRecordsPerFile`` of the options says otherwise.
_ROWS = 5_000_000
#: Spark, and other readers, pass over names that begin like that.
_CHECKPOINT, _STAGING = "_checkpoint", "_staging"

_SETTINGS = {
    "delta": DELTA_SETTINGS,
    # Spark's own form, INT96, has no zone for other readers.
    "parquet": ("spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS",),
}


class SinkTable(Protocol):
    """The table of one sink."""

    def has_rows(self) -> bool:
        """Returns whether it has any. Raises ``ManifestError`` for one that cannot be read."""
        ...

    def add(self, rows: DataFrame, query: str, batch: int) -> None:
        """Adds the rows of a ``batch`` of the ``query``, unless they are there."""
        ...


def settings_of(sinks: list[SinkSpec]) -> tuple[str, ...]:
    """Returns Spark's settings that the formats need."""
    return tuple(setting for each in sorted({sink.format for sink in sinks}) for setting in _SETTINGS[each])


def table_of(spark: SparkSession, sink: SinkSpec, folder: Folder, field: str) -> SinkTable:
    """Returns the table of a sink; ``field`` of the manifest opens every message."""
    if sink.format == "delta":
        return DeltaTable(spark, folder, sink, field)
    return ParquetFolder(folder, sink)


@dataclass(frozen=True)
class Folder:
    """A folder as Hadoop's file systems have it."""

    path: str
    #: Hadoop's ``FileSystem`` and its classes.
    files: Any
    fs: Any

    @classmethod
    def of(cls, spark: SparkSession, path: str) -> Folder:
        """Raises what Java does for an address that no file system serves."""
        fs = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
        return cls(path.rstrip("/"), fs.Path(path).getFileSystem(spark._jsc.hadoopConfiguration()), fs)

    def at(self, name: str) -> str:
        return f"{self.path}/{name}"

    def names(self, name: str = "") -> Iterator[str]:
        """Yields what is there; nothing if there is no such folder."""
        path = self.fs.Path(self.at(name))
        if self.files.exists(path):
            found = self.files.listStatusIterator(path)
            while found.hasNext():
                yield found.next().getPath().getName()

    def remove(self, name: str) -> bool:
        """Returns whether there was one."""
        return bool(self.files.delete(self.fs.Path(self.at(name)), True))

    def move(self, name: str, to: str) -> None:
        """Replaces what is there. Raises ``StreamsError`` if the file system does not."""
        self.remove(to)
        if not self.files.rename(self.fs.Path(self.at(name)), self.fs.Path(self.at(to))):
            raise StreamsError(f"{self.at(name)} cannot be renamed {to}")


def checkpoint(folder: Folder) -> str:
    """Returns the folder in which Spark keeps the offsets of a sink."""
    return folder.at(_CHECKPOINT)


def has_begun(folder: Folder) -> bool:
    """Returns whether a batch of the sink was planned, ever."""
    return any(name.isdecimal() for name in folder.names(f"{_CHECKPOINT}/offsets"))


class ParquetFolder:
    """A folder of whole files, named by batch.

    A file is written elsewhere and renamed when it is whole. The same records give files of the same names, so a batch
    that is added again, even by a driver that another one has replaced, replaces what it added.
    """

    def __init__(self, folder: Folder, sink: SinkSpec) -> None:
        self._folder = folder
        self._options = {"maxRecordsPerFile": str(_ROWS)} | {name: _text(of) for name, of in sink.options.items()}
        folder.remove(_STAGING)  # of a driver that was killed

    def has_rows(self) -> bool:
        return any(not name.startswith(("_", ".")) for name in self._folder.names())

    def add(self, rows: DataFrame, query: str, batch: int) -> None:
        folder, staging = self._folder, f"{_STAGING}/{uuid4()}"
        rows.coalesce(1).write.format("parquet").options(**self._options).save(folder.at(staging))
        made = [name for name in folder.names(staging) if name.startswith("part-")]
        for number, name in enumerate(sorted(made, key=lambda name: (len(name), name))):
            folder.move(f"{staging}/{name}", _file(batch, number))
        # A topic that is compacted may have fewer records now than when the batch was added before.
        number = len(made)
        while folder.remove(_file(batch, number)):
            number += 1
        folder.remove(staging)


def _file(batch: int, number: int) -> str:
    return f"batch-{batch:010d}-{number:05d}.parquet"


class DeltaTable:
    """A table of Delta Lake, which keeps the number of the last batch of each query in its own transactions."""

    def __init__(self, spark: SparkSession, folder: Folder, sink: SinkSpec, field: str) -> None:
        self._spark, self._folder, self._field = spark, folder, field
        self._options = {name: _text(of) for name, of in sink.options.items()}

    def has_rows(self) -> bool:
        try:
            return not self._spark.read.format("delta").load(self._folder.path).isEmpty()
        except Exception as error:
            if lacks_format(error):
                raise ManifestError([f"{self._field}: {NO_DELTA}"]) from error
            if "_delta_log" in self._folder.names():
                raise ManifestError([f"{self._field}: the table cannot be read: {reason(error)}"]) from error
            return False  # there is none yet

    def add(self, rows: DataFrame, query: str, batch: int) -> None:
        own = {"txnAppId": query, "txnVersion": str(batch)}
        rows.write.format("delta").mode("append").options(**self._options, **own).save(self._folder.path)


def _text(value: object) -> str:
    """As Spark reads options."""
    return str(value).lower() if isinstance(value, bool) else str(value)
