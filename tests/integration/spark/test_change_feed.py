"""The changes of a store as a streaming source: typed, committed, each once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from spark_apps import App, finished
from streamsapp.errors import ConfigError, StreamsError, TopicError
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.local.broker import EmbeddedBroker
from streamsapp.manifest import load
from streamsapp_spark.datasource import StreamsAppDataSource, _columns
from streamsapp_spark.tables.application import ManifestPlace, StoredApplication, stored_application
from streamsapp_spark.tables.feed import FeedReader

pytestmark = pytest.mark.timeout(1100)

PARTITIONS = 2

PROGRAM = """
from dataclasses import dataclass
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()

@dataclass
class Seen:
    words: list[str]
    last: int

def add(key, value, seen):
    if value == "forget":
        return None
    return Seen([*seen.words, value][-2:], len(value))

class Keep(Processor):
    def init(self, context):
        self.lasting = context.get_state_store("lasting")

    def process(self, record):
        self.lasting.put(record.key, record.value)

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    grouped = words.group_by_key(Grouped(TEXT, TEXT))
    grouped.count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    grouped.aggregate(lambda: Seen([], 0), add, Materialized("seen", key_serde=TEXT, value_serde=Serdes.json(Seen)))
    grouped.windowed_by(TimeWindows.of(25, grace=1000)).count(Materialized("windows", key_serde=TEXT))
    grouped.windowed_by(SessionWindows.of(15)).count(Materialized("sessions", key_serde=TEXT, retention=1000))
    words.to_table(Materialized("versions", key_serde=TEXT, value_serde=TEXT, versioned=1000))
    builder.table("{things}", Consumed(TEXT, LONG), Materialized("things", key_serde=TEXT, value_serde=LONG))
    builder.add_state_store(Stores.key_value_store_with_ttl_builder(
        Stores.persistent_key_value_store("lasting"), TEXT, TEXT, ttl=100_000))
    words.process(Keep, "lasting")
    return builder.build()
"""


def started(broker: EmbeddedBroker, folder: Path, name: str) -> tuple[App, str, str]:
    kafka = Kafka(broker.bootstrap_servers)
    words, things = kafka.create_topic("words", PARTITIONS), kafka.create_topic("things", PARTITIONS)
    program = PROGRAM.replace("{words}", words).replace("{things}", things)
    return App(Instances(kafka, folder), kafka.unique(name), program), words, things


RECORDS = [(b"a", b"x", 10), (b"b", b"yy", 20), (b"a", b"zzz", 30), (b"b", b"forget", 40), (b"a", b"x", 50)]
THINGS = [(b"t", (7).to_bytes(8, "big"), 5), (b"u", (8).to_bytes(8, "big"), 6), (b"t", None, 9)]


@pytest.fixture(scope="module")
def app(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> App:
    """One that has run and was closed; tests read it, and damage topics of one store each."""
    app, words, things = started(broker, tmp_path_factory.mktemp("feed"), "feed")
    instance = app.start()
    for topic, records in ((words, RECORDS), (things, THINGS)):
        for each in records:
            produce(app.instances.kafka, topic, [each])
            app.processed(topic)  # one commit has one record of each key
    instance.close()
    return app


def stored(app: App) -> StoredApplication:
    return stored_application(ManifestPlace.of(load(app.manifest), app.folder))


def reader(app: App, store: str, **options: str) -> FeedReader:
    given = {"manifest": str(app.manifest), "store": store, **options}
    source = StreamsAppDataSource(given)
    columns = _columns(stored(app), given)
    schema = from_arrow_schema(pa.schema(list(columns._types.items())))
    assert isinstance(schema, StructType)
    made = source.streamReader(schema)
    assert isinstance(made, FeedReader)
    return made


def batch(feed: FeedReader, start: dict[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a batch, in the order of each partition."""
    read = (rows for partition in feed.partitions(start, end) for rows in feed.read(partition))
    return [row for rows in read for row in rows.to_pylist()]


def everything(feed: FeedReader) -> list[dict[str, Any]]:
    return batch(feed, feed.initialOffset(), feed.latestOffset())


