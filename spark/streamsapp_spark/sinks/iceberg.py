"""A table of Iceberg, exact by the ids of staged changes: a table publishes each id once (write-audit-publish).

A batch is staged under an id of its own: a snapshot that no query reads yet. Iceberg refuses to publish a snapshot
whose id was published before, also where another driver does that at the same moment, as it looks again when it
commits.

Used on the driver; ``add`` on the thread on which Spark calls for each batch.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaPackage
from pyspark.sql import DataFrame, SparkSession

from streamsapp.errors import ManifestError, StreamsError
from streamsapp.manifest.model import SinkSpec
from streamsapp_spark.history.places import NO_ICEBERG, lacks_format
from streamsapp_spark.session.java_process import reason
from streamsapp_spark.sinks.writer_options import writer_options

#: The property of a table by which ids of staged changes count, and the setting of a session that has the id.
_STAGES, _ID = "write.wap.enabled", "spark.wap.id"
#: As the summary of a snapshot has the id.
_SUMMARY = "wap.id"
#: Iceberg's errors where a change is in the table already.
_PUBLISHED = ("DuplicateWAPCommitException", "CherrypickAncestorCommitException")
_UNREADABLE = (
    "cannot be read as a table of Iceberg; spec.spark.conf has to have its catalog (spark.sql.catalog.NAME, and its "
    "settings)"
)


class IcebergTable:
    """A table of a catalog."""

    def __init__(self, spark: SparkSession, sink: SinkSpec, field: str) -> None:
        assert sink.table is not None  # as the manifest was validated
        self._spark, self._name, self._field = spark, sink.table, field
        self._options = writer_options(sink)

    def has_rows(self) -> bool:
        if isinstance(self._spark._jvm.org.apache.iceberg.spark.Spark3Util, JavaPackage):  # type: ignore[union-attr]
            raise ManifestError([f"{self._field}.format: {NO_ICEBERG}"])
        try:
            if not self._spark.catalog.tableExists(self._name):
                return False
            self._loaded(self._spark)
            return not self._spark.table(self._name).isEmpty()
        except Exception as error:
            if lacks_format(error):
                raise ManifestError([f"{self._field}.format: {NO_ICEBERG}"]) from error
            raise ManifestError([f"{self._field}.table: {self._name} {_UNREADABLE}: {reason(error)}"]) from error

    def add(self, rows: DataFrame, query: str, batch: int) -> None:
        spark, number = rows.sparkSession, f"{query}/{batch}"
        table = self._opened(rows)
        spark.conf.set(_ID, number)
        try:
            rows.writeTo(self._name).options(**self._options).append()
        finally:
            spark.conf.unset(_ID)
        try:
            table.manageSnapshots().cherrypick(self._staged(table, number)).commit()
        except Exception as error:
            if not any(name in str(error) for name in _PUBLISHED):
                raise

    def _opened(self, rows: DataFrame) -> Any:
        """Returns the table, as Iceberg has it; it is made with the columns of the rows if it is not there."""
        spark = rows.sparkSession
        if not spark.catalog.tableExists(self._name):
            spark.createDataFrame([], rows.schema).writeTo(self._name).using("iceberg").create()
        table = self._loaded(spark)
        if table.properties().get(_STAGES) != "true":
            table.updateProperties().set(_STAGES, "true").commit()
        return table

    def _loaded(self, spark: SparkSession) -> Any:
        iceberg = spark._jvm.org.apache.iceberg.spark.Spark3Util  # type: ignore[union-attr]
        return iceberg.loadIcebergTable(spark._jsparkSession, self._name)

    def _staged(self, table: Any, number: str) -> int:
        """Returns the id of the snapshot that was just staged: one of the newest."""
        table.refresh()
        snapshots = table.snapshots()
        for at in reversed(range(snapshots.size())):
            snapshot = snapshots.get(at)
            if snapshot.summary().get(_SUMMARY) == number:
                return int(snapshot.snapshotId())
        raise StreamsError(f"{self._name} has no snapshot of {number}; has another program changed {_STAGES} of it?")
