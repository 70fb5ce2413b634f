#!/usr/bin/env bash
# Spark 4.2.1 with Delta Lake 4.4.0: a table over a Python data source cannot be read where Delta's catalog is
# spark_catalog.
#
# Delta Lake asks for `spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog`. With it
# `CREATE TABLE t USING source` works as without it, and `SELECT` from that table fails. The same source can be read as a
# temporary view, and by `spark.read.format("source")`.
source "$(dirname "$0")/common.sh"
packages pyspark==4.2.1 pyarrow==21.0.0 pandas==2.3.3
jar io/delta/delta-spark_4.2_2.13/4.4.0 27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead
jar io/delta/delta-storage/4.4.0 c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc
export FOLDER=$folder PYSPARK_PYTHON=$python
"$python" - <<'PYTHON'
import os
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader

folder = Path(os.environ["FOLDER"])


class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "number int"

    def reader(self, schema):
        return Reader()


class Reader(DataSourceReader):
    def read(self, partition):
        yield (7,)


settings = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.warehouse.dir": str(folder / "warehouse"),
    "spark.jars": ",".join(map(str, (folder / "jars").glob("*.jar"))),
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
os.chdir(folder)
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
spark.dataSource.register(Numbers)
spark.sql("CREATE TEMPORARY VIEW v USING numbers")
spark.sql("CREATE TABLE t USING numbers")
read = spark.read.format("numbers").load().collect()[0][0], spark.sql("SELECT * FROM v").collect()[0][0]
try:
    table = str(spark.sql("SELECT * FROM t").collect()[0][0])
except AnalysisException as error:
    table = str(error).splitlines()[0]
spark.stop()
print(f"by read.format() and by a view: {read}; by the table: {table}")
if read != (7, 7) or "not a valid Spark SQL Data Source" not in table:
    raise SystemExit("this has changed: the table could not be read, and the others could")
PYTHON
