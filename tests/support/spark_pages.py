"""Runs the Python blocks of docs/pyspark.md and docs/spark.md as they stand, top to bottom, with other addresses.

Run by a test in a process of its own, as the program that the pages are about; ends with 0 if all of them work.
"""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kafka_cluster import Kafka

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)

#: The table that the page makes a store of.
BALANCES = {"alice": 12, "bob": 30}
WORDS = ["one", "two", "two"]


def run_page(name: str, program: dict[str, Any], instead: dict[str, str]) -> None:
    for block in _BLOCK.findall((_DOCS / name).read_text("utf-8")):
        if 'spark.table("balances")' in block:
            rows = [(account, balance, datetime.now(UTC)) for account, balance in BALANCES.items()]
            table = program["spark"].createDataFrame(rows, "account string, balance bigint, changed timestamp")
            table.createOrReplaceTempView("balances")
        text = block
        for there, here in instead.items():
            text = text.replace(there, here)
        exec(compile(text, name, "exec"), program)  # noqa: S102 - our own page


def main() -> None:
    servers, folder, manifest, words, counts = sys.argv[1:]
    program: dict[str, Any] = {"__name__": "__main__"}
    addresses = {
        "/data/": f"{folder}/",
        "/archive/": f"{folder}/archive-",
        "s3://bucket/word-count/state": Path(folder, "state").as_uri(),
        "s3://bucket/snapshots": Path(folder, "snapshots").as_uri(),
        "kafka:9092": servers,
        '"words"': json.dumps(words),
        '"counts"': json.dumps(counts),
        "'counts'": f"'{counts}'",
        '"words-of-kafka"': json.dumps(f"{words}-of-kafka"),
        "app.yaml": manifest,
        "partitions=8": "partitions=2",
    }
    run_page("pyspark.md", program, addresses)
    spark = program["spark"]
    (query,) = spark.streams.active
    query.processAllAvailable()
    query.stop()
    written = {
        (row.key.decode(), int.from_bytes(row.value, "big")) for row in spark.read.parquet(f"{folder}/counts").collect()
    }
    assert written == {("one", 1), ("two", 1), ("two", 2)}, written
    live = [(each.key(), int.from_bytes(each.value() or b"", "big")) for each in Kafka(servers).read(counts)]
    assert sorted(live) == [(b"one", 2), (b"two", 3), (b"two", 4)], live

    read = {"app.yaml": manifest, "2026-11-22T10:00": datetime.now(UTC).isoformat()}
    run_page("spark.md", program, read)
    assert program["table"].collect() == []
    columns = ["key", "change", "old_value", "new_value", "timestamp", "task", "offset"]
    assert program["changed"].load().columns == columns
    assert program["changed"].load().collect() == []
    balances = spark.read.format("streamsapp").options(manifest=manifest, store="balances").load()
    assert {row.key: row.value for row in balances.collect()} == BALANCES
    spark.stop()


if __name__ == "__main__":
    main()