def shown(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Without the place of each."""
    return sorted((tuple(each.values())[:-2] for each in rows), key=lambda row: (row[0], row[-1] or 0, row[1] or 0))


def test_changes_have_the_types_of_the_serdes_and_deletions_have_no_value(app: App) -> None:
    assert shown(everything(reader(app, "counts"))) == [
        ("a", 1, 10), ("a", 2, 30), ("a", 3, 50), ("b", 1, 20), ("b", 2, 40)]  # fmt: skip
    seen = {"a": ({"words": ["x"], "last": 1}, {"words": ["x", "zzz"], "last": 3}, {"words": ["zzz", "x"], "last": 1})}
    assert shown(everything(reader(app, "seen"))) == [
        ("a", seen["a"][0], 10),
        ("a", seen["a"][1], 30),
        ("a", seen["a"][2], 50),
        ("b", {"words": ["yy"], "last": 2}, 20),
        ("b", None, 40),
    ]
    assert shown(everything(reader(app, "things"))) == [("t", 7, 5), ("t", None, 9), ("u", 8, 6)]


def test_stores_of_every_kind_have_changes(app: App) -> None:
    windows = shown(everything(reader(app, "windows")))
    assert windows == [
        ("a", 0, 25, 1, 10),
        ("a", 25, 50, 1, 30),
        ("a", 50, 75, 1, 50),
        ("b", 0, 25, 1, 20),
        ("b", 25, 50, 1, 40),
    ]
    sessions = [row[:4] for row in shown(everything(reader(app, "sessions")))]
    assert sorted(sessions) == [
        ("a", 10, 10, 1),
        ("a", 30, 30, 1),
        ("a", 50, 50, 1),
        ("b", 20, 20, 1),
        ("b", 40, 40, 1),
    ]
    texts = [("a", "x", 10), ("a", "zzz", 30), ("a", "x", 50), ("b", "yy", 20), ("b", "forget", 40)]
    assert shown(everything(reader(app, "versions"))) == texts
    # It keeps no time of its own.
    lasting = sorted(row[:2] for row in shown(everything(reader(app, "lasting"))))
    assert lasting == sorted(row[:2] for row in texts)


def test_a_feed_goes_on_where_it_was_and_at_offsets_that_are_named(app: App) -> None:
    feed = reader(app, "counts")
    start, end = feed.initialOffset(), feed.latestOffset()
    assert feed.latestOffset() == end
    rows = batch(feed, start, end)
    assert batch(feed, end, reader(app, "counts").latestOffset()) == []
    assert batch(reader(app, "counts"), start, end) == rows  # as Spark runs a batch again
    ends = reader(app, "counts")
    ends.prepareForTriggerAvailableNow()
    assert [ends.latestOffset(start, None)["offsets"] for _ in range(2)] == [end["offsets"]] * 2
    task, offset = rows[-1]["task"], rows[-1]["offset"]
    number = task.rpartition("_")[2]
    named = json.dumps({number: offset, str(1 - int(number)): 0})
    only = everything(reader(app, "counts", startingOffsets=named))
    assert [row for row in only if row["task"] == task] == rows[-1:]
    for text in ("latest", "[1]", '{"0": -1}', '{"x": 1}'):
        with pytest.raises(ConfigError, match="option 'startingOffsets': "):
            reader(app, "counts", startingOffsets=text)
    with pytest.raises(ConfigError, match="has no partition 9; it has 2"):
        everything(reader(app, "counts", startingOffsets='{"9": 0}'))
    with pytest.raises(ConfigError, match="option 'asOf': chooses snapshots"):
        reader(app, "counts", asOf="1")
    odd: list[Any] = [{"offsets": {"0": "1"}}, {"offsets": {"-1": 1}}, [], {"offsets": {"0": -1}}]
    for each in odd:
        with pytest.raises(StreamsError, match="the checkpoint has "):
            feed.partitions(each, end)


def test_a_transaction_that_is_open_or_was_aborted_is_not_read(app: App) -> None:
    kafka, topic = app.instances.kafka, f"{app.name}-versions-changelog"
    before = everything(reader(app, "versions"))
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.unique("other")})
    producer.init_transactions(60)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(topic, key=b"a", value=b"never", partition=partition, timestamp=60)
    producer.flush(60)
    assert everything(reader(app, "versions")) == before
    producer.abort_transaction(60)
    assert everything(reader(app, "versions")) == before
    producer.begin_transaction()
    producer.produce(topic, key=b"c", value=b"new", partition=0, timestamp=70)
    producer.commit_transaction(60)
    (row,) = [row for row in everything(reader(app, "versions")) if row not in before]
    assert (row["key"], row["value"], row["valid_from"]) == ("c", "new", 70)


def test_a_record_that_is_no_entry_is_named(app: App) -> None:
    kafka, topic = app.instances.kafka, f"{app.name}-windows-changelog"
    kafka.produce(topic, [(b"short", b"x")], partition=1)
    with pytest.raises(
        StreamsError, match=rf"record {topic}-1@\d+ is no entry of store windows: .*'startingOffsets', '\{{"
    ):
        everything(reader(app, "windows"))


def test_records_that_kafka_has_deleted_stop_the_feed(app: App) -> None:
    kafka, topic = app.instances.kafka, f"{app.name}-sessions-changelog"
    feed = reader(app, "sessions")
    end = feed.latestOffset()
    ends = end["offsets"]
    partition = next(int(number) for number, offset in ends.items() if offset > 1)
    begun = {**end, "offsets": {**ends, str(partition): 1}}
    assert batch(feed, begun, end)
    asked = kafka.admin.delete_records([TopicPartition(topic, partition, 2)])
    for future in asked.values():
        future.result(60)
    with pytest.raises(
        StreamsError, match=f"{topic}-{partition} begins with offset 2, and 1 is the next one to read: Kafka deleted"
    ):
        feed.partitions(begun, end)
    everything(feed)  # from the first record that there is


def test_a_query_that_was_away_for_longer_than_deletions_are_kept_is_refused(app: App) -> None:
    kafka, topic = app.instances.kafka, f"{app.name}-seen-changelog"
    feed = reader(app, "seen")
    end = feed.latestOffset()
    begun = {**end, "offsets": dict.fromkeys(end["offsets"], 0), "at": end["at"] - 1_000}
    assert batch(feed, begun, end)
    admin = TopicAdmin({"bootstrap.servers": kafka.bootstrap_servers})
    admin.set(topic, "delete.retention.ms", "500")
    admin.close()
    away = reader(app, "seen")
    assert away.partitions(end, {**end, "at": end["at"] + 1}) == []  # nothing was written meanwhile
    with pytest.raises(StreamsError, match=r"deletions of .* may be gone: Kafka keeps them for delete.retention.ms"):
        away.partitions(begun, end)
    fresh = {**begun, "at": round(time.time() * 1000)}
    planned = away.partitions(fresh, end)
    time.sleep(0.6)
    with pytest.raises(StreamsError, match=r"deletions of .* may be gone"):
        list(away.read(planned[0]))


def test_a_changelog_that_was_made_anew_is_another_one(app: App) -> None:
    kafka, topic = app.instances.kafka, f"{app.name}-lasting-changelog"
    feed = reader(app, "lasting")
    end = feed.latestOffset()
    for future in kafka.admin.delete_topics([topic]).values():
        future.result(60)
    eventually(lambda: topic not in kafka.admin.list_topics(timeout=60).topics, "the deletion")
    with pytest.raises(TopicError, match=r"store lasting has no changelog yet: topic .* does not exist"):
        reader(app, "lasting").latestOffset()
    for future in kafka.admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(60)
    eventually(lambda: len(kafka.partitions_of(topic)) == PARTITIONS, "the topic")
    with pytest.raises(StreamsError, match="was deleted and made anew since then; begin with a new checkpoint"):
        feed.partitions(end, reader(app, "lasting").latestOffset())


# ---- in Spark ------------------------------------------------------------------------------------------------------

TWICE = """
import sys
from confluent_kafka import Producer
from pyspark.sql import SparkSession
folder, manifest, servers, topic = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
changes = spark.readStream.format("streamsapp").options(manifest=manifest, store="things").load()

def run():
    query = changes.writeStream.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True)
    query.start(folder + "/sink").awaitTermination()
    for row in spark.read.parquet(folder + "/sink").collect():
        print("row", row.task, row.offset, row.key, row.value, flush=True)

