"""A fault before Spark works leaves the application as it was, and the error has words of its own."""

from __future__ import annotations

import json
import signal
import socket
from pathlib import Path

import pytest

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from spark_apps import App, finished
from streamsapp.remote.bootstraps import TABLE, VERSION, BootstrapBegun, Bootstraps
from streamsapp.remote.directory_store import DirectoryStore

pytestmark = pytest.mark.timeout(1100)

PROGRAM = """
import threading
from pathlib import Path
from streamsapp import *

TEXT = Serdes.string()
MARKER = Path("{marker}")

def wait_once(key, value):
    if not MARKER.exists():
        MARKER.touch()
        threading.Event().wait()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT)).peek(wait_once)
    words.group_by_key(Grouped(TEXT, TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=Serdes.long()))
    return builder.build()
"""


class Waiting:
    """An application whose first record waits for ever, unless an earlier run has waited already."""

    def __init__(self, instances: Instances, kafka: Kafka) -> None:
        self.words = kafka.create_topic("words", 1)
        self.marker = instances.directory / kafka.unique("marker")
        code = PROGRAM.replace("{words}", self.words).replace("{marker}", str(self.marker))
        self.app = App(instances, kafka.unique("waiting"), code)
        produce(kafka, self.words, [(b"a", b"x", 1_000), (b"b", b"x", 2_000)])

    @property
    def has_begun(self) -> bool:
        return bool(list(self.app.objects.rglob("*-begun.json")))


def topics_of(app: App) -> list[str]:
    """Returns the internal topics that there are."""
    return [
        topic for topic in app.instances.kafka.admin.list_topics(timeout=60).topics if topic.startswith(f"{app.name}-")
    ]


@pytest.mark.long
def test_a_bootstrap_does_not_go_on_with_a_table_that_is_not_written_whole(waiting: Waiting) -> None:
    app = waiting.app
    begun = BootstrapBegun(VERSION, "2026-01-01T00:00:00.000Z", TABLE, (), {})
    Bootstraps(DirectoryStore(app.objects), app.name).begin(1, begun)
    code, _, errors = app.run("bootstrap")
    assert (code, topics_of(app)) == (2, [])
    assert "run `streamsapp reset`, and then write it again, with df.write" in errors


@pytest.fixture
def waiting(instances: Instances, kafka: Kafka) -> Waiting:
    return Waiting(instances, kafka)


def test_a_java_or_a_master_that_is_not_there_is_named_and_nothing_has_begun(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    monkeypatch.delenv("PYSPARK_GATEWAY_SECRET")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with socket.socket() as taken:  # while it is bound and does not listen, nothing answers there
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        runs = [
            (("--master", f"spark://127.0.0.1:{port}"), {}, 1, f"nothing answers at 127.0.0.1:{port} ("),
            (("--master", "lokal[2]"), {}, 2, "--master: expected local[*], local[N], spark://host:port, "),
            ((), {"PATH": str(tmp_path)}, 2, "Spark needs Java 17 or newer, and there is no `java` on PATH"),
            (("--conf", "spark.driver.memory=1k"), {}, 1, "Too small maximum heap"),
        ]
        for options, environment, expected, fault in runs:
            code, _, errors = finished(waiting.app.command("bootstrap", *options, **environment))
            (told,) = [
                line for line in errors.splitlines() if not line.startswith("{")
            ]  # beside our log nothing of Spark's
            assert (code, fault in told) == (expected, True), errors
            assert not waiting.has_begun
            assert topics_of(waiting.app) == []
    waiting.marker.touch()
    waiting.app.start()  # an instance may begin: nothing is half made
    waiting.app.processed(waiting.words)


FEEDS_BACK = """
from streamsapp import *

TEXT = Serdes.string()

def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    words.group_by_key(Grouped(TEXT, TEXT)).count()
    words.filter(lambda key, value: False).to("{words}", Produced(TEXT, TEXT))
    return builder.build()
"""


def test_an_application_that_is_refused_gets_no_internal_topics(instances: Instances, kafka: Kafka) -> None:
    words = kafka.create_topic("words", 1)
    app = App(instances, kafka.unique("feeds-back"), FEEDS_BACK.replace("{words}", words))
    code, _, errors = app.run("bootstrap")
    assert (code, f"topic {words} is written and read by this application" in errors) == (2, True), errors
    assert topics_of(app) == []


def test_an_interrupted_bootstrap_says_how_to_go_on_and_goes_on_with_the_same_offsets_only(waiting: Waiting) -> None:
    app = waiting.app
    process = app.command("bootstrap", "--master", "local[2]")
    eventually(waiting.marker.exists, "a worker that works", 600.0)
    process.send_signal(signal.SIGINT)
    code, _, errors = finished(process)
    assert code == 1
    (told,) = [line for line in errors.splitlines() if '"level":"INFO"' not in line]
    # A call to Java that is broken off would be reported too, and might leave the session behind in the Java process.
    assert told.startswith("interrupted: the same command goes on where it was")
    assert waiting.has_begun
    code, _, errors = app.run("bootstrap", "--from", f"parquet:{app.folder}")
    assert (code, "with kafka; say so again" in errors) == (2, True), errors
    other, unknown = (json.dumps({waiting.words: offsets}) for offsets in ({"0": 1}, {"0": 2, "7": 1}))
    for until, fault in ((other, f"--until: 1 for {waiting.words}-0, and the bootstrap began at "),
                         (unknown, f"--until: {waiting.words}-7 is not an input of the application")):  # fmt: skip
        code, _, errors = app.run("bootstrap", "--until", until)
        assert (code, fault in errors) == (2, True), errors
    assert "2 records" in app.bootstrap()
    for until, fault in ((other, f"--until: 1 for {waiting.words}-0, and the bootstrap was done at "),
                         (unknown, f"--until: {waiting.words}-7 is not an input of the application")):  # fmt: skip
        code, _, errors = app.run("bootstrap", "--until", until)
        assert (code, fault in errors) == (2, True), errors
    same = json.dumps({waiting.words: {"0": 2}})
    assert "nothing to do" in app.bootstrap("--until", same)
