from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from observed_builders import NOW, active, broken, observed, pod, pods, report, standby, store, wanted
from planned_reconciles import Reconciles, told
from streamsapp_operator.model.desired_state import InvalidSpec
from streamsapp_operator.model.observed_state import (
    CheckSeen,
    CheckState,
    Outage,
    PodSeen,
    ReportedRole,
    TopologyShape,
    Trouble,
)
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import AppStatus, Condition
from streamsapp_operator.plan import plan
from streamsapp_operator.plan.conditions import with_trouble
from streamsapp_operator.plan.topology_compatibility import compatibility, decode, encode


def condition(status: AppStatus, name: str) -> Condition:
    return next(it for it in status.conditions if it.type == name)


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one", "one"))
    first = condition(reconciles.status, "RestartSafe")
    reconciles.plan(pods("one", "one", "one"), after=60)
    assert condition(reconciles.status, "RestartSafe") == first
    behind = [*pods("one", "one", "one")[:2], pod(2, active("0_2"), standby("0_0", lag=5000))]
    reconciles.plan(behind, after=60)
    changed = condition(reconciles.status, "RestartSafe")
    assert (changed.status, changed.reason) == ("False", "StandbyBehind")
    assert changed.last_transition_time > first.last_transition_time
    assert changed.last_transition_time.endswith("Z")


def test_every_condition_is_there_once_with_the_generation() -> None:
    reconciles = Reconciles(wanted(generation=4))
    reconciles.plan(pods("one", "one", "one"))
    names = [it.type for it in reconciles.status.conditions]
    others = ["Ready", "Reconciling", "RestartSafe", "SnapshotsFresh", "Stalled", "UpToDate"]
    assert sorted(names) == ["Degraded", "Progressing", *others]
    assert {it.observed_generation for it in reconciles.status.conditions} == {4}


@pytest.mark.parametrize(
    ("seen", "ready"),
    [(pods("one", "one", "one"), "True"), ([*pods("one", "one"), broken(2, "CrashLoopBackOff", "one")], "False")],
)
def test_ready_needs_every_pod_outside_of_a_restart(seen: list[PodSeen], ready: str) -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(seen)
    assert condition(reconciles.status, "Ready").status == ready


def test_a_pod_whose_container_does_not_run_degrades_and_says_why() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(
        [*pods("one", "one"), broken(2, "CrashLoopBackOff", "one", last_exit="exit 2: spec.kafka: no brokers")]
    )
    degraded = condition(reconciles.status, "Degraded")
    assert (degraded.status, degraded.reason) == ("True", "PodFailing")
    assert "spec.kafka: no brokers" in degraded.message


def test_lags_are_the_sum_of_inputs_and_the_worst_standby_and_null_when_one_is_not_known() -> None:
    reconciles = Reconciles(wanted())
    seen = [*pods("one", "one", "one")[:2], pod(2, active("0_2"), standby("0_0", lag=300))]
    reconciles.plan(seen)
    assert (reconciles.status.input_lag, reconciles.status.standby_lag) == (30, 300)
    reconciles.plan([*seen[:2], pod(2, active("0_2", input_lag=None), standby("0_0", lag=None))])
    assert (reconciles.status.input_lag, reconciles.status.standby_lag) == (None, None)
    reconciles.plan([*seen[:2], replace(seen[2], report=None)])
    assert (reconciles.status.input_lag, reconciles.status.standby_lag) == (None, None)


def test_the_clients_of_the_pods_are_named_and_differ_while_the_pods_do() -> None:
    reconciles = Reconciles(wanted())
    seen = [replace(each, report=each.report and replace(each.report, data_path="own")) for each in pods("one", "one")]
    reconciles.plan(seen)
    assert list(reconciles.status.data_paths) == ["own"]
    other = pod(2, active("0_2"))
    reconciles.plan([*seen, replace(other, report=other.report and replace(other.report, data_path="librdkafka"))])
    assert list(reconciles.status.data_paths) == ["librdkafka", "own"]


@pytest.mark.parametrize(
    ("age", "word", "status"),
    [(100, "Fresh", "True"), (400, "SnapshotTooOld", "False"), (None, "SnapshotMissing", "False")],
)
def test_snapshots_are_fresh_for_some_intervals(age: float | None, word: str, status: str) -> None:
    reconciles = Reconciles(wanted(has_remote_state=True, snapshot_interval_seconds=60))
    kept = store("0_0", ReportedRole.ACTIVE, snapshot_offset=1, snapshot_at=None if age is None else NOW - age)
    seen = [pod(0, active("0_0", stores=(kept,))), pod(1), pod(2)]
    reconciles.plan(seen)
    fresh = condition(reconciles.status, "SnapshotsFresh")
    assert (fresh.reason, fresh.status) == (word, status)


