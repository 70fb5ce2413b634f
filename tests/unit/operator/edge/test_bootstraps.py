"""The Job of a bootstrap: what it came to, and what its pods say."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp_operator.model.observed_state import BootstrapSeen, JobState
from streamsapp_operator.observe.bootstraps import bootstrap_seen


def seen(*pods: dict[str, Any], condition: dict[str, str] | None = None, **metadata: Any) -> BootstrapSeen:
    conditions = [] if condition is None else [{"status": "True", **condition}]
    job = {
        "metadata": {
            "name": "app-bootstrap",
            "annotations": {"streamsapp.dev/attempt": "a1"},
            "labels": {"streamsapp.dev/revision": "r1"},
            **metadata,
        },
        "status": {"conditions": conditions},
    }
    return bootstrap_seen(job, pods)


def pod(phase: str, number: int = 0, state: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    containers = [] if state is None else [{"name": "runtime", "restartCount": 0, "state": state}]
    return {
        "metadata": {"name": f"app-bootstrap-{number}", "creationTimestamp": f"2026-01-01T00:00:0{number}Z"},
        "spec": {},
        "status": {"phase": phase, "containerStatuses": containers, **status},
    }


def ended(code: int, message: str, number: int = 0) -> dict[str, Any]:
    return pod("Failed", number, {"terminated": {"exitCode": code, "message": message}})


RUNS: dict[str, Any] = {"running": {}}
FAILED = {"type": "Failed", "reason": "BackoffLimitExceeded", "message": "Job has reached the specified backoff limit"}


def test_knows_what_it_is_made_of() -> None:
    found = seen()
    assert (found.attempt, found.revision) == ("a1", "r1")


def test_it_is_done_when_the_job_is_complete_even_while_it_is_deleted() -> None:
    assert seen(condition={"type": "Complete"}).state is JobState.DONE
    assert seen(condition={"type": "Complete"}, deletionTimestamp="now").state is JobState.DONE
    assert seen(pod("Succeeded", state={"terminated": {"exitCode": 0}})).state is JobState.WAITING


def test_one_that_is_deleted_is_ending_whatever_its_pods_do() -> None:
    assert seen(pod("Running", state=RUNS), deletionTimestamp="now").state is JobState.ENDING
    assert seen(condition=FAILED, deletionTimestamp="now").state is JobState.ENDING


def test_why_it_failed_is_what_the_last_pod_said() -> None:
    found = seen(ended(2, "spec.kafka: no brokers\nspec.x: y", 2), ended(1, "earlier", 1), condition=FAILED)
    assert found.state is JobState.FAILED
    assert found.message == "exit 2: spec.kafka: no brokers; spec.x: y"


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ([], "Job has reached the specified backoff limit"),
        ([pod("Failed", reason="Evicted", message="disk is full")], "Evicted: disk is full"),
        ([pod("Failed", 1), ended(1, "why", 0)], "a pod was lost"),
    ],
)
def test_a_job_that_failed_without_words_of_its_own(pods: list[dict[str, Any]], message: str) -> None:
    assert seen(*pods, condition=FAILED).message == message


def test_a_try_after_another_one_says_what_became_of_that() -> None:
    found = seen(ended(137, "", 0), pod("Running", 1, RUNS))
    assert (found.state, found.message) == (JobState.RUNNING, "it is tried again after exit 137")
    between = seen(ended(1, "the store is away"))
    assert (between.state, between.message) == (JobState.WAITING, "it is tried again after exit 1: the store is away")
    assert seen(pod("Running", state=RUNS)).message is None


@pytest.mark.parametrize(
    ("waiting", "stuck"), [("ImagePullBackOff", True), ("ContainerCreating", False), ("CreateContainerError", True)]
)
def test_what_keeps_its_container_from_running(waiting: str, stuck: bool) -> None:
    found = seen(pod("Pending", state={"waiting": {"reason": waiting, "message": "words"}}))
    assert (found.state, found.message, found.stuck) == (JobState.WAITING, f"{waiting}: words", stuck)


def test_a_pod_that_no_node_takes_is_stuck() -> None:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no memory"}]
    found = seen(pod("Pending", conditions=conditions))
    assert (found.message, found.stuck) == ("Unschedulable: no memory", True)


def test_a_job_without_a_pod_says_so() -> None:
    assert (seen().state, seen().message) == (
        JobState.WAITING,
        "Job app-bootstrap has no pod yet; its events may say why",
    )
