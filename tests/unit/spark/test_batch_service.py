"""The driver plans the next batch whenever Spark asks for it, which is between batches."""

from __future__ import annotations

import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, cast

import pytest

from streamsapp.clock import SystemClock
from streamsapp.errors import StreamsError
from streamsapp.record import TaskId
from streamsapp.runtime.batches.batches import Batches
from streamsapp.runtime.batches.lanes import DriverClaim
from streamsapp.runtime.batches.model import BatchTaskReport, LaneOrder, LaneReport
from streamsapp.runtime.batches.planning import BatchSize
from streamsapp_spark.streaming.service import BatchService
from streamsapp_spark.streaming.view import Figures


class OneLane:
    """There is always one lane with something to do."""

    planner = type("Planner", (), {"positions": {}})
    lag = 7

    def next(self) -> tuple[LaneOrder, ...]:
        return (LaneOrder(0, ()),)

    def report(self, report: LaneReport) -> None:
        """A lane is done."""


class Held:
    """No other driver has started."""

    def held(self) -> bool:
        return True

    def proven(self) -> bool:
        return True


@pytest.fixture
def service() -> BatchService:
    batches, claim = cast(Batches, OneLane()), cast(DriverClaim, Held())
    return BatchService(batches, BatchSize(100, 1.0), 1, Figures(), SystemClock(), claim, lambda: None)


def connected(service: BatchService) -> Connection:
    ours, theirs = Pipe()

    def serve() -> None:
        with pytest.raises(EOFError):
            service.serve(theirs)

    threading.Thread(target=serve, daemon=True).start()
    return ours


def asked(connection: Connection, *question: Any) -> Any:
    connection.send(question)
    return connection.recv()


def test_lanes_of_a_batch_that_spark_has_ended_without_them_are_in_the_next(service: BatchService) -> None:
    spark, first, second = connected(service), connected(service), connected(service)
    offset = asked(spark, "latest")
    assert offset["batch"] == 1
    assert asked(spark, "begin", 1) == 1
    assert asked(first, "join", "a", 0, 0) == LaneOrder(0, ())
    # A second attempt at the same partition takes its lane. The first one ends well, without it, and wins: Spark ends
    # the second one, and the batch.
    assert asked(second, "join", "b", 0, 1) == LaneOrder(0, ())
    assert asked(first, "take") is None
    second.close()

    assert asked(spark, "latest")["batch"] == 2
    assert asked(spark, "begin", 2) == 1
    assert asked(connected(service), "join", "a", 0, 0) == LaneOrder(0, ())


def test_rows_of_an_attempt_that_was_lost_after_its_commit_are_the_next_attempts(service: BatchService) -> None:
    """Spark counts nothing of an attempt that failed, and the next one finds nothing left to do."""
    spark, first, second, third = (connected(service) for _ in range(4))
    asked(spark, "latest")
    asked(spark, "begin", 1)
    assert asked(first, "join", "a", 0, 0) == LaneOrder(0, ())
    tasks = (
        BatchTaskReport(TaskId(0, 0), 2, 5, {}, {}, 20, 200, 0),
        BatchTaskReport(TaskId(0, 1), 1, 6, {}, {}, 10, 100, 0),
    )
    known = {"state_rows": 30, "state_bytes": 300, "lag": 7, "batch_size": 100}
    report = LaneReport(0, tasks, 0.0, 0.0, 0.0, None)
    assert asked(first, "done", report) == {"records": 3, "outputs": 11, **known, "report": 1}
    first.close()
    for number, attempt in enumerate((second, third), 2):
        assert asked(attempt, "join", "b", 0, number - 1) is None
        assert asked(attempt, "owed") == {"records": 3, "outputs": 11, **known, "report": number}
        attempt.close()


def test_a_worker_is_told_that_another_driver_took_over_and_the_driver_ends(service: BatchService) -> None:
    opening = connected(service)
    assert asked(opening, "claimed") is None

    def unknown() -> bool:
        raise StreamsError("not known")

    service._claim.proven = unknown  # type: ignore[method-assign]
    assert (asked(opening, "claimed"), service.failure) == ("not known", None)
    service._claim.proven = lambda: False  # type: ignore[method-assign]
    told = asked(opening, "claimed")
    assert told.startswith("another driver of this application has started since")
    assert str(service.failure) == told
    assert asked(opening, "join", "a", 0, 0) is None
