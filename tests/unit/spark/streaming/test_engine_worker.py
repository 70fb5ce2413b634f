"""A worker that cannot do its work reports its name and the reason to the driver. Real connections; no Spark and no
broker."""

from __future__ import annotations

import gc
import importlib
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from zipfile import ZipFile
from zipimport import zipimporter

import pytest
from confluent_kafka import KafkaError, KafkaException
from pyspark import TaskContext

from streamsapp.clock import SystemClock
from streamsapp.config import RemoteStateConfig
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.manifest.load import decode
from streamsapp.record import TaskId
from streamsapp.runtime.client_state import ClientState
from streamsapp.runtime.micro_batches.model import LaneOrder, LaneReport, LaneTaskReport
from streamsapp_spark.programs.manifest import ManifestProgram
from streamsapp_spark.sinks.figures import SinkFigures
from streamsapp_spark.streaming import rows as rows_module, view, worker
from streamsapp_spark.streaming.channel import Server
from streamsapp_spark.streaming.job import FIGURES, EngineJob
from streamsapp_spark.streaming.memory import ExecutorMemory
from streamsapp_spark.streaming.worker import pull


class Driver:
    """Notes the reports of workers, and has an order for the first worker that asks."""

    def __init__(self, serve: Callable[[Connection], None] | None = None) -> None:
        self.heard: list[tuple[Any, ...]] = []
        self.order: LaneOrder | None = None
        self.server = Server("127.0.0.1", serve or self._serve)

    def _serve(self, connection: Connection) -> None:
        while True:
            self.heard.append(request := connection.recv())
            if request[0] == "done":
                connection.send((told(0, 1), False))
                continue
            order, self.order = self.order, None
            connection.send(order)

    def job(self, folder: Path, application: str = "app") -> EngineJob:
        app = decode(
            {
                "apiVersion": "streamsapp.dev/v1alpha1",
                "kind": "StreamsApp",
                "metadata": {"name": application},
                "spec": {"topology": {"entrypoint": "app:topology"}, "kafka": {"bootstrapServers": "127.0.0.1:1"}},
            }
        )
        (folder / "app.py").write_text("from streamsapp import *\ntopology = StreamsBuilder()\ntopology.stream('in')\n")
        program = ManifestProgram.of(app, folder, {"state_dir": folder / "state"})
        memory = ExecutorMemory(1, 0)
        return EngineJob.of(application, program, {"in": 1}, self.server.address, memory)

    def close(self) -> None:
        self.server.close()
        held = (*worker._applications.values(), *worker._leaving)  # which a worker keeps for as long as it lives
        worker._applications.clear()
        worker._leaving.clear()
        closed = [each.close() for each in held]
        assert all(closed)


@pytest.fixture
def driver() -> Iterator[Driver]:
    made = Driver()
    yield made
    made.close()


def test_a_driver_that_is_closed_is_not_there_any_more() -> None:
    listening = []
    for _ in range(30):  # its thread may happen to be gone
        server = Server("127.0.0.1", Connection.close)
        server.close()
        listening.append(server.address.listens())
    assert not any(listening)


def test_other_versions_than_the_drivers_are_told_before_anything_is_done(driver: Driver, tmp_path: Path) -> None:
    job = driver.job(tmp_path)
    versions = dict(job.versions) | {"Python": "3.7", "rocksdict": "0.0.1", "a package of its release": "2"}

    with pytest.raises(ConfigError, match="from the same image"):
        list(pull(replace(job, versions=tuple(versions.items())), 0))

    ((name, told, hopeless, user),) = driver.heard
    assert (name, hopeless, user) == ("failed", True, True)
    assert told.startswith(f"on {socket.gethostname()}: the executor has Python 3.")
    assert "instead of 3.7, rocksdict" in told
    assert "a package of its release not known instead of 2: start executors" in told


