"""The driver's account of its progress, and what it makes of failures."""

from __future__ import annotations

import io
import socket
from contextlib import suppress

import pytest

from instances import eventually
from streamsapp.record import TaskId
from streamsapp.testing import MockClock
from streamsapp_spark.history.progress import SparkProgress
from streamsapp_spark.replay.worker_reports import Listener, Reporter


def progress(clock: MockClock) -> SparkProgress:
    return SparkProgress({"0_0": 1_000, "1_0": 0}, {"0_0": 1, "1_0": 2}, io.StringIO(), clock)


def test_tells_stage_tasks_rate_and_time_left() -> None:
    clock = MockClock()
    shown = progress(clock)
    shown.line()
    clock.advance(2_000)
    shown.heard({"task": "0_0", "records": 200, "state": "running"})
    assert shown.line() == "stage 1 of 2, 0 of 2 tasks, 200 records (20% of the input), 100/s, 8 s left"
    shown.heard({"task": "0_0", "records": 1_000, "state": "done"})
    shown.heard({"task": "1_0", "records": 10, "state": "running"})
    assert shown.line().startswith("stage 2 of 2, 1 of 2 tasks, 1,010 records (100% of the input)")


def test_what_would_fail_again_is_told_rather_than_what_passes() -> None:
    shown = progress(MockClock())
    assert str(shown.error("Spark's job failed")) == "Spark's job failed"
    shown.heard({"task": "0_0", "records": 0, "state": "failed", "error": "no answer", "hopeless": False})
    assert str(shown.error("Spark's job failed")) == "no answer"
    assert not shown.on_hopeless.is_set()
    shown.heard({"task": "0_0", "records": 0, "state": "failed", "error": "bad record", "hopeless": True})
    shown.heard({"task": "0_0", "records": 0, "state": "failed", "error": "cancelled", "hopeless": False})
    assert str(shown.error("Spark's job failed")) == "bad record"
    assert shown.on_hopeless.is_set()


def test_reports_arrive_and_nobody_is_needed_to_listen() -> None:
    heard: list[dict[str, object]] = []
    with Listener("127.0.0.1", heard.append) as listener:
        address = listener.address
        stranger = Reporter((*address[:2], "guessed"), TaskId(6, 6))
        stranger.finished()
        stranger.close()
        reporter = Reporter(address, TaskId(0, 1))
        reporter.processed(5)
        reporter.finished()
        reporter.close()
        eventually(lambda: bool(heard) and heard[-1]["state"] == "done")
    assert {report["task"] for report in heard} == {"0_1"}
    assert heard[-1] == {"task": "0_1", "records": 5, "state": "done"}
    deaf = Reporter(address, TaskId(0, 1))
    deaf.processed(5)
    deaf.finished()
    deaf.close()


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("said", [b"[]\n", b"1\n", b"[" * 60_000 + b"\n", b"x" * (1 << 20)])
def test_who_knows_no_password_is_sent_away_whatever_it_says(said: bytes) -> None:
    heard: list[dict[str, object]] = []
    with Listener("127.0.0.1", heard.append) as listener:
        host, port, _ = listener.address
        with socket.create_connection((host, port), timeout=60) as stranger:
            with suppress(OSError):
                stranger.sendall(said)
            with suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
    assert not heard
