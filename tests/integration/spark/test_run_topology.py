"""A topology in a PySpark program, over files that arrive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from spark_apps import finished
from streamsapp import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    Topology,
)
from streamsapp.serdes.murmur2 import partition_for
from streamsapp.testing import TopologyTestDriver

#: Each has sessions of Spark's, with Java processes of their own: a process that is killed takes its own along.
pytestmark = [pytest.mark.timeout(1100), pytest.mark.long]

FILES, RECORDS = 4, 60

PROGRAM = """
import sys, time
from pathlib import Path
from pyspark.sql import SparkSession
from streamsapp_spark import run_topology, typed_results
from test_run_topology import topology

folder, stop_at = Path(sys.argv[1]), int(sys.argv[2])
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
words = spark.readStream.schema("key string, value string, timestamp bigint")
words = words.option("maxFilesPerTrigger", 1).json(str(folder / "in"))

def run(inputs):
    return run_topology(topology(), inputs, application_id="app", state=(folder / "state").as_uri(), partitions=2)

def refused(**inputs):
    try:
        run(inputs)
    except Exception as error:
        print("refused", error, flush=True)

refused(words=words.drop("key"))
refused(words=words.selectExpr("1 AS key", "value", "timestamp"))
refused(words=spark.createDataFrame([("a", "b", 1)], "key string, value string, timestamp bigint"))
refused()
refused(words=words, others=words)

def write(rows, batch):
    rows.write.mode("overwrite").parquet(str(folder / "batches" / str(batch)))
    print("written", batch, flush=True)
    if batch == stop_at:
        time.sleep(600)

results = run({"words": words})
once = {"availableNow": True}
results.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "first")).trigger(
    **once).start().awaitTermination()
spark.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")  # of what is only called a timestamp
times = "CAST(timestamp_millis(timestamp) AS TIMESTAMP_NTZ) AS timestamp"
results = run({"words": words.selectExpr("key", "value", times)})
results.writeStream.option("checkpointLocation", str(folder / "second")).trigger(**once).start(
    str(folder / "sink")).awaitTermination()
for table in ("batches/*", "sink"):
    for row in spark.read.parquet(str(folder / table)).collect():
        value = int.from_bytes(row.value, "big")
        print("row", table, row.topic, row.key.decode(), value, round(row.timestamp.timestamp() * 1000))
typed = typed_results(topology(), run({"words": words}), "counts")
typed.writeStream.option("checkpointLocation", str(folder / "third")).trigger(**once).start(
    str(folder / "typed")).awaitTermination()
print("typed", spark.read.parquet(str(folder / "typed")).select("key", "value").schema.simpleString())
for row in spark.read.parquet(str(folder / "typed")).collect():
    print("row typed counts", row.key, row.value, round(row.timestamp.timestamp() * 1000))
spark.stop()
"""


def topology() -> Topology:
    """Counts behind a repartition topic, and windows that wait until they close."""
    text, long = Serdes.string(), Serdes.long()
    builder = StreamsBuilder()
    words = builder.stream("words", Consumed(text, text))
    by_value = words.map(lambda key, value: (value, key)).group_by_key(Grouped(text, text))
    by_value.count(Materialized("counts", key_serde=text, value_serde=long)).to_stream().to(
        "counts", Produced(text, long)
    )
    windows = words.group_by_key(Grouped(text, text)).windowed_by(TimeWindows.of(500, grace=0))
    closed = windows.count(Materialized("windows", key_serde=text)).suppress(Suppressed.until_window_closes())
    closed.to_stream(lambda windowed, count: windowed.key).to("windows", Produced(text, long))
    return builder.build()


@pytest.fixture
def records(tmp_path: Path) -> list[tuple[str, str, int]]:
    """Records in files, one for each batch, in the order of their times."""
    random = Random(5)
    made = [(f"k{random.randrange(4)}", f"v{random.randrange(9)}", 10 * number) for number in range(FILES * RECORDS)]
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        lines = [
            json.dumps(dict(zip(("key", "value", "timestamp"), each, strict=True)))
            for each in made[number * RECORDS : (number + 1) * RECORDS]
        ]
        path = tmp_path / "in" / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1_000_000 + number, 1_000_000 + number))  # Spark takes the oldest first
    return made


def expected(records: list[tuple[str, str, int]]) -> Counter[str]:
    """The results of tasks that have two partitions, as stream time is a task's own."""
    found: Counter[str] = Counter()
    by_task: dict[int, list[tuple[str, str, int]]] = {0: [], 1: []}
    for key, value, time in records:
        by_task[partition_for(key.encode(), 2)].append((key, value, time))
    for of in by_task.values():
        found += outcome(of, "windows")
    return found + outcome(records, "counts")


def outcome(records: list[tuple[str, str, int]], topic: str) -> Counter[str]:
    text, long = Serdes.string(), Serdes.long()
    config = StreamsConfig(application_id="app", bootstrap_servers="none:1")
    with TopologyTestDriver(topology(), config) as driver:
        words = driver.create_input_topic("words", text, text)
        for key, value, time in records:
            words.pipe_input(key, value, time)
        told = driver.create_output_topic(topic, text, long).read_records()
    return Counter(f"{topic} {each.key} {each.value} {each.timestamp}" for each in told)


def program(folder: Path, stop_at: int) -> subprocess.Popen[str]:
    (folder / "program.py").write_text(PROGRAM)
    own = {name: value for name, value in os.environ.items() if "PYSPARK" not in name}
    here = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, str(folder / "program.py"), str(folder), str(stop_at)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**own, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": here},
    )


def lines_until(process: subprocess.Popen[str], last: str) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        yield line.strip()
        if line.strip() == last:
            return


def test_a_query_that_was_killed_goes_on_exactly_and_gives_what_the_test_driver_gives(
    tmp_path: Path, records: list[tuple[str, str, int]]
) -> None:
    killed = program(tmp_path, stop_at=1)
    told = list(lines_until(killed, "written 1"))
    os.killpg(killed.pid, signal.SIGKILL)
    assert told[-1:] == ["written 1"], finished(killed)[2][-4000:]
    finished(killed)
    code, said, errors = finished(program(tmp_path, stop_at=-1), 600.0)
    assert code == 0, errors[-6000:]
    lines = said.splitlines()
    # A batch that was written and not committed is done once more.
    assert [line for line in lines if line.startswith("written")] == [f"written {n}" for n in range(1, FILES)]
    wanted = expected(records)
    for table in ("batches/*", "sink"):
        prefix = f"row {table} "
        assert Counter(line.removeprefix(prefix) for line in lines if line.startswith(prefix)) == wanted
    assert "typed struct<key:string,value:bigint>" in lines
    typed = Counter(line.removeprefix("row typed ") for line in lines if line.startswith("row typed "))
    assert typed == Counter({line: count for line, count in wanted.items() if line.startswith("counts")})
    faults = [line for line in lines if line.startswith("refused")]
    assert faults == [line for line in told if line.startswith("refused")]
    assert_named(
        faults,
        "inputs: words: its DataFrame has no column 'key'; select one: it has value, timestamp",
        "inputs: words: column 'key' is int, and has to be string or binary",
        "inputs: words: its DataFrame does not stream; make it with spark.readStream",
        "topic words is read by the topology and bound to nothing",
        "inputs: the topology reads no topic 'others'; it reads: words",
    )


def assert_named(faults: list[str], *words: str) -> None:
    assert len(faults) == len(words), faults
    for fault, wanted in zip(faults, words, strict=True):
        assert wanted in fault
