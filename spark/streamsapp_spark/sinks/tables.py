"""The tables that batches of rows are added to, each exact by the number of the batch: a batch that is added again
changes nothing.

Used on the driver: by its main thread before the first batch, and by the thread on which Spark calls for each batch.
"""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from streamsapp.manifest.model import SinkSpec
from streamsapp_spark.sinks import delta
from streamsapp_spark.sinks.delta import DeltaTable
from streamsapp_spark.sinks.folder import Folder
from streamsapp_spark.sinks.iceberg import IcebergTable
from streamsapp_spark.sinks.jdbc import DatabaseTable
from streamsapp_spark.sinks.parquet import ParquetFolder

_SETTINGS = {"delta": delta.SETTINGS}


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
    return tuple(setting for each in sorted({sink.format for sink in sinks}) for setting in _SETTINGS.get(each, ()))


def table_of(spark: SparkSession, sink: SinkSpec, columns: str, folder: Folder, field: str) -> SinkTable:
    """Returns the table of a sink for rows of these ``columns``, as Spark's SQL writes them; ``field`` of the manifest
    opens every message. Raises ``ManifestError`` for a database that cannot be used."""
    match sink.format:
        case "delta":
            return DeltaTable(spark, folder, sink, f"{field}.format")
        case "iceberg":
            return IcebergTable(spark, sink, field)
        case "jdbc":
            return DatabaseTable(spark, sink, columns, field)
        case _:
            return ParquetFolder(folder, sink)