def test_a_task_that_no_pod_reports_any_more_is_missed_by_what_was_known() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one", "one"))
    assert reconciles.status.known_tasks == {"0": 3}
    last = pods("one", "one", "one")[2]
    reconciles.plan([pod(0, active("0_0")), pod(1, active("0_1")), replace(last, report=report(standby("0_0")))])
    assert [it.task for it in reconciles.status.restart.blockers if it.reason.startswith("TaskMissing")] == ["0_2"]


def test_a_status_survives_being_written_and_read() -> None:
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(pods("one", "one", "one"))
    assert from_document(to_document(reconciles.status)) == reconciles.status


def test_nothing_is_told_twice() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one", "one"))
    assert told(reconciles.plan(pods("one", "one", "one"))) == []


OLD = TopologyShape({0: ("a", "b"), 1: ("c",)}, {0: {"x": "key-value"}, 1: {}})


@pytest.mark.parametrize(
    ("new", "reasons"),
    [
        (OLD, 0),
        (TopologyShape({0: ("b", "a"), 1: ("c",)}, {0: {"x": "key-value"}}), 0),
        (
            TopologyShape({0: ("a", "b"), 1: ("c",), 2: ("d",)}, {0: {"x": "key-value", "y": "w"}, 2: {"z": "w"}}),
            0,
        ),
        (TopologyShape({0: ("a", "b")}, {0: {"x": "key-value"}}), 0),
        (TopologyShape({1: ("c",)}, {}), 1),
        (TopologyShape({0: ("a",), 1: ("c",)}, {0: {"x": "key-value"}}), 1),
        (TopologyShape({0: ("a", "b"), 1: ("c",)}, {1: {"x": "key-value"}}), 1),
        (TopologyShape({0: ("a", "b"), 1: ("c",)}, {0: {"x": "window"}}), 1),
        (TopologyShape({0: ("c",), 1: ("a", "b")}, {1: {"x": "window"}}), 4),
    ],
)
def test_only_what_both_topologies_have_must_be_the_same(new: TopologyShape, reasons: int) -> None:
    assert len(compatibility(OLD, new)) == reasons


def test_a_shape_survives_the_status_and_one_that_cannot_be_read_is_not_known() -> None:
    assert decode(encode(OLD)) == OLD
    assert decode({"sources": {"x": []}}) is None
    assert decode(None) is None


def test_a_refused_or_invalid_change_degrades_an_application_that_is_ready_all_the_same() -> None:
    fault = "spec.topology.entrypoint: no module named orders"
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(pods("one", "one", "one"))
    reconciles.plan(pods("one", "one", "one"), checks={"two": CheckSeen("two", CheckState.FAILED, (fault,))})
    assert condition(reconciles.status, "Ready").status == "True"
    assert (condition(reconciles.status, "Degraded").reason, condition(reconciles.status, "Degraded").status) == (
        "TopologyRefused",
        "True",
    )
    reconciles.app = InvalidSpec("app", "ns", "uid", 2, ("spec.replicas: must be a number",))
    reconciles.plan(pods("one", "one", "one"))
    assert condition(reconciles.status, "Ready").status == "True"
    degraded = condition(reconciles.status, "Degraded")
    assert degraded.reason == "InvalidSpec"
    assert "spec.replicas: must be a number" in degraded.message
    assert fault in degraded.message, "each thing that is wrong is told"


def test_degraded_does_not_flap_between_the_crashes_of_a_container() -> None:
    reconciles = Reconciles(wanted())
    crashed = {"restarts": 2, "last_exit": "exit 1: no such topic"}
    waits = [*pods("one", "one"), broken(2, "CrashLoopBackOff", "one", **crashed)]
    reconciles.plan(waits)
    since = condition(reconciles.status, "Degraded").last_transition_time
    runs = pods("one", "one", "one")
    for ready in (False, True):
        seen = [*runs[:2], replace(runs[2], ready=ready, running_since=reconciles.now - 10, **crashed)]  # type: ignore[arg-type]
        reconciles.plan(seen)
        degraded = condition(reconciles.status, "Degraded")
        assert (degraded.status, degraded.last_transition_time) == ("True", since)
        assert "no such topic" in degraded.message
    reconciles.plan([*runs[:2], replace(runs[2], running_since=reconciles.now - 70, **crashed)])  # type: ignore[arg-type]
    assert condition(reconciles.status, "Degraded").status == "False"


def test_what_the_last_turn_could_not_do_is_told_with_its_reason() -> None:
    seen = replace(observed(pods("one", "one", "one")), trouble=Trouble("NameTaken", "there is a Secret 'app-http'"))
    degraded = condition(plan(wanted(), seen, Reconciles(wanted()).status, NOW).status, "Degraded")
    assert (degraded.status, degraded.reason, degraded.message) == ("True", "NameTaken", "there is a Secret 'app-http'")


