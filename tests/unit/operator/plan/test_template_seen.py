"""A pod that is taken away comes back as the StatefulSet's controller knows it, perhaps not as it was applied."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from observed_builders import NOW, SHAPE, observed, pod, pods, wanted
from streamsapp_operator.model.actions import Evict
from streamsapp_operator.model.status import AppStatus, RolloutStatus
from streamsapp_operator.observe.observer import children_seen
from streamsapp_operator.plan import plan
from streamsapp_operator.plan.topology_compatibility import encode


@pytest.mark.parametrize(("seen", "evicted"), [(True, 1), (False, 0)])
def test_no_pod_is_taken_whose_replacement_would_have_the_old_revision(seen: bool, evicted: int) -> None:
    rolling = RolloutStatus(revision="two", phase="Rolling", checked=True, shape=encode(SHAPE))
    status = AppStatus(last_good_revision="one", shape=encode(SHAPE), rollout=rolling, target_replicas=3)
    state = observed(pods("one", "one", "one"), template_revision="two", template_seen=seen)

    planned = plan(wanted("two"), state, status, NOW)

    assert sum(isinstance(action, Evict) for action in planned.actions) == evicted


def test_a_first_pod_that_was_made_late_is_rolled_back_at_its_own_deadline_and_not_given_up_before() -> None:
    begun = datetime.fromtimestamp(NOW - 305, UTC)
    rolling = RolloutStatus(
        revision="two",
        phase="Rolling",
        checked=True,
        shape=encode(SHAPE),
        current="app-2",
        current_uid="one-2",
        step_started_at=begun,
    )
    status = AppStatus(last_good_revision="one", shape=encode(SHAPE), rollout=rolling, target_replicas=3)

    def phase_when_the_pod_is(seconds: float) -> str | None:
        young = pod(2, revision="two", ready=False, created_at=NOW - seconds)
        seen = observed([*pods("one", "one", "one")[:2], young], template_revision="two")
        rollout = plan(wanted("two"), seen, status, NOW).status.rollout
        return None if rollout is None else rollout.phase

    assert phase_when_the_pod_is(295) == "Rolling"
    assert phase_when_the_pod_is(301) == "RollingBack"


@pytest.mark.parametrize(
    ("status", "seen"), [({"observedGeneration": 2}, True), ({"observedGeneration": 1}, False), ({}, False)]
)
def test_a_template_is_seen_once_the_controller_says_so(status: dict[str, Any], seen: bool) -> None:
    stateful_set = {
        "metadata": {"generation": 2},
        "spec": {"replicas": 3, "template": {"metadata": {"labels": {"streamsapp.dev/revision": "two"}}}},
        "status": status,
    }

    assert children_seen({"StatefulSet/app": stateful_set}, "app").template_seen is seen
