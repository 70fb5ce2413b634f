"""The driver plans the next batch whenever Spark asks for it, which is between batches."""

from __future__ import annotations

import threading
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, cast

import pytest

from streamsapp.errors import StreamsError
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.micro_batches.batches import MicroBatches
from streamsapp.runtime.micro_batches.lanes import DriverClaim
from streamsapp.runtime.micro_batches.model import InputTarget, LaneOrder, LaneReport, LaneTaskReport, TaskOrder
from streamsapp.runtime.micro_batches.planning import MicroBatchPlanner, MicroBatchSize
from streamsapp.runtime.snapshot_lag import SnapshotLag, SnapshotTask
from streamsapp.testing import MockClock
from streamsapp_spark.streaming.service import MicroBatchService
from streamsapp_spark.streaming.view import Figures

TASK, INPUT = TaskId(0, 0), TopicPartition("words", 0)


class OneLane:
    """There is always one lane with something to do."""

    lag = 7

    def next(self) -> tuple[LaneOrder, ...]:
        return (LaneOrder(0, ()),)

    def __init__(self) -> None:
        self.planner = MicroBatchPlanner({TASK: [INPUT]}, 1)
        self.planner.positions[INPUT] = 7
        #: As the driver finds them, one after the other.
        self.lags: list[list[SnapshotLag]] = []
        self.published: list[frozenset[TaskId]] = []

    def report(self, report: LaneReport) -> None:
        """A lane is done."""
        self.published.append(report.published)

    def look(self) -> bool:
        """The broker answers."""
        return True

    def behind(self) -> list[SnapshotLag]:
        if not self.lags:
            raise StreamsError("the object store is away")
        return self.lags.pop(0)


class Held:
    """No other driver has started."""

    def held(self) -> bool:
        return True

    def proven(self) -> bool:
        return True

    def fence_lanes(self) -> None:
        """No lane is left."""


@pytest.fixture
def clock() -> MockClock:
    return MockClock(0)


@pytest.fixture
def batches() -> OneLane:
    return OneLane()


@pytest.fixture
def service(batches: OneLane, clock: MockClock) -> MicroBatchService:
    return service_of(batches, clock)


def service_of(batches: OneLane, clock: MockClock) -> MicroBatchService:
    planned, claim = cast(MicroBatches, batches), cast(DriverClaim, Held())
    return MicroBatchService(planned, MicroBatchSize(100, 1.0), 1, Figures(), clock, claim, lambda: None)


def connected(service: MicroBatchService) -> Connection:
    ours, theirs = Pipe()

    def serve() -> None:
        with pytest.raises(EOFError):
            service.serve(theirs)

    threading.Thread(target=serve, daemon=True).start()
    return ours


def asked(connection: Connection, *question: Any) -> Any:
    connection.send(question)
    return connection.recv()


def test_lanes_of_a_batch_that_spark_has_ended_without_them_are_in_the_next(service: MicroBatchService) -> None:
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


def test_rows_of_an_attempt_that_was_lost_after_its_commit_are_the_next_attempts(service: MicroBatchService) -> None:
    """Spark counts nothing of an attempt that failed, and the next one finds nothing left to do."""
    spark, first, second, third = (connected(service) for _ in range(4))
    asked(spark, "latest")
    asked(spark, "begin", 1)
    assert asked(first, "join", "a", 0, 0) == LaneOrder(0, ())
    tasks = (
        LaneTaskReport(TaskId(0, 0), 2, 5, {}, {}, 20, 200, 0),
        LaneTaskReport(TaskId(0, 1), 1, 6, {}, {}, 10, 100, 0),
    )
    known = {"state_rows": 30, "state_bytes": 300, "lag": 7, "batch_size": 100}
    report = LaneReport(0, tasks, 1.0, 0.0, 0.25, None)
    done = {"records": 3, "outputs": 11, **known, "commit_ms": 250, "report": 1}
    assert asked(first, "done", report) == (done, False)
    first.close()
    for number, attempt in enumerate((second, third), 2):
        assert asked(attempt, "join", "b", 0, number - 1) is None
        assert asked(attempt, "owed") == {"records": 3, "outputs": 11, **known, "commit_ms": 0, "report": number}
        attempt.close()


def test_a_worker_is_told_that_another_driver_took_over_and_the_driver_ends(service: MicroBatchService) -> None:
    opening = connected(service)
    assert asked(opening, "claimed", 0) is None

    def unknown() -> bool:
        raise StreamsError("not known")

    service._claim.proven = unknown  # type: ignore[method-assign]
    assert (asked(opening, "claimed", 0), service.failure) == ("not known", None)
    service._claim.proven = lambda: False  # type: ignore[method-assign]
    told = asked(opening, "claimed", 0)
    assert told.startswith("another driver of this application has started since")
    assert str(service.failure) == told
    assert asked(opening, "join", "a", 0, 0) is None


