"""A driver that is killed leaves commits that no snapshot has: no reader gets less than that without a warning, and the
next run writes the missing part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from instances import Instances, eventually
from spark_apps import finished
from spark_counting import Counted

#: Each has sessions of Spark's. `make test` has its parts: a run that ends when snapshots have all (unit tests of the
#: micro-batches), and readers of snapshots that do not have it (test_freshness.py).
pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]

READER = """
import sys
from pyspark.sql import SparkSession
manifest, *options = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
for option in ("", *options):
    table = spark.read.format("streamsapp").option("manifest", manifest).option("store", "counts")
    try:
        table = (table.option(*option.split("=")) if option else table).load()
        print("counted", table.groupBy().sum("value").collect()[0][0])
    except Exception as error:
        print("error", str(error).replace(chr(10), " "))
spark.stop()
"""


#: The remedies of an audit: a driver that may run is no member of the group, and a run that catches up ends by itself.
MAY_RUN = "start it once more, and end it in good order; then audit it again"
NOTHING_RUNS = "(with trigger availableNow it ends by itself), and audit it again"


def faults(counted: Counted) -> list[str]:
    """The reason that keeps each of both tasks from being audited."""
    code, said, errors = counted.app.run("audit", "-o", "json")
    assert code == 1, errors[-4000:]
    found: list[str] = json.loads(said)["faults"]
    assert [fault.partition(" has no snapshot")[0] for fault in found] == ["task 1_0", "task 1_1"]
    return found


def read(counted: Counted, java: Path, *options: str) -> list[str]:
    """The lines that a program prints which adds up all counts, without and with each of the options. The output of its
    part in Spark's workers is in the log of Java."""
    program = counted.app.folder / "reader.py"
    program.write_text(READER)
    said_before = len(java.read_bytes())
    code, said, errors = finished(
        subprocess.Popen(
            [sys.executable, str(program), str(counted.app.manifest), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    )
    assert code == 0, errors[-4000:]
    warned = b"do not have all that is committed" in java.read_bytes()[said_before:]
    assert warned == ("behind=warn" in options)
    return said.splitlines()


def test_what_a_killed_driver_has_committed_is_published_by_a_run_without_new_records(
    instances: Instances, java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(instances, "unpublished", "200ms", remote_state={"snapshotIntervalSeconds": 3600})
    with monkeypatch.context() as alone:
        alone.delenv("PYSPARK_GATEWAY_PORT")  # a driver that is killed ends its own Java only
        driver = counted.driver()
    try:
        counted.produce(100)
        eventually(counted.done, "the results", 600.0)
    finally:
        driver.kill()
        driver.communicate()
    assert [fault.endswith(MAY_RUN) for fault in faults(counted)] == [True, True]
    manifest = json.loads(counted.app.manifest.read_text())
    manifest["spec"]["spark"]["trigger"] = "availableNow"
    counted.app.manifest.write_text(json.dumps(manifest))
    assert [fault.endswith(NOTHING_RUNS) for fault in faults(counted)] == [True, True]
    refused, empty = read(counted, java, "behind=warn")
    assert "2 of 2 tasks do not have all that is committed: task 1_0: it has no snapshot: at offset 0 of the" in refused
    assert "no task of store counts has a snapshot" in empty

    counted.catch_up()
    counted.check()
    assert read(counted, java) == ["counted 100"]
