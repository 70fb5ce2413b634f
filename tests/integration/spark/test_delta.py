"""History from tables of Delta Lake, each as of the version that is named, or else of the newest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyspark
import pytest

from instances import Instances, produce
from kafka_archive import archive, forget
from kafka_cluster import Kafka
from spark_apps import App, finished
from streamsapp.local.downloads import Artifact
from streamsapp.local.jars import Jars
from streamsapp.remote.bootstraps import Bootstraps
from streamsapp.remote.directory_store import DirectoryStore

#: Each command has a Java process of its own, with Delta Lake.
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.long,
    pytest.mark.skipif(
        not pyspark.__version__.startswith("4.0."),
        reason="Delta Lake has no release for this Spark; tests/integration/release/test_oldest_versions.py runs this",
    ),
]

#: Delta Lake: the libraries that Spark 4.0 does not bring itself.
_DELTA = Jars(
    "delta-4.0.0",
    [
        Artifact(
            "io/delta/delta-spark_2.13/4.0.0/delta-spark_2.13-4.0.0.jar",
            "538511702aae0ef6973a6a70af3d4543c9009f8edbed786a00737e2d3cd7f04e",
            7_727_374,
        ),
        Artifact(
            "io/delta/delta-storage/4.0.0/delta-storage-4.0.0.jar",
            "9bdb9fb450f1e119eba53feb427f331b0d09072d26485b8273883ad72c9a2e1d",
            69_732,
        ),
    ],
)

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

#: The first version of one table is whole, the second one of the other.
WRITER = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
folder, jars, *topics = sys.argv[1:]
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", jars)
session = session.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
session = session.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
spark = session.config("spark.databricks.delta.snapshotPartitions", "1").getOrCreate()
for topic, wholes in zip(topics, ((True, False), (False, True))):
    rows = spark.read.parquet(f"{folder}/{topic}").drop("topic")
    for whole in wholes:
        written = rows if whole else rows.union(rows)
        written.coalesce(1).write.format("delta").mode("overwrite").save(f"{folder}/delta-{topic}")
spark.stop()
"""


@pytest.fixture(scope="session")
def jars() -> str:
    """Delta Lake, as ``spark.jars`` takes it."""
    return ",".join(map(str, _DELTA.folder().glob("*.jar")))


def test_tables_of_delta_lake_are_history_as_of_a_version(
    instances: Instances, kafka: Kafka, tmp_path: Path, jars: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [kafka.create_topic(name, 1) for name in ("old", "new")]
    app = App(instances, kafka.unique("lake"), PROGRAM.replace("{old}", topics[0]).replace("{new}", topics[1]))
    words = [f"word{number % 5}" for number in range(30)]
    for topic in topics:
        produce(kafka, topic, [(word.encode(), b"x", 1_000 + n) for n, word in enumerate(words)])
        archive(kafka, topic, tmp_path / topic)
        forget(kafka, topic, 0)
    places = [f"{topic}=delta:{tmp_path / f'delta-{topic}'}" for topic in topics]
    tables = ("--from", f"{places[0]}@v0", "--from", places[1])

    code, _, errors = app.run("bootstrap", *tables)
    assert (code, f"--from: {places[1]} needs Delta Lake, which Spark does not have here" in errors) == (2, True), (
        errors
    )

    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET")
    (tmp_path / "writer.py").write_text(WRITER)
    command = [sys.executable, str(tmp_path / "writer.py"), str(tmp_path), jars, *topics]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    code, _, errors = finished(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment),
        600.0,
    )
    assert code == 0, errors[-6000:]

    options = ("--master", "local[2]", *tables, "--conf", f"spark.jars={jars}")
    code, said, errors = finished(app.command("bootstrap", *options), 600.0)
    assert code == 0, errors[-6000:]
    assert f"{2 * len(words)} records ({2 * len(words)} offsets of history)" in said
    begun = Bootstraps(DirectoryStore(app.objects), app.name).newest()
    assert begun is not None
    assert begun.begun().history == f"{places[0]}@v0, {places[1]}@v1"
    produce(kafka, topics[0], [(b"word0", b"x", 2_000)])
    instance = app.start()
    app.processed(*topics)
    instance.close(20)
    counted = {key: value.value for (_, key), value in app.stored()["counts"].items()}
    assert counted == Counter([*words, *words, "word0"])
