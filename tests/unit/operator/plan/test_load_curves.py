"""The autoscaler under curves of load: it follows them, catches up in time, and does not swing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from simulated_load import START_SECONDS, SimulatedLoad
from streamsapp.manifest.model import AutoscalingSpec
from streamsapp_operator.model.observed_state import InputRates, Outage, PodReport, PodSeen, ReportedRole, TaskReport
from streamsapp_operator.observe.input_rates import RateObserver

BOUNDS = AutoscalingSpec(max_replicas=12, target_input_lag=500, catch_up_seconds=120)
HOUR = 3600


def run(arrival: Callable[[int], float], seconds: int = HOUR, **more: object) -> SimulatedLoad:
    return SimulatedLoad(BOUNDS, arrival, **more).run(seconds)  # type: ignore[arg-type]


@pytest.mark.seeds(1)
@pytest.mark.parametrize("rate", [0, 79, 81, 400, 790])
@pytest.mark.parametrize("replicas", [1, 5])
def test_a_steady_load_comes_to_one_number_of_pods_that_is_enough(rate: float, replicas: int, seed: int) -> None:
    done = run(lambda second: rate, 2 * HOUR, replicas=replicas, seed=seed)
    last = done.wanted[-1]
    assert done.changes(HOUR) == [last]
    assert last * 100 >= rate
    assert max(done.lags[HOUR:]) <= BOUNDS.target_input_lag * last
    # Down and up again happens once at most: to find out that fewer are too few.
    numbers = done.changes()
    turns = sum((b - a) * (c - b) < 0 for a, b, c in zip(numbers, numbers[1:], numbers[2:], strict=False))
    assert turns <= 2, numbers


@pytest.mark.parametrize("rate", [150, 400, 700])
@pytest.mark.parametrize("backlog", [5_000, 30_000])
def test_a_backlog_is_caught_up_in_the_stated_time(rate: float, backlog: int) -> None:
    done = run(lambda second: rate + (backlog if second == 0 else 0), 1000, replicas=1)
    assert done.status is not None
    caught_up = next(second for second, lag in enumerate(done.lags) if second > 60 and lag <= 500 * done.wanted[second])
    # To see it, and to start pods, takes time before.
    learning = 30 + BOUNDS.scale_up_stabilization_seconds + 3 * START_SECONDS
    possible = (backlog + rate * learning) / (BOUNDS.max_replicas * 100 - rate)
    assert caught_up <= learning + max(BOUNDS.catch_up_seconds, possible) * 1.1


def test_a_step_up_is_followed_before_much_waits_once_a_busy_pod_was_seen() -> None:
    done = run(lambda second: 150 if second < 1200 else 500, 2400)
    assert done.wanted[1199] in {2, 3}
    assert done.wanted[1300] >= 6
    assert max(done.lags[1200:]) < 500 * 100


def test_a_step_down_is_followed_after_its_window_and_not_before() -> None:
    done = run(lambda second: 700 if second < 1200 else 100, 3600)
    window = BOUNDS.scale_down_stabilization_seconds
    assert done.wanted[1200 + window - 1] == done.wanted[1199]
    assert done.wanted[-1] == 2


def test_a_sine_is_followed_without_a_move_for_each_of_its_seconds() -> None:
    period = 3600
    done = run(lambda second: 500 + 400 * math.sin(2 * math.pi * second / period), 4 * period, replicas=5)
    # Up while it rises, down while it falls: a change of direction twice in each period.
    numbers = done.changes(period)
    turns = sum((b - a) * (c - b) < 0 for a, b, c in zip(numbers, numbers[1:], numbers[2:], strict=False))
    assert turns <= 2 * 3 + 1, numbers
    assert max(done.lags[period:]) <= 500 * 12


def test_a_spike_that_is_shorter_than_the_window_moves_nothing() -> None:
    done = run(lambda second: 150 if second < 1800 or second >= 1808 else 400, 2400, replicas=3)
    assert done.changes(1000) == [done.wanted[1000]]


def test_silence_leaves_the_fewest_pods() -> None:
    done = run(lambda second: 900 if second < 900 else 0)
    assert done.wanted[-1] == BOUNDS.min_replicas


def test_a_dear_move_has_to_last_ten_times_as_long() -> None:
    load = lambda second: 700 if second < 1200 else 100  # noqa: E731
    dear = run(load, 1200 + 590, move_seconds=60.0)
    cheap = run(load, 1200 + 590, move_seconds=1.0)
    assert dear.wanted[-1] == dear.wanted[1199]
    assert cheap.wanted[-1] < cheap.wanted[1199]


@pytest.mark.parametrize(
    ("rate", "move_seconds", "catch_up_seconds", "replicas"),
    [(442, 20, 300, 2), (220, 120, 120, 8), (189, 120, 300, 1), (120, 120, 60, 10), (119, 1, 120, 1)],
)
def test_what_waits_after_a_move_undoes_no_move(
    rate: int, move_seconds: float, catch_up_seconds: int, replicas: int
) -> None:
    bounds = AutoscalingSpec(max_replicas=12, target_input_lag=100, catch_up_seconds=catch_up_seconds)
    done = SimulatedLoad(bounds, lambda second: rate, replicas=replicas, move_seconds=move_seconds).run(9000)
    # Up to see how much a pod does, down, and up once to what is enough.
    numbers = done.changes()
    turns = sum((b - a) * (c - b) < 0 for a, b, c in zip(numbers, numbers[1:], numbers[2:], strict=False))
    assert turns <= 2, numbers
    assert done.wanted[-1] * 100 >= rate


def test_more_pods_than_tasks_or_than_allowed_are_never_made() -> None:
    assert max(run(lambda second: 5000, tasks=4).wanted) == 4
    assert max(run(lambda second: 5000).wanted) == 12


def seen(uid: str, at: float, processed: int | None, lag: int | None = 0, task: str = "0_0") -> PodSeen:
    report = TaskReport(task, ReportedRole.ACTIVE, "RUNNING", (), lag, processed=processed)
    return PodSeen(uid, uid, 0, "r", True, False, 0.0, report=PodReport("RUNNING", 1, (report,), at))


def flow_of(rates: RateObserver, *pods: PodSeen, settled: bool = True) -> InputRates | None:
    return rates.flow(pods, settled=settled)


def test_what_came_is_what_was_processed_and_by_how_much_more_waits() -> None:
    rates = RateObserver()
    assert [flow_of(rates, seen("a", at, at * 50, 1000 + 10 * at)) for at in range(20)] == [None] * 20
    assert flow_of(rates, seen("a", 20, 1000, 1200)) == InputRates(60.0, 60.0, 50.0, 50.0)


def test_a_task_that_moves_begins_anew_with_its_pod_but_what_came_goes_on() -> None:
    rates = RateObserver()
    for at in range(20):
        flow_of(rates, seen("a", at, at * 50, 1000), seen("b", at, 7, 0, "0_1"))
    # Task 0_0 goes to pod b, where it counts from 0, and its container begins anew.
    moved = [seen("b", at, (at - 20) * 50, 1000) for at in range(20, 32)]
    flows = [
        flow_of(
            rates,
            PodSeen("a", "a", 0, "r", True, False, 0.0, report=PodReport("RUNNING", 1, (), it.report.fetched_at)),
            it,
        )
        for it in moved
        if it.report
    ]
    assert all(flow is not None and 40 <= flow.arrival_low <= flow.arrival_high <= 50 for flow in flows)
    assert [flow.busy_pod for flow in flows if flow] == [None] * 10 + [50.0] * 2


def test_a_pod_is_busy_only_where_work_waited_all_the_time_and_it_could_work() -> None:
    def busy(change: Callable[[PodSeen], PodSeen], lag: int = 1000) -> float | None:
        rates = RateObserver()
        pods = [seen("a", at, at * 50, lag) for at in range(21)]
        flows = [flow_of(rates, change(pod) if pod.report and pod.report.fetched_at == 15 else pod) for pod in pods]
        assert flows[-1] is not None
        return flows[-1].busy_pod

    def with_report(pod: PodSeen, **changes: object) -> PodSeen:
        assert pod.report is not None
        return replace(pod, report=replace(pod.report, **changes))  # type: ignore[arg-type]

    def restoring(pod: PodSeen) -> PodSeen:
        assert pod.report is not None
        return with_report(pod, tasks=(replace(pod.report.tasks[0], state="RESTORING"),))

    assert busy(lambda pod: pod) == 50.0
    assert busy(lambda pod: pod, lag=40) is None
    assert busy(lambda pod: seen("a", 15, 750, 0)) is None
    assert busy(lambda pod: with_report(pod, outages=(Outage("kafka", "k:9092", 0.0, "away"),))) is None
    assert busy(restoring) is None


def test_a_jump_of_the_lag_is_never_in_the_lower_rate() -> None:
    rates = RateObserver()
    flows = [flow_of(rates, seen("a", at, at * 50, 0 if at < 30 else 1_000_000)) for at in range(70)]
    assert {flow.arrival_low for flow in flows if flow} == {50.0}
    assert max(flow.arrival_high for flow in flows if flow) > 50_000
    assert flows[-1] == InputRates(50.0, 50.0, 50.0, 50.0)


def test_rates_are_not_known_while_something_is_not_known_that_they_are_made_of() -> None:
    rates = RateObserver()
    for at in range(20):
        flow_of(rates, seen("a", at, at))
    silent = PodSeen("b", "b", 1, "r", True, False, 0.0)
    assert flow_of(rates, seen("a", 20, 20)) is not None
    assert flow_of(rates, seen("a", 21, 21), silent) is None
    assert flow_of(rates, seen("a", 22, 22), settled=False) is None
    assert flow_of(rates, seen("a", 23, 23, None)) is None
    assert flow_of(rates, seen("a", 24, None)) is None
    back = flow_of(rates, seen("a", 25, 25))
    assert back is not None
    assert back.busy_pod is None
