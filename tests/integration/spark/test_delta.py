"""History from tables of Delta Lake and of Iceberg, each as of the version that is named, or else of the newest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from instances import Instances, produce
from kafka_archive import archive, forget
from kafka_cluster import Kafka
from lake_jars import DELTA, ICEBERG, WITHOUT_LAKE
from spark_apps import App, finished
from streamsapp.remote.bootstraps import Bootstraps
from streamsapp.remote.directory_store import DirectoryStore

#: Each command has a Java process of its own, with Delta Lake or Iceberg.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.long,
    WITHOUT_LAKE,
]

PROGRAM = """
from streamsapp import *

TEXT = Serdes.string()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{old}", Consumed(TEXT, TEXT)).merge(builder.stream("{new}", Consumed(TEXT, TEXT)))
    words.group_by_key(Grouped(TEXT, TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=Serdes.long()))
    return builder.build()
"""

#: The first version of one table is whole, the second one of the other. Prints the first version of each.
WRITER = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
kind, folder, jars, *topics = sys.argv[1:]
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", jars)
if kind == "delta":
    session = session.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    session = session.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    session = session.config("spark.databricks.delta.snapshotPartitions", "1")
else:
    session = session.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    session = session.config("spark.sql.catalog.lake.type", "hadoop")
    session = session.config("spark.sql.catalog.lake.warehouse", f"{folder}/iceberg")
spark = session.getOrCreate()
for topic, wholes in zip(topics, ((True, False), (False, True))):
    rows = spark.read.parquet(f"{folder}/{topic}").drop("topic")
    for whole in wholes:
        written = (rows if whole else rows.union(rows)).coalesce(1)
        if kind == "delta":
            written.write.format("delta").mode("overwrite").save(f"{folder}/delta/{topic}")
        else:
            written.writeTo(f"lake.`{topic}`").createOrReplace()
    if kind == "iceberg":
        snapshots = spark.table(f"lake.`{topic}`.snapshots").sort("committed_at").select("snapshot_id").collect()
        print(*(row[0] for row in snapshots))
    else:
        print(0, 1)
spark.stop()
"""


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_tables_of_a_lake_are_history_as_of_a_version(
    instances: Instances, kafka: Kafka, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars = ",".join(map(str, (DELTA if kind == "delta" else ICEBERG).folder().glob("*.jar")))
    topics = [kafka.create_topic(name, 1) for name in ("old", "new")]
    app = App(instances, kafka.unique("lake"), PROGRAM.replace("{old}", topics[0]).replace("{new}", topics[1]))
    words = [f"word{number % 5}" for number in range(30)]
    for topic in topics:
        produce(kafka, topic, [(word.encode(), b"x", 1_000 + n) for n, word in enumerate(words)])
        archive(kafka, topic, tmp_path / topic)
        forget(kafka, topic, 0)
    places = [f"{topic}={kind}:{tmp_path / kind / topic}" for topic in topics]

    code, _, errors = app.run("bootstrap", "--from", places[0], "--from", places[1])
    missing = {"delta": "Delta Lake", "iceberg": "Iceberg"}[kind]
    assert (code, f"--from: {places[0]} needs {missing}, which Spark does not have here" in errors) == (2, True), errors

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET")
    (old, _), (_, new) = written(tmp_path, kind, jars, topics)
    conf = ["--conf", f"spark.jars={jars}"]
    if kind == "iceberg":  # by its name in a catalog
        places[1] = f"{topics[1]}=iceberg:lake.`{topics[1]}`"
        catalog = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": f"{tmp_path}/iceberg"}
        conf += [part for name, of in catalog.items() for part in ("--conf", f"spark.sql.catalog.lake{name}={of}")]
    tables = ("--from", f"{places[0]}@v{old}", "--from", places[1])
    code, said, errors = finished(app.command("bootstrap", "--master", "local[2]", *tables, *conf), 600.0)
    assert code == 0, errors[-6000:]
    assert f"{2 * len(words)} records ({2 * len(words)} offsets of history)" in said
    begun = Bootstraps(DirectoryStore(app.objects), app.name).newest()
    assert begun is not None
    assert begun.begun().history == f"{places[0]}@v{old}, {places[1]}@v{new}"
    produce(kafka, topics[0], [(b"word0", b"x", 2_000)])
    instance = app.start()
    app.processed(*topics)
    instance.close(20)
    counted = {key: value.value for (_, key), value in app.stored()["counts"].items()}
    assert counted == Counter([*words, *words, "word0"])


def written(folder: Path, kind: str, jars: str, topics: Sequence[str]) -> list[list[str]]:
    """Writes the tables; the versions of each."""
    (folder / "writer.py").write_text(WRITER)
    command = [sys.executable, str(folder / "writer.py"), kind, str(folder), jars, *topics]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    code, said, errors = finished(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment),
        600.0,
    )
    assert code == 0, errors[-6000:]
    return [line.split() for line in said.splitlines()]
