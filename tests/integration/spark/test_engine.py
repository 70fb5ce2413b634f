"""An application runs as a query of Spark's: its results and its state, also when its processes are killed."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import batch_language
from instances import Instances, end_offsets, eventually, produce
from spark_apps import App, finished
from spark_counting import Counted, status_of
from streamsapp.local.broker import free_port
from streamsapp.manifest.entrypoint import read_app
from streamsapp.manifest.to_config import to_config
from streamsapp.runtime.client_state import ClientState

#: Each has sessions of Spark's.
pytestmark = pytest.mark.timeout(1100)


def test_an_application_goes_from_instances_to_spark_and_back(instances: Instances) -> None:
    counted = Counted(instances, "there-and-back", "availableNow")
    app = counted.app
    counted.produce(500)
    instance = app.start()
    eventually(lambda: sum(map(len, counted.results().values())) == 500, "results of the instance")
    assert instance.close(30)
    counted.produce(500)
    counted.catch_up()
    counted.check()
    counted.produce(500)
    instance = app.start()
    eventually(lambda: sum(map(len, counted.results().values())) == 1_500, "results of the instance")
    assert instance.close(30)
    counted.check()
    stored = {key: value.value for (_, key), value in app.stored(1)["counts"].items()}
    assert stored == dict(counted.expected)


@pytest.mark.long
def test_a_driver_does_not_start_beside_instances(instances: Instances) -> None:
    counted = Counted(instances, "beside", "availableNow")
    counted.produce(10)
    instance = counted.app.start()
    eventually(lambda: sum(map(len, counted.results().values())) == 10, "results of the instance")
    code, _, errors = finished(counted.driver())
    assert code == 2, errors[-6000:]
    assert f"instances of {counted.app.name} are running: its consumer group has members" in errors
    assert errors.rstrip().endswith("stop them before the driver starts: only one engine at a time may commit")
    assert instance.state is ClientState.RUNNING


@pytest.mark.long
def test_a_query_that_has_caught_up_does_nothing_and_one_that_finds_poison_says_so(instances: Instances) -> None:
    counted = Counted(instances, "twice", "availableNow")
    counted.produce(300)
    counted.catch_up()
    counted.check()
    before = counted.ends()
    report = counted.app.folder / "report"
    said = counted.catch_up("--report", str(report))
    assert counted.ends() == before
    assert report.read_bytes() == b'{"inputLag":0}'
    assert " to RUNNING" not in said, "a task was opened"
    produce(counted.kafka, counted.words, [(b"k", b"poison", 10_000)])
    code, _, errors = finished(counted.driver())
    assert code == 1
    assert re.search(r"task 0_[01].*it is poisonous", errors), errors[-6000:]
    counted.check()


@pytest.mark.long
def test_rows_offsets_lag_and_state_that_spark_shows_are_those_of_the_broker(instances: Instances) -> None:
    events = instances.directory / "events"
    events.mkdir()
    kept = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    counted = Counted(instances, "shown", "availableNow", conf=kept)
    counted.write(f"word{number}" for number in range(300))
    counted.catch_up()
    counted.check()
    told = [json.loads(line) for path in events.rglob("events_*") for line in path.read_text().splitlines()]
    batches = [each["progress"] for each in told if each["Event"].endswith("QueryProgressEvent")]
    assert {len(each["sources"]) for each in batches} == {1}
    rows = {each["batchId"]: each["sources"][0]["numInputRows"] for each in batches}
    assert sum(rows.values()) == 2 * 300, "each word is read twice: as it came, and grouped"
    last = max((each for each in batches if rows[each["batchId"]]), key=lambda each: each["batchId"])
    read = json.loads(last["sources"][0]["endOffset"])[counted.words]
    committed = {each: at for each, (at, _) in counted.kafka.committed(counted.app.name, counted.words).items()}
    assert read == {str(partition): at for partition, at in committed.items()}
    seen = _observed(last)
    assert seen["lag"] == end_offsets(counted.kafka, counted.words) - sum(committed.values()) == 0
    assert seen["state_rows"] == len(counted.state()) == 300
    assert seen["state_bytes"] > 0
    assert 0 < seen["commit_ms"] <= last["durationMs"]["addBatch"]


@pytest.mark.long
def test_rows_of_many_batches_that_spark_shows_add_up_to_the_records_that_were_written(instances: Instances) -> None:
    events = instances.directory / "events"
    events.mkdir()
    kept = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    counted = Counted(instances, "many", "200ms", conf=kept)
    driver = counted.driver()
    try:
        for _ in range(8):
            counted.produce(25)
            eventually(counted.done, "the results of a few batches", 600.0)
        driver.terminate()
        code, _, errors = finished(driver)
        assert code == 0, errors[-6000:]
    finally:
        driver.kill()
        driver.communicate()
    counted.check()
    told = [json.loads(line) for path in events.rglob("events_*") for line in path.read_text().splitlines()]
    batches = [each["progress"] for each in told if each["Event"].endswith("QueryProgressEvent")]
    ran = {each["batchId"]: each for each in batches}.values()
    assert len([each for each in ran if each["sources"][0]["numInputRows"]]) > 5
    seen = [_observed(each) for each in ran if each["sources"][0]["numInputRows"]]
    assert sum(each["records"] for each in seen) == 2 * counted.produced, (
        "each word is read twice: as it came, and grouped"
    )
    assert sum(each["sources"][0]["numInputRows"] for each in ran) == 2 * counted.produced
    assert sum(each["outputs"] for each in seen) == 2 * counted.produced
    rows = 0
    for each in sorted(ran, key=lambda each: int(each["batchId"])):
        if each["sources"][0]["numInputRows"]:
            rows += each["sources"][0]["numInputRows"]
            read = sum(json.loads(each["sources"][0]["endOffset"])[counted.words].values())
            # Batches have read all words once; words that they have not read a second time, grouped, still wait.
            assert _observed(each)["lag"] == read - (rows - read), "with what the batch itself has passed on"


@pytest.mark.long
def test_workers_that_commit_by_themselves_are_shown_as_what_they_do_and_end_soon(
    instances: Instances, tmp_path: Path
) -> None:
    events = instances.directory / "events"
    events.mkdir()
    kept = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    counted = Counted(instances, "reading-on", "continuous batches", conf=kept)
    port, log = free_port(), tmp_path / "log"
    driver = counted.logging_driver(log, master="local[2]", port=port)
    try:
        for _ in range(8):
            counted.produce(25)
            eventually(counted.done, "results", 600.0)
        eventually(lambda: _processed(port) == 2 * counted.produced, "figures in the course of a batch")
        eventually(lambda: not any(task["inputLag"] for task in status_of(port)["tasks"]), "no lag")
        driver.terminate()
        assert driver.wait(60) == 0, log.read_text()[-6000:]
    finally:
        driver.kill()
        driver.wait()
    counted.check()
    told = [json.loads(line) for path in events.rglob("events_*") for line in path.read_text().splitlines()]
    batches = [each["progress"] for each in told if each["Event"].endswith("QueryProgressEvent")]
    ran = [each for each in {each["batchId"]: each for each in batches}.values() if each["sources"][0]["numInputRows"]]
    assert sum(each["sources"][0]["numInputRows"] for each in ran) == 2 * counted.produced
    assert sum(_observed(each)["records"] for each in ran) == 2 * counted.produced


def _processed(port: int) -> int:
    return sum(task["processedRecords"] for task in status_of(port).get("tasks", ()))


@pytest.mark.long
def test_all_of_the_language_goes_from_spark_to_instances_and_back_with_windows_and_joins_open(
    instances: Instances,
) -> None:
    kafka = instances.kafka
    names = (*batch_language.INPUTS, *batch_language.RESULTS, *batch_language.LAST_RESULTS)
    topics = {name: kafka.create_topic(name, 1) for name in names}
    program = f"{Path(batch_language.__file__).read_text()}\n\ndef topology():\n    return language({topics!r})\n"
    spec = {
        "engine": "spark",
        "spark": {"trigger": "availableNow", "maxRecordsPerBatch": 90, "conf": {"spark.ui.enabled": "false"}},
        "errors": {"processing": "dead_letter", "deadLetterTopic": topics["failed"]},
    }
    app = App(instances, kafka.unique("language"), program, spec=spec)
    records = list(batch_language.records(300))

    def feed(since: int, until: int) -> None:
        for name in batch_language.INPUTS:
            some = [(key.encode(), value.encode(), at) for of, key, value, at in records[since:until] if of == name]
            produce(kafka, topics[name], some)

    def catch_up() -> None:
        state = str(app.folder / "spark")
        code, _, errors = app.run("run", "--master", "local[2]", "--http-port", "0", "--state-dir", state)
        assert code == 0, errors[-6000:]

    def read(name: str) -> list[tuple[str, str]]:
        return [((it.key() or b"").decode(), (it.value() or b"").decode()) for it in kafka.read(topics[name])]

    feed(0, 150)
    catch_up()
    feed(150, 250)
    instance = app.start()
    app.processed(topics["events"], topics["marks"])
    assert instance.close(60)
    feed(250, len(records))
    catch_up()
    expected = batch_language.expected(topics, to_config(read_app(app.manifest)[0]), 300)
    assert all(expected.values())
    eventually(lambda: len(read("closed")) >= len(expected["closed"]), "the last results")
    assert batch_language.results(read) == expected


@pytest.mark.long
@pytest.mark.parametrize("trigger", ["200ms", "continuous batches"])
def test_workers_and_drivers_that_are_killed_lose_nothing_and_double_nothing(
    instances: Instances, monkeypatch: pytest.MonkeyPatch, trigger: str
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")  # a driver that is killed ends its own Java, and no other
    counted = Counted(instances, "killed", trigger)
    over = threading.Event()

    def go_on() -> None:
        while not over.wait(0.05):
            counted.produce(20)

    def grows() -> Callable[[], bool]:
        """Says whether there are more results than there were."""
        more = len(counted.kafka.read(counted.counts)) + 201
        return lambda: counted.has(more)

    writer = threading.Thread(target=go_on)
    writer.start()
    drivers = [counted.driver()]
    try:
        eventually(grows(), "the first results", 600.0)
        for _ in range(2):
            for each in list(counted.processes.iterdir()):
                each.unlink()
                with suppress(ProcessLookupError):
                    os.kill(int(each.name), signal.SIGKILL)
            eventually(grows(), "results after workers were killed", 600.0)
        drivers[-1].kill()
        drivers.append(counted.driver())
        eventually(grows(), "results after the driver was killed", 600.0)
        over.set()
        writer.join()
        eventually(counted.done, "the rest", 600.0)
        drivers[-1].terminate()
        code, _, errors = finished(drivers[-1])
        assert code == 0, errors[-6000:]
        counted.check()
    finally:
        over.set()
        for driver in drivers:
            driver.kill()
            driver.communicate()


def _observed(progress: dict[str, Any]) -> dict[str, int]:
    """Spark's observed metric of a batch, as its event has it."""
    row = progress["observedMetrics"]["streamsapp"]
    return dict(zip((field["name"] for field in row["schema"]["fields"]), row["values"], strict=True))
