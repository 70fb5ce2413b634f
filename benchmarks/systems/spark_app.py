"""Runs one workload as one writes it in PySpark by hand: with Spark's own connector, in update mode, RocksDB as state
store with changelog checkpoints.

Started by ``run.py``, until everything is read, and by ``spark_batches.py`` with a batch per second, until it is asked
to end. Variants ``sql-…`` count in Spark SQL, ``python-…`` in ``transformWithStateInPandas``. Spark fetches its
connector when it starts. Progress is read from the checkpoint; the first mark comes when the first batch is planned.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyspark
from benchmarks.systems import spark_nexmark
from benchmarks.systems.job import Job, mark, mark_closed
from benchmarks.workloads import WORDS_PER_LINE
from benchmarks.workloads_in_time import MINUTE
from pyspark.sql import DataFrame, SparkSession, functions as sql
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.streaming.query import StreamingQuery

_CONNECTOR = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
#: PySpark has these.
_THERE = (
    "org.scala-lang:scala-library,org.scala-lang.modules:scala-parallel-collections_2.13,org.lz4:lz4-java,"
    "org.xerial.snappy:snappy-java,org.slf4j:slf4j-api,org.apache.hadoop:hadoop-client-runtime,"
    "org.apache.hadoop:hadoop-client-api,com.google.code.findbugs:jsr305,org.apache.spark:spark-tags_2.13"
)
_SETTINGS = {
    "spark.jars.packages": _CONNECTOR,
    "spark.jars.excludes": _THERE,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
#: Records of a batch at most, as with ``engine: spark``; a run has four batches at least, so that it has a middle.
_BATCH, _BATCHES = 500_000, 4
#: The version and the settings.
_LINES_BEFORE_SOURCES = 2
_LOOK = 0.05
_GRACE = "10 seconds"


class Count(StatefulProcessor):
    """The number of rows of a key, in each window."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._counts = handle.getMapState("counts", "start long", "count long")

    def handleInputRows(  # noqa: N802 - Spark's name, and its parameters'
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        added: dict[int, int] = {}
        for frame in rows:
            for start, count in frame["start"].value_counts().items():
                added[int(start)] = added.get(int(start), 0) + count
        for start, count in added.items():
            known = self._counts.getValue((start,))
            count += known[0] if known else 0  # noqa: PLW2901 - all of them
            self._counts.updateValue((start,), (count,))
            yield pd.DataFrame({"key": [key[0]], "start": [start], "count": [count]})

    def close(self) -> None:
        pass


def main() -> None:
    job = Job.from_command_line()
    # Without it workers start whichever Python is first on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]")
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    checkpoint = Path(job.stateDir) / "checkpoint"
    mode = "append" if job.workload in spark_nexmark.APPENDED else "update"
    writer = results(spark, job).writeStream.format("kafka").outputMode(mode)
    writer = writer.option("kafka.bootstrap.servers", job.bootstrapServers).option("topic", job.output)
    writer = writer.option("checkpointLocation", str(checkpoint))
    if job.records:
        follow(job, writer.trigger(availableNow=True).start(), checkpoint)
    else:
        writer.trigger(processingTime="1 second").start().awaitTermination()
    spark.stop()
    mark_closed(job.records)


def messages(job: Job) -> int:
    """Records of the input topic."""
    return job.records // WORDS_PER_LINE if job.workload == "w2" else job.records


def results(spark: SparkSession, job: Job) -> DataFrame:
    """Keys and values as Kafka Streams writes them."""
    if job.workload.startswith("nexmark-"):
        return spark_nexmark.query(spark, job, min(_BATCH, -(-job.records // _BATCHES)))
    return counted(job, source(spark, job))


def source(spark: SparkSession, job: Job) -> DataFrame:
    """Keys with the beginnings of their windows, 0 where there are none, and their times."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.bootstrapServers)
    reader = reader.option("subscribe", job.input).option("startingOffsets", "earliest")
    if job.records:
        reader = reader.option("maxOffsetsPerTrigger", min(_BATCH, -(-messages(job) // _BATCHES)))
    records = reader.load()
    if job.workload == "w2":
        words = records.select(sql.explode(sql.split(records["value"].cast("string"), " ")).alias("word"), "timestamp")
        return words.selectExpr("cast(word as binary) as key", "cast(0 as long) as start", "timestamp")
    start = f"unix_millis(timestamp) div {MINUTE} * {MINUTE}" if job.workload.startswith("w5") else "cast(0 as long)"
    return records.select("key", sql.expr(start).alias("start"), "timestamp")


def counted(job: Job, records: DataFrame) -> DataFrame:
    """Counts as Kafka Streams writes them."""
    windowed = job.workload.startswith("w5")
    if job.variant.startswith("python"):
        grouped = records.select("key", "start").groupBy("key")
        counts = grouped.transformWithStateInPandas(Count(), "key binary, start long, count long", "Update", "None")
    elif windowed:
        in_time = records.withWatermark("timestamp", _GRACE)
        grouped = in_time.groupBy("key", sql.window("timestamp", f"{MINUTE} milliseconds"))
        counts = grouped.count().selectExpr("key", "unix_millis(window.start) as start", "count")
    else:
        counts = records.groupBy("key").count()
    key = "concat(key, unhex(lpad(hex(start), 16, '0')))" if windowed else "key"
    return counts.selectExpr(f"{key} as key", "unhex(lpad(hex(count), 16, '0')) as value")


def follow(job: Job, query: StreamingQuery, checkpoint: Path) -> None:
    """Return when everything is counted; marks the first, the middle and the last record."""
    halfway, per_message = False, job.records // messages(job)
    while query.isActive and not (checkpoint / "offsets" / "0").exists():
        time.sleep(_LOOK)
    mark("FIRST")
    while query.isActive:
        time.sleep(_LOOK)
        done = read(checkpoint) * per_message
        if not halfway and done >= job.records // 2:
            halfway = True
            mark("HALF", done)
    query.awaitTermination()
    mark("LAST", job.records)


def read(checkpoint: Path) -> int:
    """Records of the batches that are committed: a batch's file has a line with the offsets of each source."""
    batches = [int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")]
    if not batches:
        return 0
    sources = (checkpoint / "offsets" / str(max(batches))).read_text().splitlines()[_LINES_BEFORE_SOURCES:]
    topics = [each for source in sources for each in json.loads(source).values()]
    return sum(sum(partitions.values()) for partitions in topics)


if __name__ == "__main__":
    sys.exit(main())
