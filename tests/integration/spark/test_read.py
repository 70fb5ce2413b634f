"""Snapshots as tables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from instances import Instances, produce
from kafka_cluster import Kafka
from spark_apps import App, finished

PARTITIONS = 2

PROGRAM = """
from streamsapp import *

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(Serdes.string(), Serdes.string()))
    words.group_by_key(Grouped(Serdes.string(), Serdes.string())).count(
        Materialized("counts", key_serde=Serdes.string(), value_serde=Serdes.long()))
    builder.table("{things}", Consumed(Serdes.integer(), Serdes.json()),
        Materialized("things", key_serde=Serdes.integer(), value_serde=Serdes.json()))
    return builder.build()
"""

READER = """
import sys
from pyspark.sql import SparkSession
manifest, store = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
table = spark.read.format("streamsapp").option("manifest", manifest).option("store", store).load()
print("schema", table.schema.simpleString())
print("partitions", table.rdd.getNumPartitions())
for row in sorted(table.collect(), key=lambda row: row.key):
    print("row", list(row))
spark.stop()
"""


@pytest.fixture
def app(instances: Instances, kafka: Kafka) -> App:
    words, things = kafka.create_topic("words", PARTITIONS), kafka.create_topic("things", PARTITIONS)
    produce(kafka, words, [(b"a", b"x", 10), (b"b", b"x", 20), (b"a", b"x", 30)])
    produce(kafka, things, [((7).to_bytes(4, "big"), b'{"size": [1, 2]}', 40)])
    return App(instances, kafka.unique("read"), PROGRAM.replace("{words}", words).replace("{things}", things))


def read(app: App, store: str, tmp_path: Path) -> tuple[int, str, str]:
    program = tmp_path / "reader.py"
    program.write_text(READER)
    return finished(
        subprocess.Popen(
            [sys.executable, str(program), str(app.manifest), store],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    )


def test_a_store_is_a_table_with_the_types_of_its_serdes(app: App, tmp_path: Path) -> None:
    app.bootstrap()
    code, said, errors = read(app, "counts", tmp_path)
    assert code == 0, errors[-4000:]
    lines = said.splitlines()
    assert lines[0] == "schema struct<key:string,value:bigint,timestamp:bigint,task:string,offset:bigint>"
    assert lines[1] == f"partitions {PARTITIONS}"
    keys = [line.split(", ")[:3] for line in lines[2:]]
    assert keys == [["row ['a'", "2", "30"], ["row ['b'", "1", "20"]]
    code, said, errors = read(app, "things", tmp_path)
    assert code == 0, errors[-4000:]
    assert "struct<key:int,value:string," in said
    assert """row [7, '{"size":[1,2]}', 40, """ in said
    code, said, errors = read(app, "count", tmp_path)
    assert code != 0
    assert "the application has no store 'count'; its stores: counts, things" in errors
    next(app.objects.rglob("*-CURRENT")).write_bytes(b"MANIFEST-9\n")
    damaged = [read(app, store, tmp_path) for store in ("counts", "things")]
    assert [code for code, _, _ in damaged].count(0) == 1
    assert any("is damaged" in errors and "task " in errors for _, _, errors in damaged)
