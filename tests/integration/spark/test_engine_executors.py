"""A query of Spark's on executors of a cluster: what happens to them, to the broker and to S3 changes no result."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from instances import Instances, eventually, produce
from kafka_cluster import Kafka
from s3_server import BUCKET, S3Server
from spark_apps import App, finished
from spark_counting import Counted, standalone, standalone_worker, status_of
from streamsapp.local.broker import EmbeddedBroker, free_port

#: Each has sessions of Spark's.
pytestmark = [pytest.mark.timeout(1800), pytest.mark.long]

#: Spark runs a task a second time as soon as it has run for a moment longer than the other one.
_SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.host": "127.0.0.1",
}
_OUTAGE = 30.0
#: Bytes on a disk that is full but for the directories of a worker.
_ROOM = 24 << 10


class Running:
    """A driver under way, which must go on."""

    def __init__(self, counted: Counted, folder: Path, master: str) -> None:
        self._counted = counted
        self._log = folder / "driver.log"
        self.port = free_port()
        self._process = counted.logging_driver(self._log, master=master, port=self.port)

    def results_come(self, count: int) -> None:
        """So many more words are counted."""
        self._counted.produce(count)
        self.until(self._counted.done, "results")

    def tasks_by_worker(self) -> list[int]:
        """How many tasks each worker has that has any."""
        tasks = status_of(self.port).get("tasks", ())
        return list(Counter(each["worker"] for each in tasks if each["worker"]).values())

    def until(self, holds: Callable[[], Any], what: str) -> None:
        def goes_on() -> Any:
            assert self._process.poll() is None, self._log.read_text()[-8000:]
            return holds()

        eventually(goes_on, what, 600.0)

    def end(self) -> None:
        """In good order."""
        self._process.terminate()
        assert self._process.wait(600) == 0, self._log.read_text()[-8000:]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.mark.parametrize("trigger", ["200ms", "continuous batches"])
def test_a_task_that_runs_twice_a_lost_executor_and_a_broker_that_is_away_change_no_result(
    there: Instances, own_broker: EmbeddedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trigger: str
) -> None:
    # Executors have the environment of the workers that start them.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    with ExitStack() as started:
        master = started.enter_context(standalone(tmp_path, 2))
        counted = Counted(there, "executors", trigger, conf=_SPECULATION)
        driver = Running(counted, tmp_path, master)
        started.callback(driver.kill)
        driver.results_come(200)

        counted.write(["slow"])
        driver.until(lambda: len(list(counted.processes.glob("slow-*"))) == 2, "the task on another executor")
        driver.results_come(100)

        counted.write(["deadly"])
        driver.results_come(100)
        assert (counted.processes / "killed").exists()

        assert own_broker.pid is not None
        os.kill(own_broker.pid, signal.SIGSTOP)
        time.sleep(_OUTAGE)
        os.kill(own_broker.pid, signal.SIGCONT)
        driver.results_come(100)
        driver.end()
        counted.check()


@pytest.mark.parametrize(("cores", "trigger"), [("", "200ms"), ("2", "200ms"), ("2", "continuous batches")])
def test_a_worker_that_comes_later_gets_its_part_of_the_tasks(
    there: Instances, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: str, trigger: str
) -> None:
    """If settings promise two cores, lanes for both are there from the beginning; else there are more of them when the
    worker has been there for a while."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    conf = {"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.driver.host": "127.0.0.1"}
    conf |= {"spark.cores.max": cores} if cores else {}
    with ExitStack() as started:
        master = started.enter_context(standalone(tmp_path, 1))
        counted = Counted(there, f"later{cores}", trigger, conf=conf)
        driver = Running(counted, tmp_path, master)
        started.callback(driver.kill)
        driver.results_come(100)

        assert driver.tasks_by_worker() == [4]
        started.enter_context(standalone_worker(tmp_path, master, 1))

        def divided() -> bool:
            counted.produce(4)
            return driver.tasks_by_worker() == [2, 2]

        driver.until(divided, "tasks on both workers")
        driver.results_come(100)
        driver.end()
        counted.check()


