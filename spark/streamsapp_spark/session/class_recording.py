"""Has Java record its archive of classes, before there is an application: ``python -m`` this, in the image's build.

Runs, on the main thread of a process of its own, a session as ``engine: spark`` does, with an executor and both kinds
of its queries: without an output, and with one of files. Drivers load few classes beside these.
Imports little of the runtime, so that few of its changes have an image record anew.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, functions as sql
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from streamsapp_spark.session.class_archive import class_archive
from streamsapp_spark.session.session import session, start_java
from streamsapp_spark.session.settings import BATCH_SETTINGS

_MASTER = "local-cluster[1,1,512]"
#: Workers are forked from Spark's own module, as there is nothing of the runtime to import.
_OWN = {"spark.executor.memory": "512m", "spark.python.daemon.module": "pyspark.daemon"}
_SECONDS = 900


class _Source(DataSource):
    """A source of one batch, of one row."""

    @classmethod
    def name(cls) -> str:
        return "one-batch"

    def schema(self) -> str:
        return "figures array<bigint>, name string, time timestamp"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return _Reader()


class _Reader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        return {"batch": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]  # noqa: N802 - Spark's name
        return {"batch": 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[tuple[list[int], str, None]]:
        yield [1, 2], "name", None


def main() -> int:
    """Returns 0 if there is an archive then."""
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # a machine that builds an image may not know its own name
    settings = [f"{key}={value}" for key, value in (BATCH_SETTINGS | _OWN).items()]
    java = start_java("classes", _MASTER, settings)
    with tempfile.TemporaryDirectory() as folder:
        with session(java) as spark:
            _run_queries(spark, Path(folder))
        java.ran()
        process = java.gateway().proc
        process.stdin.close()
        process.wait(_SECONDS)
    home = Path(os.environ.get("SPARK_HOME", ""))
    if not (found := class_archive(home, records=False).options):
        print("Java has recorded no archive: docs/spark.md says where none can be kept", file=sys.stderr)
        return 1
    shutil.rmtree(home / "work", ignore_errors=True)  # of the executor
    home.chmod(0o755)  # read by the user of the image
    print(found, file=sys.stderr)
    return 0


def _run_queries(spark: SparkSession, folder: Path) -> None:
    spark.dataSource.register(_Source)
    frame = spark.readStream.format(_Source.name()).load()
    first, second = (sql.col("figures")[number] for number in range(2))
    figures = [sql.sum(first).alias("sum"), sql.max(first).alias("max"), sql.max_by(first, second).alias("last")]
    shown = frame.where("figures is not null").observe("figures", *figures)
    observed = shown.writeStream.format("noop").queryName("one batch")
    observed = observed.options(
        checkpointLocation=str(folder / "observed"),
        asyncProgressTrackingEnabled=True,
        asyncProgressTrackingCheckpointIntervalMs=60_000,
    )
    query = observed.trigger(processingTime="100 milliseconds").start()
    query.processAllAvailable()
    if query.lastProgress is None:
        raise AssertionError("a batch without progress")
    query.stop()

    def add(rows: DataFrame, batch: int) -> None:
        rows.coalesce(1).write.format("parquet").save(str(folder / f"rows-{batch}"))

    written = frame.writeStream.foreachBatch(add).option("checkpointLocation", str(folder / "written"))
    written.trigger(availableNow=True).start().awaitTermination(_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