def test_a_worker_of_the_drivers_versions_asks_for_lanes_and_tells_its_pod(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_UID", "uid-1")
    assert list(pull(driver.job(tmp_path), 3)) == []
    ((name, process, partition, attempt, pod),) = driver.heard
    assert (name, partition, attempt, pod) == ("join", 3, 0, "uid-1")
    assert process.startswith(f"{socket.gethostname()}:{tmp_path / 'state'}")


class Processed:
    """Instead of a process with clients of Kafka's: it says that it has processed three records."""

    def __init__(self, *given: object) -> None: ...

    def run(self, order: LaneOrder, *_: object) -> LaneReport:
        tasks = (
            LaneTaskReport(TaskId(0, 0), 2, 5, {}, {}, 0, 0, 0),
            LaneTaskReport(TaskId(0, 1), 1, 6, {}, {}, 0, 0, 0),
        )
        return LaneReport(order.number, tasks, 0.0, 0.0, 0.0, None)

    def close(self) -> None: ...


def told(records: int, report: int) -> dict[str, int]:
    """A driver's answer to a report."""
    known = {"batch_size": 10, "commit_ms": 6, "lag": 9, "state_bytes": 8, "state_rows": 7}
    return {"records": records, "outputs": 11, **known, "report": report}


@pytest.mark.parametrize("attempt", [0, 1])
def test_spark_gets_a_row_for_each_record_and_the_first_has_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attempt: int
) -> None:
    monkeypatch.setattr(worker, "LaneProcess", Processed)
    monkeypatch.setattr(TaskContext, "get", type("Context", (), {"attemptNumber": lambda _: attempt}))
    answers, heard = iter((LaneOrder(0, ()), (told(3, 1), False), None, told(2, 2))), []

    def answer(connection: Connection) -> None:
        while True:
            heard.append(connection.recv()[0])
            connection.send(next(answers))

    with closing(Driver(answer)) as driver:
        batches = list(pull(driver.job(tmp_path), 0))
    assert {batch.schema for batch in batches} == {rows_module.SCHEMA}
    rows = [batch.column(0).to_pylist() for batch in batches]
    figures = [dict(zip(FIGURES, first, strict=True)) for first, *_ in rows]
    # A second attempt has rows for what the first one committed, too.
    assert figures == [told(3, 1), told(2, 2)][: 1 + attempt]
    assert [rest for _, *rest in rows] == [[None, None], [None]][: 1 + attempt]
    assert heard == ["join", "done", "take", "owed"][: 3 + attempt]


class ReadingOn(Processed):
    """It is asked again and again for the lanes that go on."""

    asked: list[list[int]] = []  # noqa: RUF012 - the worker makes it

    def run_on(self, orders: list[LaneOrder], *_: object) -> list[LaneReport]:
        self.asked.append([order.number for order in orders])
        return [self.run(order) for order in orders]


def test_a_worker_has_all_of_its_open_lanes_at_once_and_each_as_long_as_the_driver_lets_it_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LaneProcess", ReadingOn)
    monkeypatch.setattr(ReadingOn, "asked", [])
    orders = [LaneOrder(0, (), is_open=True), LaneOrder(1, (), gives_up=True), LaneOrder(2, (), is_open=True), None]
    answers = iter([(told(3, 1), False), (told(3, 2), True), (told(3, 3), False), (told(3, 4), False)])
    heard: list[tuple[str, int | None, bool]] = []

    def answer(connection: Connection) -> None:
        waiting = iter([*orders, None])
        while True:
            name, *rest = connection.recv()
            if name == "done":
                heard.append((name, rest[0].number, rest[1:] == [True]))
                connection.send(next(answers))
            else:
                heard.append((name, None, False))
                connection.send(next(waiting))

    with closing(Driver(answer)) as driver:
        batches = list(pull(driver.job(tmp_path), 0))
    assert ReadingOn.asked == [[0, 2], [0]]
    taken, done = ("take", None, False), "done"
    assert heard == [
        ("join", None, False), taken, (done, 1, False), taken, taken,
        (done, 0, True), (done, 2, True), (done, 0, True), taken,
    ]  # fmt: skip
    assert sum(batch.num_rows for batch in batches) == 4 * 3, "rows come in the course of the batch"


