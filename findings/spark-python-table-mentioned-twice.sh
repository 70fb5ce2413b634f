#!/usr/bin/env bash
# Spark 4.3.0: two mentions of a table over a Python data source in one statement are read with one mention's options.
#
# `SELECT * FROM t WITH (day '1') UNION ALL SELECT * FROM t WITH (day '2')` reads day 1 twice, and never day 2. So does a
# join of the two, and nothing is said. One mention in a statement is read with its own options, and so are two
# temporary views that have them.
source "$(dirname "$0")/common.sh"
spark
"$python" - <<'PYTHON'
from finding_spark import options, session

UNION = "SELECT * FROM {} UNION ALL SELECT * FROM {}"
JOIN = "SELECT a.told AS left, b.told AS right FROM t WITH (day '1') a CROSS JOIN t WITH (day '2') b"
with session() as spark:
    spark.sql("CREATE TABLE t USING told")
    for day in ("1", "2"):
        spark.sql(f"CREATE TEMPORARY VIEW v{day} USING told OPTIONS (day '{day}')")
    alone = options(spark.sql("SELECT * FROM t WITH (day '2')"))
    union = options(spark.sql(UNION.format("t WITH (day '1')", "t WITH (day '2')")))
    (joined,) = spark.sql(JOIN).collect()
    views = options(spark.sql(UNION.format("v1", "v2")))
one, two = {"day": "1"}, {"day": "2"}
print(f"alone: {alone}; union: {union}; join: {joined.left} and {joined.right}; union of two views: {views}")
if (alone, union, views) != ([two], [one, one], [one, two]) or joined.left != joined.right:
    raise SystemExit("this has changed: both mentions were read with the options of one")
PYTHON
