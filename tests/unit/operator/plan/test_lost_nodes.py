"""A node whose kubelet is gone is named: by the conditions, the blockers and an event. Its pods may work on."""

from __future__ import annotations

from dataclasses import replace

from observed_builders import pods, wanted
from planned_reconciles import Reconciles, told
from streamsapp_operator.model.actions import PostEvent
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import AppStatus, Condition


def condition(status: AppStatus, name: str) -> Condition:
    return next(it for it in status.conditions if it.type == name)


def lost(pod: PodSeen, node: str = "worker-2") -> PodSeen:
    return replace(pod, ready=False, answers_probes=True, node=node, node_lost=True)


def test_a_silent_node_is_named_everywhere_and_once() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one", "one"))
    first, *others = pods("one", "one", "one")
    plan = reconciles.plan([lost(first), *others])
    status = reconciles.status
    assert (condition(status, "Ready").status, condition(status, "Ready").reason) == ("False", "NodeNotReady")
    assert (condition(status, "Degraded").status, condition(status, "Degraded").reason) == ("True", "NodeNotReady")
    for each in (condition(status, "Ready").message, condition(status, "Degraded").message):
        assert f"{first.name}: its node worker-2 no longer reports to Kubernetes" in each
    (blocker,) = [it for it in status.restart.blockers if it.pod == first.name]
    assert blocker.reason.startswith("NotReady: its node worker-2 no longer reports")
    (event,) = [it for it in plan.actions if isinstance(it, PostEvent)]
    assert (event.kind, event.reason) == ("Warning", "NodeNotReady")
    assert "worker-2" in event.message
    assert "NodeNotReady" not in told(reconciles.plan([lost(first), *others]))


def test_a_node_that_comes_back_is_told() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one", "one"))
    first, *others = pods("one", "one", "one")
    reconciles.plan([lost(first), *others])
    assert "NodeReady" in told(reconciles.plan([first, *others]))
    assert condition(reconciles.status, "Degraded").status == "False"


def test_all_pods_on_silent_nodes() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one", "one"))
    first, second, third = pods("one", "one", "one")
    reconciles.plan([lost(first), lost(second), lost(third, "worker-3")])
    message = condition(reconciles.status, "Ready").message
    assert message.startswith(f"{first.name}, {second.name}: their node worker-2 no longer reports")
    assert message.endswith("the same holds for 1 more on worker-3")


def test_one_that_ends_or_does_not_answer_on_a_silent_node_says_so() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one", "one"))
    first, second, third = pods("one", "one", "one")
    silent = replace(lost(second), report=None, unreachable="no answer within 2 s")
    reconciles.plan([replace(lost(first), terminating=True), silent, third])
    reasons = {it.pod: it.reason for it in reconciles.status.restart.blockers if it.task is None}
    assert "it is about to end, and its node worker-2 no longer reports" in reasons[first.name]
    assert "no answer within 2 s, and its node worker-2 no longer reports" in reasons[second.name]