run()
print("again", flush=True)
producer = Producer({"bootstrap.servers": servers})
producer.produce(topic, key=b"v", value=(9).to_bytes(8, "big"), partition=0)
producer.produce(topic, key=b"v", value=None, partition=0)
producer.flush()
run()
spark.stop()
"""


def changelog_of_things(app: App) -> list[str]:
    """Its committed records, as the programs here print them."""
    made, part = [], stored(app).part_with("things").id
    for each in app.instances.kafka.read(f"{app.name}-things-changelog"):
        key, value = each.key(), each.value()
        assert key is not None
        number = None if value is None else int.from_bytes(value, "big")
        made.append(f"row {part}_{each.partition()} {each.offset()} {key.decode()} {number}")
    return sorted(made)


def test_a_query_of_spark_goes_on_where_its_checkpoint_is(app: App, tmp_path: Path) -> None:
    kafka, things = app.instances.kafka, f"{app.name}-things-changelog"
    (tmp_path / "twice.py").write_text(TWICE)
    arguments = [str(tmp_path), str(app.manifest), kafka.bootstrap_servers, things]
    before = changelog_of_things(app)
    code, said, errors = finished(
        subprocess.Popen(
            [sys.executable, str(tmp_path / "twice.py"), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    )
    assert code == 0, errors[-4000:]
    first, _, second = said.partition("again\n")
    assert sorted(first.splitlines()) == before
    after = changelog_of_things(app)
    assert sorted(second.splitlines()) == after
    assert len(after) == len(before) + 2


FOLLOWS = """
import sys
from pyspark.sql import SparkSession
folder, manifest, last = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
changes = spark.readStream.format("streamsapp").options(manifest=manifest, store="things").load()
query = changes.writeStream.option("checkpointLocation", folder + "/checkpoint")
if last == "last":
    query = query.trigger(availableNow=True)
