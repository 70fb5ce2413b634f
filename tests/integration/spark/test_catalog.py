"""Stores as tables of Spark's catalog, read with SQL as of now and as of then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_apps import finished
from stored_apps import StoredApp
from streamsapp.state.api import ValueAndTimestamp

pytestmark = pytest.mark.timeout(1100)

T = 1_700_000_000_000

CODE = """
from dataclasses import dataclass
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

@dataclass
class Order:
    size: int
    tags: list[str]

def topology():
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(TEXT, TEXT))
    words.group_by(lambda key, value: value, Grouped(TEXT, TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=LONG))
    builder.table("orders", Consumed(TEXT, Serdes.json(Order)),
        Materialized("orders", key_serde=TEXT, value_serde=Serdes.json(Order)))
    builder.table("documents", Consumed(TEXT, Serdes.json()),
        Materialized("documents", key_serde=TEXT, value_serde=Serdes.json()))
    return builder.build()
"""

READER = """
import sys
from pyspark.sql import SparkSession
folder, *statements = sys.argv[1:]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = spark.config("spark.sql.warehouse.dir", folder).getOrCreate()
spark.sparkContext.setLogLevel("OFF")
for statement in statements:
    print("==", statement)
    try:
        for row in spark.sql(statement).collect():
            print(str(tuple(row)).replace('== ', ''))  # plans have it, and so has the next line
    except Exception as error:
        print("error", str(error).replace(chr(10), " "))
print("== table", *spark.table("counts").select("key", "value").collect())
spark.stop()
"""


@pytest.fixture
def stored(tmp_path: Path) -> StoredApp:
    """Its folder's name has to be escaped in SQL and in JSON."""
    app = StoredApp(tmp_path / 'it\'s "here"', CODE)
    for number in (1, 2):
        app.snapshot(task_of(app, "counts"), T + 1_000 * number, {"counts": [("a", ValueAndTimestamp(number, 5))]})
    order = app.app.builder("orders").value_serde
    assert order is not None
    orders = [("k", ValueAndTimestamp(order.deserialize(b'{"size": 3, "tags": ["x"]}'), 7))]
    app.snapshot(task_of(app, "orders"), T, {"orders": orders})
    app.snapshot(task_of(app, "documents"), T, {"documents": [("k", ValueAndTimestamp({"a": 1}, 7))]})
    return app


def task_of(app: StoredApp, store: str) -> str:
    return f"{app.app.part_with(store).id}_0"


