"""Pods as the API server has them, and what is read from them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from streamsapp_operator.observe.exchange import Address
from streamsapp_operator.observe.pods import address_of, ended_members, ordinal_of, pod_seen

POD: dict[str, Any] = {
    "metadata": {
        "name": "app-2",
        "uid": "u",
        "resourceVersion": "77",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"streamsapp.dev/name": "app", "streamsapp.dev/revision": "r1"},
        "ownerReferences": [{"kind": "StatefulSet", "name": "app", "uid": "s", "controller": True}],
    },
    "spec": {
        "containers": [
            {"name": "sidecar", "ports": [{"name": "http", "containerPort": 1}]},
            {"name": "runtime", "ports": [{"name": "http", "containerPort": 9000}]},
        ],
        "volumes": [
            {"name": "kafka", "secret": {"secretName": "kafka-credentials"}},
            {"name": "perhaps", "secret": {"secretName": "optional-one", "optional": True}},
            {"name": "state", "emptyDir": {}},
        ],
    },
    "status": {
        "phase": "Running",
        "podIP": "10.0.0.7",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [
            {"name": "sidecar", "restartCount": 9, "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
            {"name": "runtime", "restartCount": 2, "state": {"running": {}}},
        ],
    },
}


def pod(**status: Any) -> dict[str, Any]:
    made = copy.deepcopy(POD)
    made["status"] |= status
    return made


def runtime(**status: Any) -> list[dict[str, Any]]:
    return [{"name": "runtime", "restartCount": 3, **status}]


def test_reads_a_pod_that_runs() -> None:
    seen = pod_seen(POD, 2, "not asked")
    assert (seen.name, seen.uid, seen.ordinal, seen.revision, seen.ready) == ("app-2", "u", 2, "r1", True)
    assert (seen.terminating, seen.created_at, seen.resource_version) == (False, 1767225600.0, "77")
    assert (seen.restarts, seen.waiting_reason, seen.last_exit) == (2, None, None)
    assert (seen.report, seen.unreachable) == (None, "not asked")


def test_a_pod_is_the_applications_if_its_stateful_set_made_it() -> None:
    assert ordinal_of(POD, "app") == 2
    stray = copy.deepcopy(POD)
    del stray["metadata"]["ownerReferences"]
    assert ordinal_of(stray, "app") is None
    assert ordinal_of(POD, "other") is None
    odd = copy.deepcopy(POD)
    odd["metadata"]["name"] = "app-x"
    assert ordinal_of(odd, "app") is None


def test_is_asked_at_the_port_of_its_own_container_while_it_runs() -> None:
    assert address_of(POD) == Address("10.0.0.7", 9000)
    assert address_of(pod(phase="Pending")) is None
    assert address_of(pod(podIP=None)) is None
    assert str(Address("fd00::7", 8080)) == "[fd00::7]:8080"


def test_tells_that_no_node_takes_it() -> None:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]
    seen = pod_seen(pod(phase="Pending", conditions=conditions, containerStatuses=[]), 2, "")
    assert (seen.ready, seen.waiting_reason, seen.waiting_message) == (False, "Unschedulable", "0/1 nodes")


def test_tells_which_secrets_a_pod_needs_that_does_not_start() -> None:
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    seen = pod_seen(pod(phase="Pending", containerStatuses=runtime(state=waiting)), 2, "")
    assert seen.waiting_message == "it starts once its volumes are there; it needs Secret kafka-credentials"


def test_an_init_container_that_fails_is_why_it_does_not_run() -> None:
    init = [{"name": "init", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]
    main = runtime(state={"waiting": {"reason": "PodInitializing"}})
    seen = pod_seen(pod(phase="Pending", initContainerStatuses=init, containerStatuses=main), 2, "")
    assert (seen.waiting_reason, seen.waiting_message) == ("ImagePullBackOff", "no such image")


@pytest.mark.parametrize(
    ("ended", "told"),
    [
        ({"exitCode": 2, "reason": "Error", "message": "spec.kafka: ...\n"}, "exit 2: spec.kafka: ..."),
        ({"exitCode": 137, "reason": "OOMKilled"}, "exit 137 (OOMKilled)"),
        ({"exitCode": 0, "reason": "Completed"}, "exit 0"),
        ({"exitCode": 1, "message": "x" * 5000}, f"exit 1: {'x' * 989}..."),
        ({"exitCode": 1, "message": 'cut"}\n{"level": "INFO", "message": "a"}\n{"message": "b"}\n'}, "exit 1: b"),
        ({"exitCode": 2, "message": 'cut"}\n{"message": "a"}\nspec.a: x\nspec.b: y\n'}, "exit 2: spec.a: x; spec.b: y"),
        ({"exitCode": 1, "message": 'Traceback:\n  File "a"\nKeyError: 1'}, "exit 1: KeyError: 1"),
        (
            {
                "exitCode": 1,
                "message": '{"level": "ERROR", "message": "task 0_1 failed", "exception": "Traceback (most recent call '
                'last):\\n  File \\"a.py\\", line 3\\nZeroDivisionError: division by zero"}\n'
                '{"level": "WARNING", "message": "left the group"}\n{"level": "INFO", "message": "closed"}\n',
            },
            "exit 1: task 0_1 failed: ZeroDivisionError: division by zero",
        ),
        (
            {
                "exitCode": 1,
                "message": '{"level": "INFO", "message": "starts"}\nTraceback (most recent call last):\n  File "a.py"\n'
                "    x()\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n"
                'Traceback (most recent call last):\n  File "b.py"\nstreamsapp.errors.TopologyError: no such store\n',
            },
            "exit 1: streamsapp.errors.TopologyError: no such store",
        ),
        (
            {
                "exitCode": 1,
                "message": '{"level": "ERROR", "message": "first"}\n{"level": "ERROR", "message": "last"}\n',
            },
            "exit 1: last",
        ),
        (
            {"exitCode": 1, "message": '{"level": "INFO", "message": "a"}\n{"level": "INFO", "message": "b"}'},
            "exit 1: b",
        ),
    ],
)
def test_tells_how_its_container_ended(ended: dict[str, Any], told: str) -> None:
    crashed = runtime(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": ended})
    seen = pod_seen(pod(containerStatuses=crashed), 2, "")
    assert seen.last_exit == told
    assert seen.waiting_reason == "CrashLoopBackOff"


def notice(*members: str) -> dict[str, Any]:
    return {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": json.dumps({"members": members})}}


def test_a_container_that_ended_has_named_its_members() -> None:
    """Its message is none for people."""
    ended = pod(containerStatuses=runtime(state=notice("a", "b"), lastState=notice("c")))

    assert list(ended_members(ended)) == ["a", "b", "c"]
    assert pod_seen(ended, 2, "").last_exit == "exit 137 (OOMKilled)"


@pytest.mark.parametrize(
    "containers",
    [
        [],
        runtime(state={"running": {}}),
        runtime(state={"waiting": {"reason": "CrashLoopBackOff"}}, lastState={"terminated": {"message": "exit"}}),
        runtime(state={"terminated": {"exitCode": 0}}),
        [{"name": "sidecar", "state": notice("of-another-program")}],
    ],
)
def test_no_other_container_names_members(containers: list[dict[str, Any]]) -> None:
    assert list(ended_members(pod(containerStatuses=containers))) == []


def test_reads_a_pod_that_was_made_a_moment_ago() -> None:
    new = copy.deepcopy(POD)
    new["status"] = {}
    seen = pod_seen(new, 2, "it does not run")
    assert (seen.phase, seen.ready, seen.waiting_reason, seen.restarts) == ("Pending", False, None, 0)


def test_reads_how_far_a_container_came() -> None:
    running = {"running": {"startedAt": "2026-01-01T00:00:10Z"}}
    seen = pod_seen(pod(containerStatuses=runtime(started=False, ready=True, state=running)), 2, "")
    assert (seen.started, seen.answers_probes, seen.running_since) == (False, True, 1767225610.0)
    seen = pod_seen(pod(containerStatuses=runtime(state={"waiting": {"reason": "X"}})), 2, "")
    assert (seen.started, seen.answers_probes, seen.running_since) == (None, False, None)


@pytest.mark.parametrize(
    ("status", "changed", "was_ready"),
    [("True", "00:00:01", True), ("False", "00:00:01", False), ("False", "00:07:00", True), ("False", None, False)],
)
def test_a_pod_that_became_not_ready_after_it_was_taken_on_was_ready_before(
    status: str, changed: str | None, was_ready: bool
) -> None:
    at = {} if changed is None else {"lastTransitionTime": f"2026-01-01T{changed}Z"}
    conditions = [{"type": "Ready", "status": status, **at}]
    assert pod_seen(pod(startTime="2026-01-01T00:00:00Z", conditions=conditions), 2, "").was_ready == was_ready


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "CrashLoopBackOff"])
def test_a_sidecar_that_does_not_run_is_not_why_a_pod_whose_application_runs_does_not(reason: str) -> None:
    sidecar = [{"name": "proxy", "state": {"waiting": {"reason": reason}}}]
    running = runtime(state={"running": {"startedAt": "2026-01-01T00:00:10Z"}})
    seen = pod_seen(pod(initContainerStatuses=sidecar, containerStatuses=running), 2, "it hangs")
    assert (seen.waiting_reason, seen.waiting_message) == (None, None)
    crashed = runtime(state={"waiting": {"reason": "CreateContainerError"}})
    seen = pod_seen(pod(initContainerStatuses=sidecar, containerStatuses=crashed), 2, "")
    assert seen.waiting_reason == reason


def on_node(ready: str, containers: str, **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}, {"type": "ContainersReady", "status": containers}]
    made = pod(conditions=[*conditions, {"type": "gate/a", "status": "False"}])
    made["spec"] |= {"nodeName": "worker-2", **spec}
    return made


def test_a_pod_whose_containers_are_ready_and_that_is_not_is_on_a_silent_node() -> None:
    """Only the node controller makes such a pod; a kubelet writes both conditions in one."""
    seen = pod_seen(on_node("False", "True"), 2, "not asked")
    assert (seen.node, seen.node_lost, seen.ready) == ("worker-2", True, False)


@pytest.mark.parametrize(
    "made",
    [
        on_node("True", "True"),
        on_node("False", "False"),
        on_node("False", "Unknown"),
        on_node("False", "True", readinessGates=[{"conditionType": "gate/a"}]),
        on_node("False", "True", nodeName=None),
        pod(conditions=[]),
    ],
)
def test_other_pods_that_are_not_ready_say_nothing_of_their_node(made: dict[str, Any]) -> None:
    assert not pod_seen(made, 2, "not asked").node_lost
