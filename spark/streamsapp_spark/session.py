"""The Spark session of a command. Runs on the driver's main thread."""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession

from streamsapp.errors import ManifestError, StreamsError
from streamsapp_spark.rows import ORDER, SQL_SCHEMA, Row

_LOCAL = re.compile(r"local\[([0-9]+|\*)\]|local")
#: How often a task is tried: as on a cluster, also where a master on this machine would not try again.
_TRIES = 4

_LOGGING = Path(__file__).with_name("log4j2.properties")

#: Little of Java's code runs for long here: compiling all of it well takes more time than Spark's whole work, so only
#: what a shuffle keeps busy for some seconds is.
JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=20000 -XX:Tier4CompileThreshold=150000 "
    f"-XX:Tier4BackEdgeThreshold=400000 -XX:+UseSerialGC -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
)

_SETTINGS = {
    # One task of ours is one task of Spark's: partitions must not be merged or run twice side by side.
    "spark.sql.adaptive.enabled": "false",
    "spark.speculation": "false",
    "spark.task.maxFailures": str(_TRIES),
    # Rows may hold many records each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}


class Java:
    """Spark's Java process. It is started while the driver finds out what there is to do, and ends with the driver,
    which does not exit before it has started, used or not."""

    def __init__(self, name: str, master: str, settings: Sequence[str]) -> None:
        """``settings`` are ``key=value`` and win over ours; raises ``ManifestError`` if one is not."""
        local = _LOCAL.fullmatch(master)
        own = dict(_SETTINGS)
        if local:
            master = f"local[{local[1] or 1},{_TRIES}]"
            own |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        if master.startswith("local"):
            # Without it workers start whichever Python is first on the path.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        logging.getLogger("py4j").setLevel(logging.WARNING)
        self.conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(name)
        self.conf.setAll(list((own | _parsed(settings)).items()))
        self._gateway: Future[Any] = Future()
        threading.Thread(target=self._start, name="java").start()

    def _start(self) -> None:
        try:
            self._gateway.set_result(launch_gateway(self.conf))  # type: ignore[no-untyped-call]
        except Exception as error:
            self._gateway.set_exception(error)

    def context(self) -> SparkContext:
        """Raises what starting it raised."""
        return SparkContext(conf=self.conf, gateway=self._gateway.result())


@contextmanager
def session(java: Java) -> Iterator[SparkSession]:
    """A session that ends with the block."""
    try:
        spark = SparkSession(java.context())
    except Exception as error:
        master = java.conf.get("spark.master")
        raise StreamsError(
            f"Spark does not start with master {master}: {reason(error)}; it needs Java 17 or newer"
        ) from error
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def reason(error: Exception) -> str:
    """The line of what Spark raised that says why."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if "Exception: " in line or "Error: " in line]
    return (named or lines or [type(error).__name__])[0]


def _parsed(settings: Sequence[str]) -> dict[str, str]:
    pairs = [setting.partition("=") for setting in settings]
    for key, separator, _ in pairs:
        if not separator:
            raise ManifestError([f"--conf: expected key=value, got {key!r}"])
    return {key: value for key, _, value in pairs}


def task_frame(spark: SparkSession, rows: Sequence[Row]) -> DataFrame:
    """One Spark partition per row."""
    return spark.createDataFrame(spark.sparkContext.parallelize(rows, len(rows)), SQL_SCHEMA)


def shuffled(tasks: DataFrame, records: DataFrame, partitions: int) -> DataFrame:
    """Records beside the row of the task that reads them, in their order."""
    return tasks.union(records).repartition(partitions, "slot").sortWithinPartitions(*ORDER)
