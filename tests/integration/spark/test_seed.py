"""A table becomes the state of a store, and instances go on with it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from instances import Instances, produce
from kafka_cluster import Kafka
from spark_apps import App, finished
from streamsapp.remote.bootstraps import Bootstraps
from streamsapp.remote.directory_store import DirectoryStore

#: Each has a session of Spark's.
pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]

PARTITIONS = 2

PROGRAM = """
from streamsapp import *

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(Serdes.string(), Serdes.string()))
    counts = words.group_by(lambda key, value: value, Grouped(Serdes.string(), Serdes.string())).count(
        Materialized("counts", key_serde=Serdes.string(), value_serde=Serdes.long()))
    counts.to_stream().to("{counts}", Produced(Serdes.string(), Serdes.long()))
    words.group_by_key(Grouped(Serdes.string(), Serdes.string())).windowed_by(TimeWindows.of(25)).count(
        Materialized("windows", key_serde=Serdes.string()))
    return builder.build()
"""

WRITER = """
import sys
from pyspark.sql import SparkSession
manifest = sys.argv[1]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
whole = spark.range(20).selectExpr("concat('word', id) AS key", "id AS value", "1000 + id AS timestamp").repartition(3)

def seed(rows, mode="append", **options):
    options = {"manifest": manifest, "store": "counts", "inputs": "latest", **options}
    try:
        rows.write.format("streamsapp").mode(mode).options(**options).save()
        print("seeded", flush=True)
    except Exception as error:
        print("refused", str(error).replace(chr(10), " "), flush=True)

seed(whole, store="windows")
seed(whole, store="count")
seed(whole.drop("timestamp"))
seed(whole.selectExpr("key", "cast(value AS int) AS value", "timestamp"))
seed(whole.selectExpr("key", "value", "cast(timestamp_millis(timestamp) AS timestamp_ntz) AS timestamp"))
seed(whole, inputs="soon")
seed(whole, mode="overwrite")
seed(whole.union(whole.limit(1)))
seed(whole.selectExpr("if(value = 7, null, key) AS key", "value", "timestamp"))
times = whole.selectExpr("key", "value", "timestamp_millis(timestamp) AS timestamp")
seed(times)
seed(times)
for row in sorted(spark.read.format("streamsapp").options(manifest=manifest, store="counts").load().collect()):
    print("row", row.key, row.value, row.timestamp)
spark.stop()
"""

REFUSED = [
    "windows is not a key-value store",
    "there is no store 'count'; there are: counts, windows",
    "the table has no column 'timestamp'; it has key, value",
    "column 'value' is int, and has to be bigint; cast it",
    "column 'timestamp' is timestamp_ntz, which names no time zone: CAST(timestamp AS TIMESTAMP) takes the session's",
    "option 'inputs'",
    "mode 'overwrite': state is never overwritten",
    "more than once; keep one row of each key",
    "a row has no key",
]


def test_a_table_becomes_a_store_that_instances_go_on_with(instances: Instances, kafka: Kafka) -> None:
    words, counts = kafka.create_topic("words", PARTITIONS), kafka.create_topic("counts", PARTITIONS)
    produce(kafka, words, [(b"a", b"word3", 10)])  # the other system has counted it
    program = PROGRAM.replace("{words}", words).replace("{counts}", counts)
    app = App(instances, kafka.unique("seeded"), program)
    (app.folder / "writer.py").write_text(WRITER)
    command = [sys.executable, str(app.folder / "writer.py"), str(app.manifest)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    code, said, errors = finished(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    )
    assert code == 0, errors[-6000:]
    lines = said.splitlines()
    first, again = lines.index("seeded"), lines.index("seeded") + 1
    assert [wanted for wanted, line in zip(REFUSED, lines[:first], strict=True) if wanted not in line] == [], said
    assert "has state already: it was bootstrapped, or seeded" in lines[again]
    assert sorted(lines[again + 1 :]) == sorted(f"row word{n} {n} {1000 + n}" for n in range(20))
    objects = DirectoryStore(app.objects)
    bootstrap = Bootstraps(objects, app.name).newest()
    assert bootstrap is not None
    assert bootstrap.is_done
    assert not list(objects.list(f"{app.name}/seed/"))
    produce(kafka, words, [(b"a", b"word3", 2000), (b"b", b"new", 2001)])
    instance = app.start()
    app.processed(words)
    app.processed(f"{app.name}-counts-repartition")
    instance.close(20)
    results = {each.key(): int.from_bytes(each.value() or b"", "big") for each in app.read(counts)}
    assert results == {b"word3": 4, b"new": 1}
    # Without snapshots the changelog has it all.
    changelog = app.read(f"{app.name}-counts-changelog")
    assert {each.key() for each in changelog} >= {b"word%d" % n for n in range(20)}
