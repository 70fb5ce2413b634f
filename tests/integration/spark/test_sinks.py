"""Results are rows of tables, each once, also when drivers are killed at any moment."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

import lake_rows
from instances import Instances, end_offsets, eventually
from kafka_cluster import Kafka
from lake_jars import DELTA, ICEBERG, WITHOUT_LAKE
from sink_program import AFTER, BEFORE, BETWEEN, HANGING
from sinks import Lake, shown, stands_still, write
from spark_apps import finished
from spark_counting import Counted, child_of, status_of
from streamsapp.local.broker import free_port

#: Each has sessions of Spark's.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(autouse=True)
def own_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Spark calls for each batch, and a Java process calls one driver."""
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET")
    monkeypatch.setenv("TMPDIR", str(tmp_path))


def test_a_batch_whose_driver_was_killed_between_its_files_is_there_once_and_nothing_uncommitted(
    kafka: Kafka, tmp_path: Path
) -> None:
    lake = Lake(kafka, kafka.create_topic("results", 2), tmp_path / "lake")
    write(kafka, lake.topic, 95)
    write(kafka, lake.topic, 10, commit=False)
    code, errors = lake.run(BETWEEN, options={"maxRecordsPerFile": 10})
    assert code == -signal.SIGKILL, errors[-6000:]
    assert (lake.planned(), lake.committed(), len(lake.rows())) == ({"0"}, set(), 30)
    write(kafka, lake.topic, 7)  # they are of the next batch
    lake.adds(options={"maxRecordsPerFile": 10})
    lake.check()
    rows = lake.rows()
    assert len(rows) == 102
    time = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    first = {"key": "k0", "value": 0, "timestamp": time, "partition": 0, "offset": 0, "headers": None}
    assert list(rows[0].items()) == list(first.items())
    assert not list((lake.path / "_staging").glob("*"))
    shutil.rmtree(lake.path / "_checkpoint")
    code, errors = lake.run()
    assert code == 2
    assert f"spec.spark.sinks[0].path: {lake.path} has rows, and {lake.path}/_checkpoint, which says" in errors
    lake.check()


@pytest.mark.long
@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_a_batch_whose_driver_was_killed_around_it_is_there_once(kafka: Kafka, tmp_path: Path, when: str) -> None:
    lake = Lake(kafka, kafka.create_topic("results", 2), tmp_path / "lake")
    write(kafka, lake.topic, 95)
    code, errors = lake.run(when)
    assert code == -signal.SIGKILL, errors[-6000:]
    assert (lake.planned(), lake.committed(), len(lake.rows())) == ({"0"}, set(), {BEFORE: 0, AFTER: 95}[when])
    lake.adds()
    lake.check()


@pytest.mark.long
def test_a_topic_that_lost_records_or_has_others_than_the_serdes_stops_the_sink(kafka: Kafka, tmp_path: Path) -> None:
    lake = Lake(kafka, kafka.create_topic("results", 2), tmp_path / "lake")
    write(kafka, lake.topic, 10)
    lake.adds()
    kafka.produce(lake.topic, [(b"k", b"short")], partition=1)
    code, errors = lake.run()
    assert code == 1
    assert "spec.spark.sinks[0]: sink lake failed: " in errors
    assert f"record {lake.topic}-1@" in errors
    assert "its value does not fit the column, bigint" in errors
    assert len(lake.rows()) == 10


@pytest.mark.long
@WITHOUT_LAKE
@pytest.mark.parametrize("when", [BEFORE, AFTER])
def test_a_table_of_delta_lake_has_a_batch_once_whose_driver_was_killed_around_it(
    kafka: Kafka, tmp_path: Path, when: str
) -> None:
    lake = Lake(kafka, kafka.create_topic("results", 2), tmp_path / "lake", "delta")
    write(kafka, lake.topic, 95)
    code, errors = lake.run()
    assert code == 2
    assert "spec.spark.sinks[0].format: needs Delta Lake, which Spark does not have here" in errors
    lake.conf = (f"spark.jars={','.join(map(str, DELTA.folder().glob('*.jar')))}",)
    code, errors = lake.run(when)
    assert code == -signal.SIGKILL, errors[-6000:]
    rows = in_delta(lake.path)
    assert (lake.planned(), lake.committed(), len(rows)) == ({"0"}, set(), {BEFORE: 0, AFTER: 95}[when])
    write(kafka, lake.topic, 7)
    lake.adds()
    lake.check(in_delta(lake.path))


#: A catalog named ``lake``.
ICEBERG_CATALOG = "spark.sql.catalog.lake"


@pytest.fixture
def iceberg(kafka: Kafka, tmp_path: Path) -> Lake:
    table = {"table": "lake.db.results"}
    lake = Lake(kafka, kafka.create_topic("results", 2), tmp_path / "lake", "iceberg", more=table)
    write(kafka, lake.topic, 95)
    code, errors = lake.run()
    assert code == 2
    assert "spec.spark.sinks[0].format: needs Iceberg, which Spark does not have here" in errors
    lake.conf = (
        f"spark.jars={','.join(map(str, ICEBERG.folder().glob('*.jar')))}",
        f"{ICEBERG_CATALOG}=org.apache.iceberg.spark.SparkCatalog",
        f"{ICEBERG_CATALOG}.type=hadoop",
        f"{ICEBERG_CATALOG}.warehouse={tmp_path / 'warehouse'}",
    )
    return lake


