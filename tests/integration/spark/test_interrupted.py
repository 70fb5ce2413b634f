"""Workers and executors that die, code that fails, applications that run: no half a state, and none twice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from instances import TIMEOUT, Instances, counts_per_key, eventually, produce
from kafka_cluster import Kafka
from spark_apps import App
from streamsapp.errors import StateStoreError

#: Each has several sessions of Spark's.
pytestmark = pytest.mark.timeout(1100)

PARTITIONS = 2
RECORDS = 600

#: Counts words behind a repartition. The first time that a certain count is reached, something happens.
PROGRAM = """
import os, signal
from pathlib import Path
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()
MARKER = Path("{marker}")


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def happen(key, value):
    if value == 10 and not MARKER.exists():
        MARKER.touch()
        {happens}


def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT))
    counts = words.group_by(lambda key, value: value, Grouped(key_serde=TEXT, value_serde=TEXT)).count(
        Materialized("counts", key_serde=TEXT, value_serde=LONG))
    counts.to_stream().peek(happen).to("{out}", Produced(key_serde=TEXT, value_serde=LONG))
    return builder.build()
"""

KILLS_WORKER = "os.kill(os.getpid(), signal.SIGKILL)"
#: Worker, daemon, executor.
KILLS_EXECUTOR = "os.kill(parent(parent(os.getpid())), signal.SIGKILL)"


class Counting:
    """An application that counts, with input."""

    def __init__(self, instances: Instances, kafka: Kafka, happens: str) -> None:
        self.kafka = kafka
        self.words, self.out = (kafka.create_topic(name, PARTITIONS) for name in ("words", "out"))
        code = PROGRAM
        self.marker = instances.directory / "marker"
        for field, text in (("marker", self.marker), ("happens", happens), ("words", self.words), ("out", self.out)):
            code = code.replace(f"{{{field}}}", str(text))
        self.app = App(instances, kafka.unique("counting"), code)
        self.truth: Counter[str] = Counter()
        self.feed()

    def feed(self) -> None:
        words = [f"word{number % 30}" for number in range(RECORDS)]
        start = 1_000 + self.truth.total()
        produce(self.kafka, self.words, [(b"%d" % n, word.encode(), start + n) for n, word in enumerate(words)])
        self.truth.update(words)

    def counted(self) -> dict[str, int]:
        """Returns the counts that an instance begins with, or makes of the words."""
        app = self.app
        instance = app.start()
        app.processed(self.words)
        app.processed(f"{app.name}-counts-repartition")
        instance.close(30)
        return {key: value.value for (_, key), value in app.stored(len(app.started) - 1)["counts"].items()}


@pytest.mark.parametrize(
    ("happens", "master"),
    [(KILLS_WORKER, "local[2]"), pytest.param(KILLS_EXECUTOR, "local-cluster[2,1,1024]", marks=pytest.mark.long)],
)
def test_a_task_that_is_lost_is_done_again_with_the_same_result(
    instances: Instances, kafka: Kafka, happens: str, master: str
) -> None:
    counting = Counting(instances, kafka, happens)
    counting.app.bootstrap(master=master)
    assert counting.marker.exists()
    counting.feed()
    assert counting.counted() == counting.truth
    live = {(message.key(), message.value()) for message in kafka.read(counting.out)}
    assert len(live) == RECORDS  # of each later record one update, and none of history


def test_goes_on_after_a_failure_and_nothing_starts_before(instances: Instances, kafka: Kafka) -> None:
    counting = Counting(instances, kafka, "raise ValueError('not today')")
    app = counting.app
    code, _, errors = app.run("bootstrap", "--master", "local[2]")
    assert code == 1
    assert "ValueError at node KSTREAM-PEEK-" in errors.splitlines()[-1]
    assert "not today" in errors.splitlines()[-1]
    finished = {path.name: path.stat().st_mtime_ns for path in app.objects.rglob("bootstrap/*-0_*.json")}
    assert len(finished) == PARTITIONS
    instance = app.start()
    refused = instance.wait(TIMEOUT)
    assert isinstance(refused, StateStoreError)
    assert "was begun and is not done: run `streamsapp bootstrap` again" in str(refused)
    instance.close(10)
    counting.feed()  # later than the offsets that are fixed
    said = app.bootstrap()
    assert f"({RECORDS:,} offsets of history)" in said
    again = {path.name: path.stat().st_mtime_ns for path in app.objects.rglob("bootstrap/*-0_*.json")}
    assert again == finished
    assert "nothing to do" in app.bootstrap()
    told = json.loads(app.bootstrap("-o", "json"))
    assert (told["applicationId"], told["offsets"], told["seconds"]) == (app.name, RECORDS, None)
    assert {each["task"] for each in told["tasks"]} >= {f"0_{number}" for number in range(PARTITIONS)}
    assert counting.counted() == counting.truth


@pytest.mark.long
def test_refuses_an_application_that_runs_or_has_run(instances: Instances, kafka: Kafka, tmp_path: Path) -> None:
    counting = Counting(instances, kafka, "pass")
    app = counting.app
    instance = app.start()
    eventually(lambda: instance.state.name == "RUNNING", "an instance that runs")
    code, _, errors = app.run("bootstrap")
    assert code == 2
    assert f"{app.name} is running: its consumer group has members" in errors
    app.processed(counting.words)
    instance.close(20)
    code, _, errors = app.run("bootstrap")
    assert code == 2
    assert f"{app.name} has run before: it has committed offsets" in errors
    code, _, errors = app.run("bootstrap", "--until", str(tmp_path / "none.json"))
    assert code == 2


@pytest.mark.long
def test_tells_what_is_wrong_with_offsets(instances: Instances, kafka: Kafka) -> None:
    counting = Counting(instances, kafka, "pass")
    app = counting.app
    path = app.folder / "until.json"
    for document, fault in (
        ({counting.words: {"0": 1}}, f"--until: {counting.words}-1 is missing; -1 stands for its end"),
        ({counting.words: {"0": 1, "1": 9_999}}, f"--until: 9999 is not an offset of {counting.words}-1"),
        ({"other": {"0": 1}}, "--until: other-0 is not an input of the application; it reads:"),
    ):
        path.write_text(json.dumps(document))
        code, _, errors = app.run("bootstrap", "--until", str(path))
        assert code == 2
        assert fault in errors
    assert not list(app.objects.rglob("*-begun.json"))


@pytest.mark.long
def test_the_results_of_history_are_written_if_asked_for(instances: Instances, kafka: Kafka) -> None:
    counting = Counting(instances, kafka, "pass")
    counting.app.bootstrap("--emit")
    updates = counts_per_key(kafka.read(counting.out))
    assert {key.decode(): counts for key, counts in updates.items()} == {
        word: list(range(1, count + 1)) for word, count in counting.truth.items()
    }
