"""The pages about Spark are programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import spark_pages
from instances import Instances, produce
from kafka_archive import archive, forget
from kafka_cluster import Kafka
from spark_apps import App, finished

pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]

#: With the stores that the pages read and write.
PROGRAM = """
from streamsapp import *

TEXT, LONG, JSON = Serdes.string(), Serdes.long(), Serdes.json()

def topology():
    builder = StreamsBuilder()
    payments = builder.stream("{payments}", Consumed(TEXT, LONG)).group_by_key(Grouped(TEXT, LONG))
    payments.reduce(lambda total, amount: total + amount, Materialized("balances", TEXT, LONG))
    payments.count(Materialized("counts", TEXT, LONG))
    builder.table("{orders}", Consumed(TEXT, JSON), Materialized("orders", TEXT, JSON))
    return builder.build()
"""


def test_the_blocks_of_the_pages_about_spark_run(instances: Instances, kafka: Kafka, tmp_path: Path) -> None:
    topics = {name: kafka.create_topic(name, 2) for name in ("words", "counts", "payments", "orders")}
    code = PROGRAM.replace("{payments}", topics["payments"]).replace("{orders}", topics["orders"])
    app = App(instances, kafka.unique("pages"), code)
    for folder in ("words", "state", "snapshots"):
        (tmp_path / folder).mkdir()
    records = [(f"k{number}", word, 1_000 + number) for number, word in enumerate(spark_pages.WORDS)]
    lines = [json.dumps({"key": key, "value": word, "timestamp": "2026-01-01T00:00:00Z"}) for key, word, _ in records]
    (tmp_path / "words" / "1.json").write_text("\n".join(lines))
    for move_on in (True, False):  # the archive has what Kafka has no more
        produce(kafka, topics["words"], [(key.encode(), word.encode(), time) for key, word, time in records])
        if move_on:
            archive(kafka, topics["words"], tmp_path / "archive-words")
            forget(kafka, topics["words"], 0, 1)

    arguments = [kafka.bootstrap_servers, str(tmp_path), str(app.manifest), topics["words"], topics["counts"]]
    command = [sys.executable, spark_pages.__file__, *arguments]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    code_of, _, errors = finished(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment), 600.0
    )
    assert code_of == 0, errors[-6000:]