def test_a_task_without_a_snapshot_is_not_told_to_set_what_is_set() -> None:
    reconciles = Reconciles(wanted())
    alone = active("0_0", has_remote_state=True)
    reconciles.plan([pod(0, alone), pod(1), pod(2)])
    (blocker,) = reconciles.status.restart.blockers
    assert blocker.reason.startswith("NoStandby: ")
    assert "spec.remoteState" not in blocker.reason
    assert "object store" in blocker.reason


def saying(**changes: Any) -> list[PodSeen]:
    """Three pods with addresses, whose answers have this."""
    runs = pods("one", "one", "one")
    ours = tuple(f"10.0.0.{it.ordinal}:8080" for it in runs)
    return [
        replace(it, address=f"10.0.0.{it.ordinal}", report=replace(it.report, **({"peers": ours} | changes)))
        for it in runs
        if it.report is not None
    ]


@pytest.mark.parametrize(
    ("name", "reason", "lacks", "words"),
    [
        ("kafka", "KafkaUnreachable", "reach Kafka", "processing, commits and restarts wait for it"),
        ("remoteState", "ObjectStoreUnreachable", "use the object store", "snapshots wait for it"),
    ],
)
def test_what_pods_cannot_reach_is_named_with_since_when_and_what_waits_for_it(
    name: str, reason: str, lacks: str, words: str
) -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(saying(outages=(Outage(name, "far:9092", reconciles.now - 120, "no route to host"),)))
    degraded = condition(reconciles.status, "Degraded")
    assert (degraded.status, degraded.reason) == ("True", reason)
    assert f"app-0, app-1, app-2 cannot {lacks}" in degraded.message
    assert "at far:9092 since 2023-11-14T22:11:21Z: no route to host" in degraded.message
    assert words in degraded.message
    reconciles.plan(saying())
    assert condition(reconciles.status, "Degraded").status == "False"


def test_another_member_of_the_group_is_named_once_all_pods_are_settled() -> None:
    reconciles = Reconciles(wanted())
    stranger = ("10.0.0.0:8080", "10.0.0.1:8080", "10.0.0.2:8080", "10.9.9.9:8080")
    unsettled = saying(peers=stranger)
    reconciles.plan([*unsettled[:2], replace(unsettled[2], ready=False)])
    assert "10.9.9.9" not in condition(reconciles.status, "Degraded").message
    reconciles.plan(saying(peers=stranger))
    degraded = condition(reconciles.status, "Degraded")
    assert degraded.reason == "ApplicationIdTaken"
    assert degraded.message.startswith("10.9.9.9:8080 is in its consumer group and none of its pods: ")
    assert "spec.applicationId" in degraded.message
    reconciles.plan(saying())
    assert condition(reconciles.status, "Degraded").status == "False"


def test_another_application_with_the_same_application_id_is_named() -> None:
    seen = replace(observed(pods("one", "one", "one")), rivals=("ns/other",))
    degraded = condition(plan(wanted(), seen, Reconciles(wanted()).status, NOW).status, "Degraded")
    assert degraded.reason == "ApplicationIdTaken"
    assert degraded.message.startswith("StreamsApp ns/other has the same application id")


def test_a_sum_of_lags_is_no_larger_than_the_resource_takes() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan([pod(it, active(f"0_{it}", input_lag=2**63 - 1)) for it in range(3)])
    assert reconciles.status.input_lag == 2**63 - 1


def test_columns_have_pods_the_rollout_and_what_is_wrong_as_texts() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one", "one"))
    assert (reconciles.status.pods, reconciles.rollout.pods, reconciles.status.message) == ("3/3", "3/3", "")
    reconciles.plan([*pods("one", "one"), broken(2, "CrashLoopBackOff", "one", last_exit=f"exit 1: {'x' * 300}")])
    assert (reconciles.status.pods, reconciles.rollout.pods) == ("2/3", "2/3")
    assert reconciles.status.message.startswith("app-2: CrashLoopBackOff: exit 1: xxx")
    assert (len(reconciles.status.message), reconciles.status.message[-3:]) == (160, "...")


def test_the_message_is_there_where_nothing_runs_or_a_reconcile_fails() -> None:
    invalid = InvalidSpec("app", "ns", "uid", 1, ("spec.replicas: expected an integer",))
    never = plan(invalid, observed([], replicas=None), AppStatus(), NOW).status
    assert (never.pods, never.message) == ("", "spec.replicas: expected an integer")
    troubled = with_trouble(never, Trouble("NameTaken", "Service app exists"), 1, NOW)
    assert troubled.message == "Service app exists"
