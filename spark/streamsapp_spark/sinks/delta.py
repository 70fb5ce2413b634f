"""A table of Delta Lake, exact by the transactions of its own log.

Used on the driver; ``add`` on the thread on which Spark calls for each batch.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from streamsapp.errors import ManifestError
from streamsapp.manifest.model import SinkSpec
from streamsapp_spark.history.places import DELTA_SETTINGS, NO_DELTA, lacks_format
from streamsapp_spark.session.java_process import reason
from streamsapp_spark.sinks.folder import Folder
from streamsapp_spark.sinks.writer_options import writer_options

SETTINGS = DELTA_SETTINGS


class DeltaTable:
    """A table of Delta Lake, which keeps the number of the last batch of each query in its own transactions."""

    def __init__(self, spark: SparkSession, folder: Folder, sink: SinkSpec, field: str) -> None:
        self._spark, self._folder, self._field = spark, folder, field
        self._options = writer_options(sink)

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