query.start(folder + "/sink").awaitTermination()
for row in spark.read.parquet(folder + "/sink").collect():
    print("row", row.task, row.offset, row.key, row.value, flush=True)
spark.stop()
"""


class Following:
    """A query that writes changes to files, with its driver: Python, Java and workers, in a group of processes."""

    def __init__(self, app: App, folder: Path, spark_home: Path) -> None:
        (folder / "follows.py").write_text(FOLLOWS)
        self._command = [sys.executable, str(folder / "follows.py"), str(folder), str(app.manifest)]
        self._checkpoint = folder / "checkpoint"
        self._log = folder / "log"
        self._home = spark_home
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        own = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY_")}
        environment = {**own, "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(self._home)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._command, "goes on"], stdout=log, stderr=log, env=environment, start_new_session=True
            )

    def batches(self, kind: str) -> set[int]:
        """The batches in the checkpoint: in ``offsets`` when they are planned, in ``commits`` when they are done."""
        return {int(path.name) for path in (self._checkpoint / kind).glob("[0-9]*") if path.name.isdecimal()}

    def kill_in_a_batch(self, after: int) -> int:
        """Kills all with a batch under way that is not one of the first ``after``; returns its number."""
        assert self._process is not None
        until = time.monotonic() + 600
        while self._process.poll() is None and time.monotonic() < until:
            if max(self.batches("offsets") - self.batches("commits"), default=-1) >= after:
                os.killpg(self._process.pid, signal.SIGSTOP)
                under_way = self.batches("offsets") - self.batches("commits")
                if under_way:
                    self.kill()
                    return max(under_way)
                os.killpg(self._process.pid, signal.SIGCONT)
            time.sleep(0.01)
        raise AssertionError(self._log.read_text()[-4000:])

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def last(self) -> list[str]:
        """Returns the rows of the files once a last query has caught up."""
        process = subprocess.Popen(
            [*self._command, "last"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
        code, said, errors = finished(process)
        assert code == 0, errors[-4000:]
        return sorted(said.splitlines())


def test_a_query_that_is_killed_in_its_first_batch_and_in_a_later_one_loses_and_doubles_no_change(
    app: App, java: Path, tmp_path: Path
) -> None:
    kafka, topic = app.instances.kafka, f"{app.name}-things-changelog"
    following, over = Following(app, tmp_path, java.with_name("home")), threading.Event()

    def go_on() -> None:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": kafka.unique("writer")})
        producer.init_transactions(60)
        number = 0
        while not over.wait(0.05):
            number += 1
            producer.begin_transaction()
            for partition in range(PARTITIONS):
                value = None if number % 10 == 5 else number.to_bytes(8, "big")
                producer.produce(topic, key=b"k%d" % (number % 100), value=value, partition=partition)
            if number % 7:
                producer.commit_transaction(60)
            else:
                producer.flush(60)
                producer.abort_transaction(60)

    writer = threading.Thread(target=go_on)
    writer.start()
    try:
        following.start()
        assert following.kill_in_a_batch(0) == 0
        following.start()
        eventually(lambda: 0 in following.batches("commits"), "the first batch, once more", 600.0)
        killed = following.kill_in_a_batch(2)
    finally:
        following.kill()
        over.set()
        writer.join()
    rows = following.last()
    assert rows == changelog_of_things(app)
    assert {0, killed} < following.batches("commits")
    assert len(rows) == len(set(rows)) > 100
