"""A Spark task that cannot do its work reports its machine and the reason to the driver. Real connections; no Spark
and no broker."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamsapp import Consumed, Serdes, StreamsBuilder, StreamsConfig, TaskId
from streamsapp.config import RemoteStateConfig
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import HistoryRange
from streamsapp_spark.programs.shipped import PickledProgram
from streamsapp_spark.replay import task_inputs
from streamsapp_spark.replay.job import ReplayJob, application
from streamsapp_spark.replay.stage_rows import SCHEMA, InputRows, task_row
from streamsapp_spark.replay.task_run import ArrowBatches, GroupRun, Work, run_task
from streamsapp_spark.replay.worker_reports import Listener


@pytest.fixture
def heard() -> Iterator[tuple[Listener, queue.Queue[dict[str, Any]]]]:
    reports: queue.Queue[dict[str, Any]] = queue.Queue()
    with Listener("127.0.0.1", reports.put) as listener:
        yield listener, reports


def work(listener: Listener, folder: Path) -> Work:
    """One task, of a broker that is not there."""
    builder = StreamsBuilder()
    builder.stream("words", Consumed(Serdes.string(), Serdes.string())).to("others")
    remote = RemoteStateConfig(url=folder.as_uri())
    config = StreamsConfig(application_id="app", bootstrap_servers="127.0.0.1:1", remote_state=remote)
    job = ReplayJob.of(PickledProgram.of(builder.build(), config), {"words": 1}, listener.address)
    return Work(job, (HistoryRange("words", 0, 0, 5),), (), {TopicPartition("words", 0): (0, 0)})


def read_all(work: Work, run: GroupRun, rows: InputRows) -> ArrowBatches:
    """The task reads its history."""
    with run.replays(results=False) as replays:
        for _, _, batches in run.advances(replays, rows):
            yield from batches


def failure(reports: queue.Queue[dict[str, Any]]) -> tuple[str, bool]:
    while (report := reports.get(timeout=60))["state"] != "failed":
        pass
    return report["error"], report["hopeless"]


def run(work: Work) -> None:
    row = pa.RecordBatch.from_arrays(
        [pa.array([value], field.type) for value, field in zip(task_row(TaskId(0, 0), 0), SCHEMA, strict=True)],
        schema=SCHEMA,
    )
    application.cache_clear()
    list(run_task(read_all, work, [row]))


def test_other_versions_than_the_drivers_end_the_job_before_anything_is_done(
    heard: tuple[Listener, queue.Queue[dict[str, Any]]], tmp_path: Path
) -> None:
    asked = work(heard[0], tmp_path)
    other = tuple((dict(asked.job.versions) | {"rocksdict": "0.0.1"}).items())
    with pytest.raises(ConfigError, match="from the same image"):
        run(replace(asked, job=replace(asked.job, versions=other)))
    told, hopeless = failure(heard[1])
    assert told.startswith(f"on {socket.gethostname()}: task 0_0: the executor has rocksdict ")
    assert " instead of 0.0.1" in told
    assert hopeless


def test_a_task_that_cannot_reach_kafka_names_its_machine_and_the_address(
    heard: tuple[Listener, queue.Queue[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_inputs, "TIMEOUT", 1.0)
    with pytest.raises(StreamsError):
        run(work(heard[0], tmp_path))
    told, hopeless = failure(heard[1])
    assert told.startswith(f"on {socket.gethostname()}: task 0_0: Kafka at 127.0.0.1:1 has sent nothing of words-0")
    assert not hopeless