def told(app: StoredApp, folder: Path, *statements: str) -> dict[str, list[str]]:
    """The lines that a session prints of each statement; MANIFEST stands for the place of the manifest."""
    program, place = folder / "reader.py", str(app.manifest).replace("'", "\\'")
    program.write_text(READER)
    code, said, errors = finished(
        subprocess.Popen(
            [
                sys.executable,
                str(program),
                str(folder / "tables"),
                *(each.replace("MANIFEST", place) for each in statements),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    )
    assert code == 0, errors[-4000:]
    _, *parts = said.split("== ")
    return {name.replace(place, "MANIFEST"): lines for name, *lines in map(str.splitlines, parts)}


ALL = "SELECT key, value FROM counts"
THEN = "SELECT key, value FROM counts_then"
BOTH = "SELECT new.key, old.value, new.value FROM counts_then old JOIN counts new ON old.key = new.key"
CHANGED = "SELECT key, change, old_value, new_value FROM counts_changed"
FIELDS = "SELECT key, value.size, value.tags[0] FROM orders WHERE value.size > 1"
DOCUMENTS = "SELECT key, value.a FROM documents"
VERSION, TIME = "SELECT * FROM counts VERSION AS OF 2", "SELECT * FROM counts TIMESTAMP AS OF '2023-11-14'"
OTHER, BESIDE = (
    "CREATE TEMPORARY VIEW other USING streamsapp OPTIONS (versionAsOf '2')",
    "SELECT * FROM counts WITH (asOf '2')",
)
NONE, OWN, NOWHERE = (
    "CREATE TABLE none USING streamsapp OPTIONS (manifest 'MANIFEST', store 'nothing')",
    "SELECT * FROM own",
    "CREATE TABLE nowhere USING streamsapp OPTIONS (manifest '/nowhere/app.yaml', store 'counts')",
)
ONE_KEY, SEVERAL = (
    "SELECT key, value FROM counts WHERE key = 'a' AND value > 1",
    "SELECT key FROM counts WHERE key IN ('b', 'c')",
)
DESCRIBED, DAMAGED = "DESCRIBE orders", "SELECT * FROM documents LIMIT 1"


def test_a_store_is_a_table_of_the_catalog(stored: StoredApp, tmp_path: Path) -> None:
    of = {each: f"CREATE TABLE {each} USING streamsapp OPTIONS (manifest 'MANIFEST', store '{each}'" for each in (
        "counts", "orders", "documents")}  # fmt: skip
    said = told(
        stored,
        tmp_path,
        f"{of['counts']})",
        f"{of['counts']}, asOf '2023-11-14T22:13:21Z')".replace("TABLE counts", "TABLE counts_then"),
        f"{of['counts']}, changes '2')".replace("TABLE counts", "TEMPORARY VIEW counts_changed"),
        f"{of['orders']})",
        f"{of['documents']}, schema 'a int')",
        "CREATE TABLE own (key string) USING streamsapp OPTIONS (manifest 'MANIFEST', store 'counts')",
        *(ALL, THEN, BOTH, CHANGED, FIELDS, DOCUMENTS, VERSION, TIME, OTHER, BESIDE, NONE, OWN, NOWHERE, DESCRIBED),
        *("SET spark.sql.python.filterPushdown.enabled=true", ONE_KEY, SEVERAL, f"EXPLAIN FORMATTED {ONE_KEY}"),
        "ALTER TABLE documents ALTER COLUMN key COMMENT 'streamsapp reads it'",
        DAMAGED,
    )
    assert said[ALL] == ["('a', 2)"]
    assert said[THEN] == ["('a', 1)"]
    assert said[BOTH] == ["('a', 1, 2)"]
    assert said[CHANGED] == ["('a', 'update', 1, 2)"]
    assert said[FIELDS] == ["('k', 3, 'x')"]
    assert said[DOCUMENTS] == ["('k', 1)"]
    assert "table Row(key='a', value=2)" in said
    # A source in Python is not asked for versions by Spark's own catalog.
    for statement in (VERSION, TIME):
        assert "[UNSUPPORTED_FEATURE.TIME_TRAVEL]" in said[statement][0]
    assert "option 'versionAsOf': is another source's; here it is 'asOf'" in said[OTHER][0]
    # Nor does it keep apart the options of two mentions of a table.
    assert "option 'asOf': a table of a catalog is read with the options that it was made with" in said[BESIDE][0]
    assert "option 'store': the application has no store 'nothing'" in said[NONE][0]
    assert "option 'manifest' is missing: " in said[OWN][0]
    assert "option 'manifest': /nowhere/app.yaml: cannot be read" in said[NOWHERE][0]
    # Spark hands filters over where a setting asks for that, and a plan shows the filters that the source applies.
    assert (said[ONE_KEY], said[SEVERAL]) == (["('a', 2)"], [])
    assert "BatchScan streamsapp" in said[f"EXPLAIN FORMATTED {ONE_KEY}"][0]
    assert "PushedFilters: [EqualTo(key,a)]" in said[f"EXPLAIN FORMATTED {ONE_KEY}"][0]
    assert said[DESCRIBED][0].startswith("('key', 'string', 'streamsapp reads {")
    assert said[DESCRIBED][1].startswith("('value', 'struct<size:bigint,tags:array<string>>', None)")
    assert "the comment of column key does not say what the table reads any more" in said[DAMAGED][0]
