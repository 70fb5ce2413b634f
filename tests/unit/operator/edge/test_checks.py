"""The pod that checks a revision: its findings, and the meaning of no findings."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from streamsapp_operator.model.observed_state import CheckSeen, CheckState, TopologyShape
from streamsapp_operator.observe.checks import check_seen

BORN = 1767225600.0
SHAPE = {"sources": {"0": ["lines"], "1": ["a", "b"]}, "stores": {"0": {"counts": "keyvalue"}}}


def check(status: dict[str, Any], now: float = BORN + 5) -> CheckSeen:
    labels = {"streamsapp.dev/check": "app", "streamsapp.dev/revision": "r1"}
    metadata = {"name": "app-check-r1", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": labels}
    return check_seen({"metadata": metadata, "spec": {}, "status": status}, now)


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "runtime", "restartCount": 0, "state": state}]


def ended(message: str, code: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "phase": "Succeeded",
        "containerStatuses": container(terminated={"exitCode": code, "message": message, **more}),
    }


def packed(shape: Any) -> str:
    return base64.b64encode(gzip.compress(json.dumps(shape).encode(), mtime=0)).decode()


@pytest.mark.parametrize("part", [{"shape": SHAPE}, {"shapeGz": packed(SHAPE)}])
def test_reads_the_shape_of_a_topology_that_loads(part: dict[str, Any]) -> None:
    seen = check(ended(json.dumps({"faults": [], **part})))
    assert (seen.revision, seen.state, seen.faults, seen.started_at) == ("r1", CheckState.PASSED, (), BORN)
    assert seen.shape == TopologyShape({0: ("lines",), 1: ("a", "b")}, {0: {"counts": "keyvalue"}})


def test_tells_the_faults_of_one_that_does_not() -> None:
    seen = check(ended(json.dumps({"faults": ["one", "two"]}), code=2))
    assert (seen.state, seen.faults, seen.shape) == (CheckState.FAILED, ("one", "two"), None)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Killed",
        "[]",
        '{"faults": "no"}',
        '{"shapeGz": "!!"}',
        '{"shapeGz": "aGVsbG8="}',
        json.dumps({"shapeGz": packed(["not a shape"])}),
        json.dumps({"shapeGz": packed({"sources": {"0": ["x" * (2 << 20)]}})}),
        json.dumps({"shapeGz": packed(SHAPE)[:40]}),
    ],
)
def test_a_result_that_cannot_be_read_is_a_failure_that_says_how_it_ended(message: str) -> None:
    seen = check(ended(message, code=137, reason="OOMKilled"))
    assert (seen.state, seen.shape) == (CheckState.FAILED, None)
    assert "exit 137 (OOMKilled)" in seen.faults[0]


def test_success_without_a_shape_is_none() -> None:
    assert check(ended('{"faults": []}')).state is CheckState.FAILED


def test_runs_until_it_has_ended_and_says_what_it_waits_for() -> None:
    assert check({}).state is CheckState.RUNNING
    waiting = container(waiting={"reason": "ContainerCreating"})
    assert check({"phase": "Pending", "containerStatuses": waiting}).faults == (
        "the check does not run: ContainerCreating: no more is known",
    )


def test_fails_when_its_image_cannot_be_had_for_a_while() -> None:
    status = {"phase": "Pending", "containerStatuses": container(waiting={"reason": "ErrImagePull", "message": "no"})}
    assert check(status, BORN + 29).state is CheckState.RUNNING
    late = check(status, BORN + 31)
    assert (late.state, late.faults) == (CheckState.FAILED, ("the check does not run: ErrImagePull: no",))


def test_what_its_node_did_to_it_is_no_fault_of_the_revision() -> None:
    assert check({"phase": "Failed", "reason": "Evicted"}).state is CheckState.ABSENT


def test_fails_when_it_does_not_end_in_time() -> None:
    seen = check({"phase": "Failed", "reason": "DeadlineExceeded"})
    assert seen.state is CheckState.FAILED
    assert "importing the topology" in seen.faults[0]
