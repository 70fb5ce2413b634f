"""Puts the results and the state of two programs side by side, in Spark. Runs on the driver.

The n-th result of a key in a topic is compared with the n-th one of the other program. The entry of a key in a store is
compared with that of the other. Only state that a program has changed comes here: the other program, if it has not
changed it, has the earlier entry.
"""

from __future__ import annotations

from functools import reduce

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, Window, functions
from pyspark.sql.functions import col, lit, when

from streamsapp_spark.preview.task import RESULT, STATE
from streamsapp_spark.replay.stage_rows import NOBODY

_PLACE = ("kind", "name", "key", "nth")
_UNCHANGED = (
    "if(kind = {state} and {one} is null, named_struct('value', {other}.headers, 'timestamp', {other}.timestamp, "
    "'headers', {other}.headers, 'partition', {other}.partition), {one})"
)


def side_by_side(today: list[DataFrame], tomorrow: list[DataFrame]) -> DataFrame:
    """Returns a row per kind, name and key: how many results or entries ``differ``, and the ``first`` that does, with
    its number and both sides; kept, as several look at it."""
    both = _results(today, 0).unionByName(_results(tomorrow, 1))
    placed = both.groupBy(*_PLACE).agg(
        *(functions.max(when(col("side") == side, col("sent"))).alias(name) for side, name in enumerate(_SIDES))
    )
    whole = placed.select(*_PLACE, *(_or_unchanged(one, other).alias(one) for one, other in (_SIDES, _SIDES[::-1])))
    differs = ~col(_SIDES[0]).eqNullSafe(col(_SIDES[1]))
    found = whole.groupBy("kind", "name", "key").agg(
        functions.count(when(differs, lit(1))).alias("differ"),
        functions.min(when(differs, functions.struct("nth", *_SIDES))).alias("first"),
    )
    return found.persist(StorageLevel.DISK_ONLY)


_SIDES = ("today", "tomorrow")


def _or_unchanged(one: str, other: str) -> Column:
    return functions.expr(_UNCHANGED.format(state=STATE, one=one, other=other))


def _results(stages: list[DataFrame], side: int) -> DataFrame:
    rows = reduce(DataFrame.union, stages).filter(f"reader = {NOBODY}").withColumnRenamed("repartition_key", "kind")
    # A key may be in the stores of several tasks, as the writers of the topics chose.
    in_order = Window.partitionBy("kind", "topic", "key").orderBy("writer", "sequence")
    nth = when(col("kind") == RESULT, functions.row_number().over(in_order)).otherwise(col("partition"))
    sent = functions.struct("value", "timestamp", "headers", "partition")
    return rows.select("kind", col("topic").alias("name"), "key", nth.alias("nth"), sent.alias("sent")).withColumn(
        "side", lit(side)
    )
