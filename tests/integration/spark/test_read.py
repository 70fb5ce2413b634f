"""Snapshots as tables."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from instances import Instances, produce
from kafka_cluster import Kafka
from spark_apps import App, finished
from streamsapp.local.broker import EmbeddedBroker

pytestmark = pytest.mark.timeout(1100)

PARTITIONS = 2

PROGRAM = """
from streamsapp import *

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(Serdes.string(), Serdes.string()))
    words.group_by_key(Grouped(Serdes.string(), Serdes.string())).count(
        Materialized("counts", key_serde=Serdes.string(), value_serde=Serdes.long()))
    late = words.group_by_key(Grouped(Serdes.string(), Serdes.string()))
    late.windowed_by(TimeWindows.of(25, grace=1000)).count(Materialized("windows", key_serde=Serdes.string())).suppress(
        Suppressed.until_window_closes()).to_stream(lambda windowed, count: windowed.key).to(
        "{finals}", Produced(Serdes.string(), Serdes.long()))
    late.windowed_by(SessionWindows.of(15)).count(Materialized("sessions", key_serde=Serdes.string(), retention=1000))
    builder.table("{things}", Consumed(Serdes.integer(), Serdes.json()),
        Materialized("things", key_serde=Serdes.integer(), value_serde=Serdes.json()))
    words.to_table(Materialized("versions", key_serde=Serdes.string(), value_serde=Serdes.string(), versioned=1000))
    return builder.build()
"""

READER = """
import sys
from pyspark.sql import SparkSession
manifest, *stores = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
for said in stores:
    print("==", said)
    store, *options = said.split("&")
    try:
        options = dict(option.split("=") for option in options)
        table = spark.read.format("streamsapp").options(manifest=manifest, store=store, **options).load()
        print("schema", table.schema.simpleString())
        print("partitions", table.rdd.getNumPartitions())
        for row in sorted(table.collect(), key=lambda row: row.key):
            print("row", list(row))
    except Exception as error:
        print("error", str(error).replace(chr(10), " "))
spark.stop()
"""


@pytest.fixture(scope="module")
def app(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> App:
    """A bootstrapped one for all tests of this module; the last of them damages its snapshots."""
    kafka = Kafka(broker.bootstrap_servers)
    words, things = kafka.create_topic("words", PARTITIONS), kafka.create_topic("things", PARTITIONS)
    produce(kafka, words, [(b"a", b"x", 10), (b"b", b"x", 20), (b"a", b"x", 30)])
    produce(kafka, things, [((7).to_bytes(4, "big"), b'{"size": [1, 2]}', 40)])
    program = PROGRAM.replace("{words}", words).replace("{things}", things)
    program = program.replace("{finals}", kafka.create_topic("finals", PARTITIONS))
    made = App(Instances(kafka, tmp_path_factory.mktemp("read")), kafka.unique("read"), program)
    made.bootstrap()
    return made


def read(app: App, *stores: str) -> dict[str, list[str]]:
    """Returns the lines that a program that reads these stores prints of each."""
    program = app.folder / "reader.py"
    program.write_text(READER)
    code, said, errors = finished(
        subprocess.Popen(
            [sys.executable, str(program), str(app.manifest), *stores],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    )
    assert code == 0, errors[-4000:]
    _, *told = said.split("== ")
    return {name: lines for name, *lines in map(str.splitlines, told)}


TYPED, ONE_KEY = "things&schema=size array<int>", 'counts&keys=["b"]'
UNCHANGED, ODD = "counts&changes=2", "things&schema=size string"
ASKED, TOO_MANY = "counts&partitions=kafka", "counts&partitions=3"


@pytest.fixture(scope="module")
def tables(app: App) -> dict[str, list[str]]:
    """Reads all in one session."""
    return read(
        app,
        "counts",
        "things",
        "windows",
        "sessions",
        "versions",
        "count",
        TYPED,
        ONE_KEY,
        UNCHANGED,
        ODD,
        ASKED,
        TOO_MANY,
    )


def test_a_store_is_a_table_with_the_types_of_its_serdes(tables: dict[str, list[str]]) -> None:
    counts, of_counts, first, second = tables["counts"]
    things, of_things, third = tables["things"]
    (wrong,) = tables["count"]
    assert counts == "schema struct<key:string,value:bigint,timestamp:bigint,task:string,offset:bigint>"
    assert of_counts == of_things == f"partitions {PARTITIONS}"
    assert [line.split(", ")[:3] for line in (first, second)] == [["row ['a'", "2", "30"], ["row ['b'", "1", "20"]]
    assert things.startswith("schema struct<key:int,value:string,")
    assert third.startswith("""row [7, '{"size":[1,2]}', 40, """)
    assert "the application has no store 'count'; its stores: KTABLE-SUPPRESS-" in wrong


def test_options_choose_types_keys_and_changes(tables: dict[str, list[str]]) -> None:
    assert tables[TYPED][0].startswith("schema struct<key:int,value:struct<size:array<int>>,timestamp:bigint,")
    assert tables[TYPED][2].startswith("row [7, Row(size=[1, 2]), 40, ")
    assert [line[:16] for line in tables[ONE_KEY][2:]] == ["row ['b', 1, 20,"]
    assert tables[UNCHANGED][0].startswith("schema struct<key:string,change:string,old_value:bigint,new_value:bigint,")
    assert len(tables[UNCHANGED]) == 2
    assert "key 7: value.size is [1, 2], and the schema says string" in tables[ODD][-1]


def test_kafka_tells_how_many_tasks_there_are_if_it_is_asked(tables: dict[str, list[str]]) -> None:
    assert tables[ASKED] == tables["counts"]
    assert "task 0_2 has no snapshot, and store counts has 3 tasks" in tables[TOO_MANY][-1]


def test_windows_and_sessions_are_tables_with_their_bounds(tables: dict[str, list[str]]) -> None:
    lines = tables["windows"] + tables["sessions"]
    columns = ("window_start", "window_end", "value", "timestamp")
    schema = f"schema struct<key:string,{','.join(f'{each}:bigint' for each in columns)},task:string,offset:bigint>"
    assert [line for line in lines if line.startswith("schema")] == [schema] * 2
    rows = sorted(", ".join(line.split(", ")[:5]) for line in lines if line.startswith("row"))
    assert rows == [
        "row ['a', 0, 25, 1, 10",
        "row ['a', 10, 10, 1, None",
        "row ['a', 25, 50, 1, 30",
        "row ['a', 30, 30, 1, None",
        "row ['b', 0, 25, 1, 20",
        "row ['b', 20, 20, 1, None",
    ]


def test_a_versioned_store_is_a_table_of_the_latest_versions(tables: dict[str, list[str]]) -> None:
    schema, _, *rows = tables["versions"]
    assert schema == "schema struct<key:string,value:string,valid_from:bigint,task:string,offset:bigint>"
    assert [", ".join(row.split(", ")[:3]) for row in rows] == ["row ['a', 'x', 30", "row ['b', 'x', 20"]


def test_a_snapshot_that_is_damaged_is_named(app: App) -> None:
    next(app.objects.rglob("*-CURRENT")).write_bytes(b"MANIFEST-9\n")
    told = read(app, "counts", "things")
    (damaged,) = [line for lines in told.values() for line in lines if line.startswith("error")]
    assert re.search(r"task [01]_[01]: snapshot 2 is damaged: ", damaged)