def give_up(service: MicroBatchService, batch: int, report: LaneReport) -> LaneOrder:
    """The order of a batch in which one lane is given up."""
    assert asked(connected(service), "latest")["batch"] == batch
    asked(connected(service), "begin", batch)
    worker = connected(service)
    order: LaneOrder = asked(worker, "join", "a", 0, 0)
    assert not service.ends(), "somebody has a task"
    asked(worker, "done", report)
    assert asked(worker, "take") is None
    return order


def test_a_run_ends_when_remote_state_has_all_that_is_committed(service: MicroBatchService, batches: OneLane) -> None:
    lag = SnapshotLag(SnapshotTask(TASK, None, {}), stores={"counts": (0, 9)})
    batches.lags = [[lag], []]
    assert not service.ends(), "more may come"
    service.closing.set()
    assert not service.ends()
    order = give_up(service, 1, LaneReport(0, (), 0.0, 0.0, 0.0, published=frozenset({TASK})))
    assert order == LaneOrder(0, (TaskOrder(TASK, {INPUT: InputTarget(7, 7, at_end=False)}),), gives_up=True)
    assert service.ends()
    assert service.failure is None


def test_a_run_fails_if_snapshots_cannot_be_written_or_are_not_known(
    service: MicroBatchService, batches: OneLane
) -> None:
    lag = SnapshotLag(SnapshotTask(TASK, None, {}), stores={"counts": (0, 9)})
    batches.lags = [[lag], [lag], [lag]]
    service.closing.set()
    for batch in (1, 2, 3):
        assert not service.ends()
        give_up(service, batch, LaneReport(0, (), 0.0, 0.0, 0.0))
    assert service.failure is None
    assert not service.ends()
    assert str(service.failure) == (
        "remote state does not have all that is committed: it is not known how far snapshots are: the object store is "
        "away; the next run writes what is missing"
    )


def test_orders_for_last_snapshots_outlive_an_empty_batch_that_was_planned_before_them(
    service: MicroBatchService, batches: OneLane, clock: MockClock
) -> None:
    batches.lags = [[SnapshotLag(SnapshotTask(TASK, None, {}), stores={"counts": (0, 9)})]]
    service.closing.set()
    clock.advance(21_000)  # Spark's workers are kept
    spark = connected(service)
    assert asked(spark, "latest")["batch"] == 1
    assert not service.ends()
    asked(spark, "begin", 1)
    assert asked(connected(service), "join", "a", 0, 0) is None
    assert not service.ends()
    give_up(service, 2, LaneReport(0, (), 0.0, 0.0, 0.0, published=frozenset({TASK})))


def test_snapshots_of_an_attempt_that_was_given_up_for_lost_are_not_the_newest(
    service: MicroBatchService, batches: OneLane
) -> None:
    spark, lost, again = connected(service), connected(service), connected(service)
    asked(spark, "latest")
    asked(spark, "begin", 1)
    assert asked(lost, "join", "a", 0, 0) == LaneOrder(0, ())
    assert asked(again, "join", "b", 0, 1) == LaneOrder(0, ())
    report = LaneReport(0, (), 0.0, 0.0, 0.0, published=frozenset({TASK}))
    asked(lost, "done", report)
    asked(again, "done", report)
    assert batches.published == [frozenset(), frozenset({TASK})]


def test_it_is_asked_again_after_a_pause_how_far_snapshots_are(
    service: MicroBatchService, batches: OneLane, clock: MockClock
) -> None:
    service.closing.set()
    assert not service.ends()
    batches.lags = [[]]
    assert not service.ends()
    assert batches.lags == [[]], "a store that refuses at once is not asked ten times a second"
    clock.advance(5_000)
    assert service.ends()


def test_a_query_that_ended_first_is_no_success_unless_remote_state_has_all(
    service: MicroBatchService, batches: OneLane
) -> None:
    batches.lags = [[], [SnapshotLag(SnapshotTask(TASK, None, {}), stores={"counts": (0, 9)})]]
    service.check_snapshots()
    with pytest.raises(StreamsError, match="does not have all that is committed: task 0_0: it has no snapshot: at "):
        service.check_snapshots()
    with pytest.raises(StreamsError, match="the object store is away; the next run writes what is missing"):
        service.check_snapshots()


