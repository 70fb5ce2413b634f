"""The queries of Nexmark that are natural in Spark SQL.

Built by ``spark_app.py``. Q5 and Q4 would need an aggregation of an aggregation in update mode, Q11 sessions there, Q19
ranks over a stream: Spark has none of these.
"""

from __future__ import annotations

from benchmarks.nexmark.answers import CATEGORY, EVERY, PERIOD, STATES, TO_EUROS
from benchmarks.systems.job import Job
from pyspark.sql import DataFrame, SparkSession, functions as sql

_BID = "auction long, bidder long, price long, channel string, url string, dateTime long, extra string"
_AUCTION = "id long, seller long, category long"
_PERSON = "id long, name string, city string, state string"

#: Results for which only whole rows are written, as a join of two streams has them.
APPENDED = ("nexmark-q3",)


def query(spark: SparkSession, job: Job, batch: int) -> DataFrame:
    """The results as Kafka Streams writes them: columns ``key`` and ``value``."""

    def read(topic: str, schema: str) -> DataFrame:
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", job.bootstrapServers)
        reader = reader.option("subscribe", topic).option("startingOffsets", "earliest")
        records = reader.option("maxOffsetsPerTrigger", batch).load()
        return records.select("timestamp", sql.from_json(records["value"].cast("string"), schema).alias("row"))

    if job.workload == "nexmark-q3":
        auctions = read(job.input, _AUCTION).select("row.*").where(f"category = {CATEGORY}").drop("category")
        persons = read(job.right, _PERSON).select("row.*").where(f"state in {STATES}")
        sold = auctions.join(persons.withColumnRenamed("id", "person"), sql.expr("seller = person"))
        return sold.selectExpr(_long("id"), "to_json(struct(name, city, state, id)) as value")
    bids = read(job.input, _BID)
    if job.workload == "nexmark-q7":
        window = sql.window("timestamp", f"{PERIOD} milliseconds")
        highest = bids.groupBy(window).agg(sql.expr("max_by(row, struct(row.price, -row.dateTime))").alias("row"))
        return highest.selectExpr(_long("unix_millis(window.start)"), "to_json(row) as value")
    rows = bids.select("row.*")
    if job.workload == "nexmark-q2":
        return rows.where(f"auction % {EVERY} = 0").selectExpr(
            _long("auction"), "to_json(struct(auction, price)) as value"
        )
    euros = f"struct(auction, bidder, cast({TO_EUROS} as double) * price as price, dateTime, extra)"
    return rows.selectExpr(_long("auction"), f"to_json({euros}) as value")


def _long(number: str) -> str:
    return f"unhex(lpad(hex({number}), 16, '0')) as key"
