"""The rule that the cluster tests' observer applies, so that an observer that finds nothing has looked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cluster_load import CountLedger, Way
from cluster_truth import ClusterView, Limits, PodTruth, Removal, down, faults_of

AT = 100.0
CHANGELOG = "app-counts-changelog-0"


def pod(number: int, **changes: Any) -> PodTruth:
    up = PodTruth(f"app-{number}", f"uid-{number}", ready=True, terminating=False, running=True, since=0.0)
    return replace(up, **changes)


def task(role: str, *, position: int | None = 90, mode: str = "updating", **more: Any) -> dict[str, Any]:
    store = {"name": "counts", "changelog": CHANGELOG, "position": position, "mode": mode, "snapshot": None}
    return {"id": "1_0", "role": role, "stores": [store | more.pop("store", {})], **more}


def look(
    standby: dict[str, Any] | None, *, ended: float = AT - 0.1, end: int = 100, active: dict[str, Any] | None = None
) -> ClusterView:
    statuses = {
        "app-0": {"tasks": [active or task("active", mode="processing")]},
        "app-1": {"tasks": [] if standby is None else [standby]},
    }
    uids = {"app-0": "uid-0", "app-1": "uid-1"}
    return ClusterView(ended - 0.1, ended, {CHANGELOG: end}, statuses, uids)


def removal(*pods: PodTruth, **changes: Any) -> Removal:
    there = pods or (pod(0), pod(1))
    return replace(Removal(there[0], AT, there, 2, Limits(max_standby_lag=10)), **changes)


def test_a_pod_may_go_whose_task_another_ready_pod_follows_closely() -> None:
    assert faults_of(removal(), [look(task("standby"))]) == []


@pytest.mark.parametrize(
    ("looks", "why"),
    [
        ([look(None)], "does not follow"),
        ([look(task("standby", position=89))], "counts is 11 records behind"),
        ([look(task("standby", position=None))], "lag of counts is not known"),
        ([look(task("standby", mode="restoring"))], "counts is restoring"),
        ([look(task("standby", mode="paused"))], "counts is paused"),
        ([look(task("standby"), ended=AT - 5), look(task("standby", mode="paused"))], "counts is paused"),
        ([look(task("standby"), ended=AT - 11)], "nobody could know what it holds"),
        ([look(task("standby"), ended=AT + 0.1)], "nobody could know what it holds"),
        ([], "nobody could know what it holds"),
    ],
)
def test_what_is_behind_paused_unknown_or_seen_too_long_ago_is_found(looks: list[ClusterView], why: str) -> None:
    (found,) = faults_of(removal(), looks)

    assert why in found


def test_a_task_whose_standby_is_on_a_pod_that_is_down_can_go_on_nowhere() -> None:
    found = faults_of(removal(pod(0), pod(1, ready=False, since=AT - 3)), [look(task("standby"))])

    assert len(found) == 2
    assert "app-0 was taken away while app-1 was down" in found
    assert "no other pod was ready" in found[1]


def test_what_happened_a_moment_before_could_not_be_known() -> None:
    assert faults_of(removal(pod(0), pod(1, ready=False, since=AT - 1)), [look(task("standby"))]) == []


def test_a_pod_that_does_not_run_has_nothing_to_lose_whatever_else_is_down() -> None:
    broken = pod(0, ready=False, running=False)

    assert faults_of(removal(broken, pod(1, ready=False)), []) == []


def test_a_pod_that_is_about_to_start_has_nothing_to_lose_but_one_that_had_time_to_may() -> None:
    assert faults_of(removal(pod(0, ready=False, since=AT - 2), pod(1)), []) == []
    assert faults_of(removal(pod(0, ready=False, since=AT - 4), pod(1)), [])
    assert faults_of(removal(pod(0, ready=True, since=AT - 2), pod(1)), [])


def test_a_pod_that_woke_up_a_moment_ago_is_believed_what_it_says_when_asked_at_once() -> None:
    woke = removal(pod(0, ready=False), pod(1))

    assert faults_of(replace(woke, said={"tasks": []}), []) == []
    (found,) = faults_of(replace(woke, said={"tasks": [task("active")]}), [])
    assert "could go on nowhere" in found


def test_a_snapshot_stands_in_if_it_exists_and_is_restored_in_time() -> None:
    active = task("active", store={"snapshot": {"offset": 80}}, restore={"predictedSeconds": 60.0})
    looks = [look(None, active=active)]

    assert faults_of(removal(snapshots=frozenset({"1_0"})), looks) == []
    assert faults_of(removal(), looks)
    assert faults_of(removal(snapshots=frozenset({"1_0"}), limits=Limits(max_restore=59.0)), looks)


def test_pods_that_are_missing_not_ready_or_ending_are_down() -> None:
    pods = [pod(0), pod(1, ready=False), pod(2, terminating=True)]

    assert down(pods, [f"app-{number}" for number in range(4)]) == ["app-1", "app-2", "app-3"]


def test_a_count_that_comes_twice_or_after_a_hole_is_found() -> None:
    ledger = CountLedger()
    for count in (1, 2, 2, 3, 5):
        ledger.take("word", count, Way(0, 0), 0.0)

    assert [finding.partition(",")[0] for finding in ledger.findings] == [
        "word: the count 2 came twice",
        "word: the count 5 came after a hole",
    ]


def test_the_longest_gap_is_each_ways_own_and_goes_on_until_the_end_but_not_through_pauses() -> None:
    ledger = CountLedger()
    for count, at in enumerate((1.0, 2.0, 5.0), 1):
        ledger.take("word", count, Way(0, 0), at)
    for count, at in enumerate((1.0, 4.5, 5.5), 1):
        ledger.take("other", count, Way(1, 0), at)

    assert max(ledger.gaps(0.0, 6.0)).seconds == 3.5
    assert max(ledger.gaps(4.9, 9.0)).seconds == 4.0
    assert max(ledger.gaps(0.0, 6.0, pauses=[(1.5, 4.0)])).seconds == 1.0
