"""The settings of Spark's that our sessions have. Plain data, of the driver; Spark's Python workers read the number of
tries."""

from __future__ import annotations

from pathlib import Path

#: The number of times that Spark tries a task: as on a cluster, also where a master on this machine would not try
#: again.
TRIES = 4

OPTIONS, CLASS_PATH = "spark.driver.extraJavaOptions", "spark.driver.extraClassPath"

_LOGGING = Path(__file__).with_name("log4j2.properties")

#: Little of Java's code runs for long here: compiling all of it well takes more time than Spark's whole work, so only
#: what a shuffle keeps busy for some seconds is.
JAVA_OPTIONS = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=20000 -XX:Tier4CompileThreshold=150000 "
    f"-XX:Tier4BackEdgeThreshold=400000 -XX:+UseSerialGC -Dlog4j2.configurationFile={_LOGGING.as_uri()}"
)

#: Of the driver of ``engine: spark``. Its batches are many and short: Java's second compiler went on for minutes over
#: code that has little to do, and took a third of what Java takes for a batch. With the first one alone Java would keep
#: 48 MB of code, and throw out what a driver that lives for long still needs.
BATCH_JAVA_OPTIONS = f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=128m"

#: Of every session that tasks of ours run in.
SQL_SETTINGS = {
    # One task of ours is one task of Spark's: partitions must not be merged.
    "spark.sql.adaptive.enabled": "false",
    # Rows may hold many records each.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.session.timeZone": "UTC",
    # Spark's own form, INT96, has no zone for other readers of files.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
#: The settings of a command's session, beside these.
SETTINGS = {
    **SQL_SETTINGS,
    # Neither must they run twice side by side.
    "spark.speculation": "false",
    "spark.task.maxFailures": str(TRIES),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    OPTIONS: JAVA_OPTIONS,
}

#: Of the driver of ``engine: spark``, beside these. Its query has next to nothing to compute: Java code that is made
#: and compiled for that never pays.
BATCH_SETTINGS = {
    "spark.ui.enabled": "true",
    OPTIONS: BATCH_JAVA_OPTIONS,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Each worker would import the runtime for itself.
    "spark.python.daemon.module": "streamsapp_spark.streaming.daemon",
}
