"""The plugin says why a pod does not run, by the same rules as the operator."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp_operator.children.names import CONTAINER
from streamsapp_operator.observe.pods import waiting
from streamsapp_operator.plugin.documents import PodAnswer, read_pod

CRASHES = {"name": CONTAINER, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
STARTS = {"name": CONTAINER, "state": {"waiting": {"reason": "PodInitializing"}}}
BROKEN_IMAGE = {"name": "init", "state": {"waiting": {"reason": "ErrImagePull"}}}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"containerStatuses": [CRASHES]}, "CrashLoopBackOff"),
        ({"containerStatuses": [STARTS], "initContainerStatuses": [BROKEN_IMAGE]}, "ErrImagePull"),
        (
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
            "Unschedulable",
        ),
    ],
)
def test_a_pod_that_does_not_run_has_the_operators_reason_as_its_phase(status: dict[str, Any], reason: str) -> None:
    pod = {"metadata": {"name": "app-0"}, "spec": {}, "status": {"phase": "Pending", **status}}

    assert waiting(pod)[0] == reason
    assert read_pod(pod, PodAnswer()).phase == reason