def test_tasks_are_divided_anew_when_there_have_been_more_cores_for_a_while_and_older_orders_are_void(
    batches: OneLane, clock: MockClock
) -> None:
    planner = batches.planner = MicroBatchPlanner({TaskId(0, number): [INPUT] for number in range(3)}, 1)
    service = service_of(batches, clock)
    fenced: list[bool] = []

    def fence_lanes() -> None:
        fenced.append(not service._dispatcher.lanes)
        if len(fenced) == 1:
            raise StreamsError("the broker is away")

    service._claim.fence_lanes = fence_lanes  # type: ignore[method-assign]
    spark, worker = connected(service), connected(service)
    asked(spark, "latest")
    asked(spark, "begin", 1)
    assert asked(worker, "join", "a", 0, 0) == LaneOrder(0, ())
    asked(worker, "done", LaneReport(0, (), 0.0, 0.0, 0.0))
    asked(worker, "take")
    service.has_cores(5)
    assert asked(spark, "latest")["batch"] == 2
    assert asked(spark, "begin", 2) == 5, "others get something to do at once where there is more than one lane"
    worker = connected(service)
    assert asked(worker, "join", "a", 0, 0) == LaneOrder(0, ())
    asked(worker, "done", LaneReport(0, (), 0.0, 0.0, 0.0))
    clock.advance(31_000)
    assert asked(spark, "latest")["batch"] == 3
    asked(spark, "begin", 3)
    worker = connected(service)
    assert asked(worker, "join", "a", 0, 0) == LaneOrder(0, (), gives_up=True)
    asked(worker, "done", LaneReport(0, (), 0.0, 0.0, 0.0))
    assert (planner.lanes, fenced) == (1, [])
    assert asked(spark, "latest")["batch"] == 3, "nothing is ordered before all are fenced"
    assert asked(worker, "claimed", 0) == "tasks were divided into other lanes since"
    assert asked(spark, "latest")["batch"] == 4
    assert (planner.lanes, fenced) == (3, [True, True])
    assert asked(worker, "claimed", 1) is None


class OpenLanes(OneLane):
    """There are two lanes, whose orders are open."""

    def next(self) -> tuple[LaneOrder, ...]:
        return (LaneOrder(0, (), is_open=True), LaneOrder(1, (), is_open=True))


@pytest.fixture
def opened(clock: MockClock) -> tuple[MicroBatchService, Connection]:
    """A batch under way, and the worker that has both lanes."""
    service = service_of(OpenLanes(), clock)
    spark, worker = connected(service), connected(service)
    asked(spark, "latest")
    asked(spark, "begin", 1)
    assert asked(worker, "join", "a", 0, 0).number == 0
    assert asked(worker, "take").number == 1
    return service, worker


def go_on(worker: Connection, number: int = 0) -> bool:
    _, goes_on = asked(worker, "done", LaneReport(number, (), 0.0, 0.0, 0.0), True)
    return bool(goes_on)


def test_a_worker_goes_on_with_open_lanes_until_their_time_is_over(
    opened: tuple[MicroBatchService, Connection], clock: MockClock
) -> None:
    service, worker = opened
    for _ in range(4):
        clock.advance(1_000)
        assert (go_on(worker), go_on(worker, 1)) == (True, True)
    assert service.stuck_seconds == 0
    clock.advance(1_000)
    assert (go_on(worker), go_on(worker, 1)) == (False, False)
    assert asked(worker, "take") is None
    assert service._dispatcher.done
    assert service.owners == {TASK: "a"}, "they stay where they are"


def test_open_lanes_end_when_the_driver_ends_or_another_one_has_started(
    opened: tuple[MicroBatchService, Connection], clock: MockClock
) -> None:
    service, worker = opened
    service._claim.held = lambda: False  # type: ignore[method-assign]
    assert go_on(worker), "nobody has looked yet"
    clock.advance(1_000)
    assert not go_on(worker)
    assert str(service.failure).startswith("another driver of this application has started")
    service.failure = None
    service.closing.set()
    assert not go_on(worker, 1)


def test_open_lanes_end_when_the_broker_does_not_answer_the_driver(
    opened: tuple[MicroBatchService, Connection], clock: MockClock
) -> None:
    service, worker = opened
    service._batches.look = lambda: False  # type: ignore[method-assign]
    clock.advance(1_000)
    assert not go_on(worker)


def test_a_report_of_an_open_lane_that_another_attempt_has_ends_it(
    opened: tuple[MicroBatchService, Connection],
) -> None:
    service, worker = opened
    assert asked(connected(service), "join", "b", 0, 1).number == 0
    assert not go_on(worker)


def test_open_lanes_end_when_a_lane_of_a_lost_process_waits(clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    service = MicroBatchService(
        cast(MicroBatches, OpenLanes()), MicroBatchSize(100, 0), 2, Figures(), clock, cast(DriverClaim, Held()),
        lambda: None,
    )  # fmt: skip
    spark, first, second = (connected(service) for _ in range(3))
    asked(spark, "latest")
    asked(spark, "begin", 1)
    first.send(("join", "a", 0, 0))
    assert asked(second, "join", "b", 1, 0).number == 1
    assert first.recv().number == 0
    second.close()
    while not service._dispatcher._waiting:
        pass
    assert go_on(first), "the next process in its place may come in a moment"
    monkeypatch.setattr(service._dispatcher, "_lost_at", -10.0)
    assert not go_on(first), "the next attempt may need its core"
    assert asked(connected(service), "join", "a", 1, 1).number == 1
