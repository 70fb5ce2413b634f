#!/usr/bin/env bash
# Spark 4.3.0: the reader of a table over a Python data source gets none of the table's options.
#
# `CREATE TABLE t USING source OPTIONS (day '1')` hands the options to `DataSource.schema`.
# When the table is read, the source that makes the reader has no options at all, and nothing is said. The same source
# with the same options by `spark.read.format("source").option("day", "1").load()` gets them in both places.
source "$(dirname "$0")/common.sh"
spark
"$python" - <<'PYTHON'
from finding_spark import at_creation, options, session

with session() as spark:
    spark.sql("CREATE TABLE t USING told OPTIONS (day '1')")
    told = at_creation()
    table, loaded = options(spark.table("t")), options(spark.read.format("told").option("day", "1").load())
print(f"schema() of the table was told: {told}")
print(f"the reader of the table was told: {table}; the reader of load() was told: {loaded}")
if (table, loaded, told) != ([{}], [{"day": "1"}], {"day": "1"}):
    raise SystemExit("this has changed: the reader of a table was told no options")
PYTHON