def test_a_cluster_whose_addresses_are_those_of_ipv6(
    there: Instances, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver is given its addresses as a pod has its own, without brackets."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    conf = {"spark.executor.memory": "512m", "spark.driver.host": "::1"}
    with ExitStack() as started:
        master = started.enter_context(standalone(tmp_path, 1, "::1"))
        counted = Counted(there, "families", "200ms", conf=conf)
        driver = Running(counted, tmp_path, master.replace("[", "").replace("]", ""))
        started.callback(driver.kill)
        driver.results_come(100)
        driver.end()
        counted.check()


def test_three_executors_share_the_tasks_evenly(
    instances: Instances, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    counted = Counted(instances, "three", "200ms", partitions=3)
    driver = Running(counted, tmp_path, "local-cluster[3,1,1024]")
    try:

        def divided() -> bool:
            counted.produce(6)
            return driver.tasks_by_worker() == [2, 2, 2]

        driver.until(divided, "two tasks on each executor")
        driver.results_come(100)
        assert driver.tasks_by_worker() == [2, 2, 2]
        driver.end()
        counted.check()
    finally:
        driver.kill()


def test_s3_that_is_away_is_told_at_the_driver_with_the_workers_name_and_changes_no_result(
    instances: Instances, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")  # its Java has these credentials in its environment
    with ExitStack() as started:
        s3 = started.enter_context(S3Server(tmp_path / "s3"))
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, (s3.credentials / name).read_text().strip())
        remote = {"url": f"s3://{BUCKET}/app", "endpoint": s3.endpoint}
        counted = Counted(instances, "objects", "200ms", remote_state=remote)
        driver = Running(counted, tmp_path, "local[2]")
        started.callback(driver.kill)
        driver.results_come(200)

        def told() -> Any:
            counted.produce(10)  # the word comes with a batch
            outages = status_of(driver.port).get("outages", ())
            return [each["message"] for each in outages if each["name"] == "remoteState"]

        s3.stop()
        back_at = time.monotonic() + _OUTAGE
        driver.results_come(100)
        driver.until(lambda: any(re.match(r"on \S+:\S+/worker-\d+: cannot ", each) for each in told()), "its name")
        time.sleep(max(0.0, back_at - time.monotonic()))
        s3.start()

        driver.until(lambda: not told(), "the end of the outage")
        driver.results_come(100)
        driver.end()
        counted.check()


_KEYS_AND_WINDOWS = """
from streamsapp import *

TEXT, LONG = Serdes.string(), Serdes.long()


def topology():
    builder = StreamsBuilder()
    words = builder.stream("{words}", Consumed(TEXT, TEXT)).group_by(lambda _, word: word, Grouped(TEXT, TEXT))
    counts = words.count(Materialized("counts", key_serde=TEXT, value_serde=LONG))
    counts.to_stream().to("{counts}", Produced(TEXT, LONG))
    windows = words.windowed_by(TimeWindows.of(1_000, grace=1_000_000))
    windows = windows.count(Materialized("windows", key_serde=TEXT, value_serde=LONG)).to_stream()
    windows.map(lambda at, count: (f"{{at.key}}@{{at.start_ms}}", count)).to("{windows}", Produced(TEXT, LONG))
    return builder.build()
"""


def test_three_processes_of_a_cluster_and_two_of_one_machine_make_the_same_state_and_results(
    instances: Instances, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Executors have the environment of the workers that start them.
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    words = kafka.create_topic("words", 6)
    some = [f"word{number % 37}" for number in range(4_000)]
    # Not in the past: the broker deletes records that are older than a week, and the results made of them, too.
    now = int(time.time()) * 1_000
    produce(kafka, words, [(b"%d" % at, word.encode(), now + at) for at, word in enumerate(some)])
    found = []
    for name, master, cores in (("local", "local[2]", 2), ("cluster", "local-cluster[3,1,1024]", 3)):
        topics = {each: kafka.create_topic(each, 6) for each in ("counts", "windows")}
        conf = {"spark.ui.enabled": "false", "spark.default.parallelism": str(cores)}
        spark = {"trigger": "availableNow", "maxRecordsPerBatch": 1_500, "conf": conf}
        code = _KEYS_AND_WINDOWS.format(words=words, **topics)
        app = App(instances, kafka.unique(name), code, spec={"engine": "spark", "spark": spark})
        state = str(app.folder / "spark")
        driver = app.command("run", "--master", master, "--http-port", "0", "--state-dir", state)
        status, _, errors = finished(driver, 800.0)  # three more of Java's processes start
        assert status == 0, errors[-6000:]
        results = {each: _values(kafka, topic) for each, topic in topics.items()}
        changelogs = {each: _values(kafka, f"{app.name}-{each}-changelog") for each in topics}
        found.append((results, {each: {key: of[-1] for key, of in log.items()} for each, log in changelogs.items()}))
    assert found[0] == found[1]
    results, states = found[0]
    counts = Counter(some), Counter(f"{word}@{now + at // 1_000 * 1_000}" for at, word in enumerate(some))
    for name, expected in zip(("counts", "windows"), counts, strict=True):
        rising = {key.encode(): list(range(1, count + 1)) for key, count in expected.items()}
        of_key = {key: [int.from_bytes(each, "big") for each in of] for (_, key), of in results[name].items()}
        assert of_key == rising
        assert len(states[name]) == len(expected)


def _values(kafka: Kafka, topic: str) -> dict[tuple[int, bytes], list[bytes]]:
    """The values of each key in each partition, in order."""
    found: dict[tuple[int, bytes], list[bytes]] = {}
    for each in kafka.read(topic):
        found.setdefault((each.partition() or 0, each.key() or b""), []).append(each.value() or b"")
    return found


@pytest.mark.parametrize("trigger", ["200ms", "continuous batches"])
def test_a_driver_that_hung_while_another_one_took_over_ends(
    instances: Instances, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, trigger: str
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")  # each has its own Java
    counted = Counted(instances, "hung", trigger)
    counted.produce(100)
    hung = counted.driver()
    with ExitStack() as running:
        running.callback(hung.communicate)
        running.callback(hung.kill)
        eventually(counted.done, "the first results", 600.0)
        os.kill(hung.pid, signal.SIGSTOP)
        heir = counted.driver(state=tmp_path / "heir")
        running.callback(heir.communicate)
        running.callback(heir.kill)
        counted.produce(100)
        eventually(counted.done, "results of the other one", 600.0)
        os.kill(hung.pid, signal.SIGCONT)
        counted.produce(100)
        code, _, errors = finished(hung)
        assert (code, "another driver of this application has started since" in errors) == (1, True), errors[-6000:]
        counted.produce(100)
        eventually(counted.done, "results of the one that is left", 600.0)
        heir.terminate()
        code, _, errors = finished(heir)
        assert code == 0, errors[-6000:]
        counted.check()


def test_a_disk_that_is_full_ends_the_driver_with_the_workers_name_and_loses_nothing(
    instances: Instances, small_disk: Path
) -> None:
    counted = Counted(instances, "full", "availableNow")
    counted.produce(200)
    filler = small_disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    os.truncate(filler, filler.stat().st_size - _ROOM)
    code, _, errors = finished(counted.driver(state=small_disk))
    assert code == 1, errors[-6000:]
    assert re.search(rf"on \S+:{re.escape(str(small_disk))}/\S+/worker-\d+: .*No space left on device", errors), errors[
        -6000:
    ]
    counted.catch_up()
    counted.check()
