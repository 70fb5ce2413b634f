"""Ctrl-C stops Spark, and breaks off no call to Java."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from streamsapp_spark.session.end import SessionEnd


class Spark:
    """A session that counts how often it is stopped."""

    def __init__(self) -> None:
        self.stops: list[str] = []
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stops.append(threading.current_thread().name)
        self.stopped.set()


@pytest.fixture
def spark() -> Spark:
    return Spark()


@pytest.fixture
def end(spark: Spark) -> Iterator[SessionEnd]:
    before = signal.getsignal(signal.SIGINT)
    yield SessionEnd(spark)  # type: ignore[arg-type]
    assert signal.getsignal(signal.SIGINT) is before


def call_to_java(spark: Spark) -> bool:
    """A call that is answered when Spark has stopped; Ctrl-C comes in the middle of it."""
    module: dict[str, Any] = {"__name__": "py4j.clientserver", "signal": signal, "spark": spark}
    exec("def call():\n signal.raise_signal(signal.SIGINT)\n return spark.stopped.wait(30)", module)  # noqa: S102
    answered: bool = module["call"]()
    return answered


def test_in_a_call_to_java_it_stops_spark_and_the_call_ends_by_itself(spark: Spark, end: SessionEnd) -> None:
    assert call_to_java(spark)
    assert end.interrupted
    with pytest.raises(KeyboardInterrupt):  # a second interrupt counts at once
        call_to_java(spark)
    end.stop(30)
    assert spark.stops == ["stopping"]


def test_anywhere_else_it_is_an_interrupt_as_ever(spark: Spark, end: SessionEnd) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert spark.stops == []
    end.stop(30)
    assert spark.stops == ["stopping"]


def test_an_end_that_has_no_time_waits_for_nothing(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(spark, "stop", goes_on.wait)
    SessionEnd(spark).stop(0.0)  # type: ignore[arg-type]
    assert not goes_on.is_set(), "it waits for ever otherwise"
    goes_on.set()