@pytest.mark.long
@WITHOUT_LAKE
@pytest.mark.parametrize("when", [BEFORE, BETWEEN, AFTER])
def test_a_table_of_iceberg_has_a_batch_once_whose_driver_was_killed_around_it(iceberg: Lake, when: str) -> None:
    code, errors = iceberg.run(when)
    assert code == -signal.SIGKILL, errors[-6000:]
    assert (iceberg.planned(), iceberg.committed()) == ({"0"}, set())
    assert len(in_iceberg(iceberg) if when == AFTER else ()) == {AFTER: 95}.get(when, 0)
    write(iceberg.kafka, iceberg.topic, 7)
    iceberg.adds()
    iceberg.check(in_iceberg(iceberg))
    shutil.rmtree(iceberg.path / "_checkpoint")
    code, errors = iceberg.run()
    assert code == 2
    assert f"lake.db.results has rows, and {iceberg.path}/_checkpoint, which says" in errors


@pytest.mark.long
@WITHOUT_LAKE
def test_a_driver_that_stood_still_while_another_one_added_its_batch_to_iceberg_adds_nothing(iceberg: Lake) -> None:
    hanging = iceberg.start(HANGING)
    try:
        stands_still(hanging)
        iceberg.adds()
        iceberg.check(in_iceberg(iceberg))
    finally:
        os.kill(hanging.pid, signal.SIGCONT)
    finished(hanging)
    iceberg.check(in_iceberg(iceberg))


def in_iceberg(lake: Lake) -> list[dict[str, Any]]:
    """The rows of its table, as Spark reads them in a session of its own."""
    command = [sys.executable, lake_rows.__file__, lake.more["table"], *lake.conf]
    read = subprocess.run(command, capture_output=True, text=True, check=False)
    assert read.returncode == 0, read.stderr[-6000:]
    rows: list[dict[str, Any]] = json.loads(read.stdout.splitlines()[-1])
    return rows


def in_delta(folder: Path) -> list[dict[str, Any]]:
    """The rows of the files that the table's own log names."""
    files: set[str] = set()
    for entry in sorted((folder / "_delta_log").glob("*.json")):
        for action in map(json.loads, entry.read_text().splitlines()):
            files |= {str(folder / action["add"]["path"])} if "add" in action else set()
            files -= {str(folder / action["remove"]["path"])} if "remove" in action else set()
    rows: list[dict[str, Any]] = ds.dataset(sorted(files)).to_table().to_pylist() if files else []
    return rows


class Sunk(Counted):
    """Counts of words, in a topic and in a table."""

    def __init__(self, instances: Instances, name: str, trigger: str, every: str = "1m") -> None:
        super().__init__(instances, name, trigger)
        self.lake = Lake(self.kafka, self.counts, instances.directory / f"{name}-lake")
        path = str(self.lake.path)
        sink = {"name": "lake", "topic": self.counts, "format": "parquet", "path": path, "trigger": every}
        manifest = json.loads(self.app.manifest.read_text())
        manifest["spec"]["spark"]["sinks"] = [sink]
        self.app.manifest.write_text(json.dumps(manifest))

    def adds_a_batch(self, driver: subprocess.Popen[str]) -> None:
        """Waits until another one is planned."""
        before = self.lake.planned()
        eventually(lambda: self.lake.planned() != before or driver.poll() is not None, "a batch", 600.0)


@pytest.mark.long
def test_a_table_has_all_results_when_a_run_that_catches_up_ends(instances: Instances) -> None:
    sunk = Sunk(instances, "caught-up", "availableNow")
    sunk.produce(100)
    sunk.catch_up()
    sunk.check()
    sunk.lake.check()
    assert len(sunk.lake.rows()) == 100


@pytest.mark.long
@pytest.mark.parametrize("trigger", ["500ms", "continuous batches"])
def test_a_row_is_there_once_after_drivers_were_killed_while_results_came(instances: Instances, trigger: str) -> None:
    """Kills come while a batch is being written: after its plan, and before Spark's checkpoint has its end."""
    chance = random.Random(trigger)
    sunk = Sunk(instances, f"killed-{trigger[0]}", trigger, "100ms")
    for _ in range(2):
        with running(sunk) as driver:
            sunk.produce(200)
            sunk.adds_a_batch(driver)
            time.sleep(chance.random())
            while sunk.lake.planned() == sunk.lake.committed() and driver.poll() is None:
                sunk.produce(10)
            assert driver.poll() is None, finished(driver)[2][-6000:]
        there = shown(sunk.lake.rows())
        assert len(set(there)) == len(there)
        assert set(there) <= set(sunk.lake.records())
    port = free_port()
    with running(sunk, "--http-port", str(port)) as driver:
        eventually(lambda: len(sunk.lake.rows()) == sunk.produced or driver.poll() is not None, "all rows", 600.0)
        eventually(partial(all_read, sunk, port), "the offsets of the sink", 60.0)
        driver.terminate()
        code, _, errors = finished(driver)
        assert code == 0, errors[-6000:]
    sunk.check()
    sunk.lake.check()


def all_read(sunk: Sunk, port: int) -> bool:
    """Returns whether the driver's status has the topic read to its end."""
    read = [sum(each["offsets"].values()) for each in status_of(port).get("sinks", ())]
    return read == [end_offsets(sunk.kafka, sunk.counts)]


@contextmanager
def running(sunk: Sunk, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A driver that is killed in the end, and Java with it, which would go on with its batch."""
    driver = sunk.driver(*options)
    try:
        yield driver
    finally:
        if driver.poll() is None:
            java = child_of(driver.pid, "java")
            driver.kill()
            os.kill(java, signal.SIGKILL)
        driver.communicate()
