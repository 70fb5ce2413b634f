"""Instances of a soak run: how one ended that was asked to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

import fleet
from fleet import Instance

#: A program that never says what a signal is to do.
SLEEPS = "import time\nwhile True:\n    time.sleep(60)\n"
SPEAKS = "print('here', flush=True)\n" + SLEEPS


class Clock(SimpleNamespace):
    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(sleep=time.sleep)
    monkeypatch.setattr(fleet, "time", clock)
    return clock


@contextmanager
def running(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instance]:
    path = tmp_path / "program.py"
    path.write_text(program)
    monkeypatch.setattr(fleet, "_PROGRAM", path)
    instance = Instance("a", {"http_port": 1}, tmp_path)
    instance.start()
    try:
        yield instance
    finally:
        instance.kill()


def how_it_ended(instance: Instance) -> str:
    instance.ask_to_end()
    while (how := instance.ended()) is None:
        time.sleep(0.01)
    return how


@pytest.mark.parametrize(("program", "seconds"), [(SPEAKS, 2.0), (SLEEPS, 60.0)])
def test_an_instance_that_was_ended_before_it_heard_of_signals_ended_well(
    program: str, seconds: float, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(program, tmp_path, monkeypatch) as instance:
        clock.now += seconds

        assert how_it_ended(instance) == ""


def test_an_instance_that_has_been_there_for_long_has_to_end_in_good_order(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(SPEAKS, tmp_path, monkeypatch) as instance:
        while "here" not in instance.log.read_text("utf-8"):
            time.sleep(0.01)
        clock.now += 60.0

        assert how_it_ended(instance).startswith("a ended with exit code -15 after SIGTERM")
