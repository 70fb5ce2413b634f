"""The Jobs of bootstraps and previews: their results, and the words of their pods."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamsapp_operator.model.observed_state import JobSeen, JobState, PreviewResult, PreviewSeen
from streamsapp_operator.observe.jobs import job_seen, preview_seen, run_seen


def seen(*pods: dict[str, Any], condition: dict[str, str] | None = None, **metadata: Any) -> JobSeen:
    return job_seen(job(condition, **metadata), pods)


def job(condition: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    conditions = [] if condition is None else [{"status": "True", **condition}]
    return {
        "metadata": {
            "name": "app-bootstrap",
            "annotations": {"streamsapp.dev/attempt": "a1"},
            "labels": {"streamsapp.dev/revision": "r1"},
            **metadata,
        },
        "status": {"conditions": conditions},
    }


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


LATE = {"type": "Failed", "reason": "DeadlineExceeded", "message": "Job was active longer than specified deadline"}


def test_one_that_misses_its_deadline_names_the_field_and_the_remedy() -> None:
    made = job(LATE) | {"spec": {"activeDeadlineSeconds": 60}}
    preview = preview_seen(made, [ended(143, "told to end")]).job
    assert preview.state is JobState.FAILED
    assert preview.message == (
        "it did not end within 60 s (spec.rollout.preview.deadlineSeconds): allow it more, or "
        "spec.rollout.preview.resources, or ask for fewer records"
    )
    made["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    told = run_seen(made, []).job
    assert told.state is JobState.FAILED
    assert (told.message or "").startswith("it did not end within 60 s (spec.spark.deadlineSeconds): what it committed")


def test_knows_what_it_is_made_of() -> None:
    found = seen()
    assert (found.attempt, found.revision) == ("a1", "r1")


def test_it_is_done_when_the_job_is_complete_even_while_it_is_deleted() -> None:
    assert seen(condition={"type": "Complete"}).state is JobState.DONE
    assert seen(condition={"type": "Complete"}, deletionTimestamp="now").state is JobState.DONE


@pytest.mark.parametrize("phase", ["Running", "Succeeded"])
def test_one_whose_pod_has_ended_well_runs_until_the_job_is_complete_and_is_not_tried_again(phase: str) -> None:
    well = pod(phase, 1, {"terminated": {"exitCode": 0, "message": '{"inputLag":0}'}})
    found = seen(well)
    assert (found.state, found.message) == (JobState.RUNNING, None)
    assert seen(ended(137, "", 0), well).message == "it is tried again after exit 137"


def test_one_that_is_deleted_is_ending_whatever_its_pods_do() -> None:
    assert seen(pod("Running", state=RUNS), deletionTimestamp="now").state is JobState.ENDING
    assert seen(condition=FAILED, deletionTimestamp="now").state is JobState.ENDING


def test_why_it_failed_is_what_the_last_pod_said() -> None:
    found = seen(ended(2, "spec.kafka: no brokers\nspec.x: y", 2), ended(1, "earlier", 1), condition=FAILED)
    assert found.state is JobState.FAILED
    assert found.message == "exit 2: spec.kafka: no brokers; spec.x: y"


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_one_that_is_heard_to_fail_before_its_last_pod_is_has_not_failed_yet(phase: str) -> None:
    late = pod(phase, 1, RUNS if phase == "Running" else None)
    assert seen(ended(1, "earlier"), late, condition=FAILED).state is not JobState.FAILED
    late["metadata"]["deletionTimestamp"] = "now"
    assert seen(ended(1, "earlier"), late, condition=FAILED).message == "exit 1: earlier"


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


# ---- previews ------------------------------------------------------------------------------------------------------

SUMMARY: dict[str, Any] = {"records": 600, "keys": 10, "differences": 3, "first": ["key 'a'"], "notes": ["begun empty"]}


def previewed(message: str) -> PreviewSeen:
    well = pod("Succeeded", 1, {"terminated": {"exitCode": 0, "message": message}})
    return preview_seen(job({"type": "Complete"}), [ended(1, "the broker is away"), well])


def test_the_result_of_a_preview_is_what_its_last_pod_said() -> None:
    found = previewed(json.dumps(SUMMARY))
    assert found.job.state is JobState.DONE
    assert found.result == PreviewResult(600, 10, 3, ("key 'a'",), ("begun empty",))


@pytest.mark.parametrize(
    "message",
    [
        "",
        "word count: nothing differs",
        "[" * 4096,
        json.dumps(SUMMARY | {"differences": -1}),
        json.dumps(SUMMARY | {"records": 2**63}),
        json.dumps(SUMMARY | {"first": "key 'a'"}),
        json.dumps({"records": 1}),
    ],
)
def test_a_preview_without_a_result_that_can_be_read_has_failed(message: str) -> None:
    found = previewed(message)
    assert (found.job.state, found.result) == (JobState.FAILED, None)
    assert "ended without a result" in (found.job.message or "")


def test_a_preview_whose_job_is_heard_to_end_before_its_pod_is_has_not_failed() -> None:
    found = preview_seen(job({"type": "Complete"}), [ended(1, "the broker is away"), pod("Running", 1, RUNS)])
    assert (found.job.state, found.result) == (JobState.RUNNING, None)


def test_a_result_is_no_longer_than_a_status_may_be() -> None:
    found = previewed(json.dumps(SUMMARY | {"first": ["x" * 5_000] * 500}))
    assert found.result is not None
    assert sum(map(len, found.result.first)) <= 6_000


def test_a_preview_that_runs_or_failed_is_told_as_every_job() -> None:
    assert preview_seen(job(), [pod("Running", state=RUNS)]).job.state is JobState.RUNNING
    failed = preview_seen(job(FAILED), [ended(1, "tomorrow's program fails: KeyError")])
    assert (failed.job.state, failed.job.message) == (JobState.FAILED, "exit 1: tomorrow's program fails: KeyError")


# ---- scheduled runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "left"),
    [('{"inputLag": 12}', 12), ("", None), ('{"inputLag": -1}', None), (f'{{"inputLag": {2**63}}}', None)],
)
def test_a_run_says_at_its_end_how_much_input_it_left(message: str, left: int | None) -> None:
    ended_well = pod("Succeeded", state={"terminated": {"exitCode": 0, "message": message}})
    found = run_seen(job({"type": "Complete"}, creationTimestamp="2026-01-01T00:00:00Z"), [ended_well])
    assert (found.job.state, found.input_lag, found.started_at) == (JobState.DONE, left, 1_767_225_600.0)


def test_a_run_that_failed_says_why() -> None:
    found = run_seen(job(FAILED, creationTimestamp="2026-01-01T00:00:00Z"), [ended(1, "it is poisonous")])
    assert (found.job.state, found.job.message, found.input_lag) == (JobState.FAILED, "exit 1: it is poisonous", None)
