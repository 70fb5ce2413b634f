"""Folders as Hadoop's file systems have them: of tables, and of the checkpoints of sinks.

Used on the driver, by the thread that uses the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from streamsapp.errors import StreamsError

#: Spark, and other readers, pass over names that begin like that.
_CHECKPOINT = "_checkpoint"


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
