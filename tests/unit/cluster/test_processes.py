"""Processes that outlive the command that started them are found again, and no other process is taken for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.processes import Daemon
from streamsapp.errors import StreamsError

SLEEPS = "import time; print('asleep', flush=True); time.sleep(60)"
IGNORES = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPS}"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Daemon]]:
    """Ended after the test, whatever it does."""
    daemons: list[Daemon] = []
    yield daemons
    for daemon in daemons:
        daemon.stop()


def daemon(folder: Path, program: str) -> Daemon:
    return Daemon("sleeper", [sys.executable, "-c", program], run=folder, logs=folder)


def test_is_found_again_by_another_command_and_not_started_twice(tmp_path: Path, started: list[Daemon]) -> None:
    first, second = daemon(tmp_path, SLEEPS), daemon(tmp_path, SLEEPS)
    started.append(first)
    assert first.start()
    assert second.pid() == first.pid() is not None
    assert not second.start()


def test_another_process_with_the_same_id_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sleeper.pid").write_text(f"{os.getpid()} 12345")
    stale = daemon(tmp_path, SLEEPS)
    assert stale.pid() is None
    stale.stop()  # would end this test run
    assert not (tmp_path / "sleeper.pid").exists()


def test_one_that_ignores_the_request_to_end_is_killed(tmp_path: Path, started: list[Daemon]) -> None:
    stubborn = daemon(tmp_path, IGNORES)
    started.append(stubborn)
    stubborn.start()
    stubborn.wait(lambda: "asleep" in stubborn.log.read_text(), 60)
    stubborn.stop(timeout=0.1)
    assert stubborn.pid() is None


def test_tells_the_last_words_of_one_that_ends_instead_of_becoming_ready(tmp_path: Path) -> None:
    failing = daemon(tmp_path, "print('the port is taken')")
    failing.start()
    with pytest.raises(StreamsError, match=r"sleeper ended instead of becoming ready; the end of (?s:.*)port is taken"):
        failing.wait(lambda: False, 60)


def test_tells_of_one_that_takes_too_long(tmp_path: Path, started: list[Daemon]) -> None:
    slow = daemon(tmp_path, SLEEPS)
    started.append(slow)
    slow.start()
    with pytest.raises(StreamsError, match=r"sleeper was not ready after 0\.1 s"):
        slow.wait(lambda: False, 0.1)