class Process:
    """Instead of one with clients of Kafka's: it notes whether it was closed."""

    closed, stuck = 0, False

    def __init__(self, *given: object) -> None: ...

    def run(self, order: LaneOrder, *_: object) -> LaneReport:
        return LaneReport(order.number, (), 0.0, 0.0, 0.0, None)

    def close(self) -> None:
        Process.closed += 1
        if Process.stuck:
            raise StreamsError("stores may be open")


def test_a_worker_finds_its_state_for_the_next_driver_of_a_session_and_ends_what_the_former_had(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LaneProcess", Process)
    monkeypatch.setattr(Process, "closed", 0)
    job, closed = driver.job(tmp_path), []
    with closing(Driver()) as after:
        for each in (job, job, after.job(tmp_path)):
            driver.order = after.order = LaneOrder(0, ())
            list(pull(each, 0))
            closed.append(Process.closed)
    assert closed == [0, 0, 1]
    directories = [told[1] for told in (*driver.heard, *after.heard) if told[0] == "join"]
    assert directories == [f"{socket.gethostname()}:{tmp_path / 'state' / 'app' / 'worker-0'}"] * 3


def test_two_applications_of_one_session_keep_their_stores_side_by_side_until_their_drivers_are_gone(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LaneProcess", Process)
    monkeypatch.setattr(Process, "closed", 0)
    first, third = driver.job(tmp_path), driver.job(tmp_path, "third")
    with closing(Driver()) as other:
        second = other.job(tmp_path, "second")
        for each in (first, second, first, second):
            driver.order = other.order = LaneOrder(0, ())
            list(pull(each, 0))
        assert Process.closed == 0
        other.server.close()
        driver.order = LaneOrder(0, ())
        list(pull(third, 0))
        assert Process.closed == 1
        assert list(worker._applications) == ["app", "third"]
    places = [told[1].rpartition("/state/")[2] for told in (*driver.heard, *other.heard) if told[0] == "join"]
    assert places == ["app/worker-0", "app/worker-0", "third/worker-0", "second/worker-0", "second/worker-0"]


def test_a_former_driver_whose_stores_cannot_be_closed_keeps_its_directory_and_the_next_one_works_beside_it(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LaneProcess", Process)
    with closing(Driver()) as after, monkeypatch.context() as stuck:
        stuck.setattr(Process, "stuck", True)
        for each in (driver, after):
            each.order = LaneOrder(0, ())
            list(pull(each.job(tmp_path), 0))
        directories = [told[1].rpartition("/")[2] for told in (*driver.heard, *after.heard) if told[0] == "join"]
    assert directories == ["worker-0", "worker-1"]


def test_a_worker_that_cannot_reach_kafka_tells_the_driver_who_and_which_address(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def process(*_: object) -> Any:  # the clients find out after two minutes
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(worker, "LaneProcess", process)
    driver.order = LaneOrder(0, ())

    with pytest.raises(KafkaException):
        list(pull(driver.job(tmp_path), 0))

    name, told, hopeless, user = driver.heard[-1]
    assert (name, hopeless, user) == ("failed", False, False)
    assert told.startswith(f"on {socket.gethostname()}:{tmp_path / 'state'}")
    assert "Kafka at 127.0.0.1:1 cannot be used from there: Local: Timed out" in told


def test_a_worker_that_has_done_its_part_keeps_no_finder_that_reads_an_archive_anew_and_finds_modules_there(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "some.zip"
    with ZipFile(archive, "w") as zipped:
        zipped.writestr("archived_before.py", "")
        zipped.writestr("archived_after.py", "")
    monkeypatch.syspath_prepend(str(archive))
    importlib.import_module("archived_before")
    assert any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
    list(pull(driver.job(tmp_path), 0))
    assert not any(isinstance(finder, zipimporter) for finder in sys.path_importer_cache.values())
    importlib.import_module("archived_after")


def test_what_a_worker_keeps_is_walked_by_the_collector_now_and_then_only(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker._collected, "until", 0.0)
    job, kept = driver.job(tmp_path), list[list[str]]([[]])
    try:
        list(pull(job, 0))
        assert gc.get_freeze_count() == 0, "the collection after the first task finds what starting has left behind"
        list(pull(job, 0))
        assert gc.get_freeze_count() > 0
        assert not any(each is kept for each in gc.get_objects())
        monkeypatch.setattr(worker._collected, "until", 0.0)
        list(pull(job, 0))
        assert any(each is kept for each in gc.get_objects())
    finally:
        gc.unfreeze()


class Service:
    """The driver's knowledge of its workers."""

    def __init__(self) -> None:
        self.lags: dict[TaskId, int] = {}
        self.owners = {TaskId(0, 0): "one", TaskId(0, 1): "other"}
        self.moves, self.batch_size, self.pods = 0, 1, frozenset[str]()
        self.outage: tuple[float, str] | None = None


def test_a_worker_that_cannot_reach_the_object_store_is_in_the_drivers_status_and_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    remote = RemoteStateConfig(url=tmp_path.as_uri())
    config = StreamsConfig(application_id="app", bootstrap_servers="none:9092", remote_state=remote)
    figures = view.Figures()

    def outages() -> list[dict[str, Any]]:
        shown = view.document(config, ClientState.RUNNING, None, figures, Service(), SystemClock())
        found: list[dict[str, Any]] = shown["outages"]
        return found

    away = LaneReport(0, (), 0.0, 0.0, 0.0, (1_000, "connection refused"))
    for process in ("one", "gone"):
        figures.report(process, away, 2_000)
    told = {"name": "remoteState", "address": remote.url, "since": "1970-01-01T00:00:01.000+00:00"}
    assert outages() == [told | {"message": "on one: connection refused"}]
    assert "one cannot write snapshots: connection refused" in caplog.text
    figures.report("one", replace(away, outage=None), 3_000)
    assert outages() == []


def test_a_batch_without_rates_is_shown_all_the_same(tmp_path: Path) -> None:
    config = StreamsConfig(application_id="app", bootstrap_servers="none:9092")
    told = {"batchId": 7, "numInputRows": 0, "durationMs": {"addBatch": 5}, "sources": []}
    figures = view.Figures(progress=told)
    shown = view.document(config, ClientState.RUNNING, None, figures, Service(), SystemClock())["progress"]
    rates = {"inputRowsPerSecond": None, "processedRowsPerSecond": None, "observedMetrics": None}
    assert shown == {"batchId": 7, "numInputRows": 0, "durationMs": {"addBatch": 5}, **rates}


def test_sinks_are_shown_with_what_they_have_added() -> None:
    config = StreamsConfig(application_id="app", bootstrap_servers="none:9092")
    read = {"0": 7, "1": 5}
    lake = SinkFigures("lake", "counts", "iceberg", "lake.db.counts", 2, 1_000, "1970-01-01T00:00:02.000Z", read)
    begun = replace(lake, name="new", batches=0, added_at_ms=None, looked_at=None, offsets={})
    figures = view.Figures(sinks=(lake, begun))
    first, new = view.document(config, ClientState.RUNNING, None, figures, Service(), SystemClock())["sinks"]
    place = {"topic": "counts", "format": "iceberg", "table": "lake.db.counts"}
    times = {"addedAt": "1970-01-01T00:00:01.000+00:00", "lookedAt": "1970-01-01T00:00:02.000Z"}
    assert first == {"name": "lake", **place, "batches": 2, **times, "offsets": read}
    assert new == {"name": "new", **place, "batches": 0, "addedAt": None, "lookedAt": None, "offsets": {}}
    measured = [
        (each.name, each.value)
        for each in view.samples(config, ClientState.RUNNING, figures, Service())
        if each.labels == {"sink": "lake"}
    ]
    assert measured == [("kafka_stream_sink_batches_total", 2), ("kafka_stream_sink_end_offsets", 12)]
