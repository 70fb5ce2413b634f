"""Conditions say if the spec of this generation runs: one of UpToDate, Reconciling and Stalled is true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from observed_builders import observed, pods, wanted
from planned_reconciles import Reconciles, three, told
from streamsapp_operator.model.actions import ApplyChildren, StartCheck
from streamsapp_operator.model.desired_state import AnnotationRequests, InvalidSpec
from streamsapp_operator.model.observed_state import ChildrenSeen
from streamsapp_operator.model.status import AppStatus, Condition
from streamsapp_operator.plan import plan

NAMES = ("UpToDate", "Reconciling", "Stalled")


def states(status: AppStatus) -> tuple[str, str]:
    """Returns which of the three conditions is true, and its reason."""
    found: dict[str, Condition] = {it.type: it for it in status.conditions}
    (true,) = [name for name in NAMES if found[name].status == "True"]
    return true, found[true].reason


def test_all_pods_of_this_generation_and_ready_is_up_to_date() -> None:
    reconciles = Reconciles(wanted(generation=4))
    reconciles.plan(three())
    assert states(reconciles.status) == ("UpToDate", "UpToDate")
    (condition,) = [it for it in reconciles.status.conditions if it.type == "UpToDate"]
    assert condition.observed_generation == 4
    assert "of generation 4" in condition.message


def test_a_pod_that_is_not_ready_is_not_up_to_date() -> None:
    reconciles = Reconciles(wanted())
    first, *others = three()
    reconciles.plan([replace(first, ready=False), *others])
    assert states(reconciles.status) == ("Reconciling", "PodsNotReady")


def test_another_revision_is_reconciled_until_all_have_it() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(three())
    reconciles.app = wanted("two")
    reconciles.plan(three())
    assert states(reconciles.status)[0] == "Reconciling"


def test_a_paused_rollout_is_not_up_to_date_and_says_so() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(three())
    reconciles.app = replace(wanted("two"), requests=AnnotationRequests(paused=True))
    for _ in range(3):
        reconciles.plan(three())
    assert states(reconciles.status)[0] == "Reconciling"


def test_an_invalid_spec_stalls_also_while_what_ran_before_goes_on() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(three())
    reconciles.app = InvalidSpec("app", "ns", "u", 5, ("spec.replicas: expected an integer",))
    reconciles.plan(three())
    assert states(reconciles.status) == ("Stalled", "InvalidSpec")
    (progressing,) = [it for it in reconciles.status.conditions if it.type == "Progressing"]
    assert (progressing.status, progressing.reason) == ("False", "InvalidSpec")


@pytest.mark.parametrize("begun", [False, True])
def test_a_new_application_is_not_started_beside_an_older_one_of_its_group(begun: bool) -> None:
    children = ChildrenSeen(replicas=3, template_revision="one") if begun else ChildrenSeen()
    seen = replace(observed(three() if begun else []), children=children, rivals=("ns/first",), elder="ns/first")
    planned = plan(wanted(), seen, AppStatus(), seen.at)
    made = [it for it in planned.actions if isinstance(it, StartCheck | ApplyChildren)]
    assert bool(made) is begun
    if not begun:
        assert states(planned.status) == ("Stalled", "ApplicationIdTaken")
        assert told(planned) == ["ApplicationIdTaken"]
        assert "StreamsApp ns/first is older" in planned.status.conditions[0].message
        assert told(plan(wanted(), seen, planned.status, seen.at)) == []
        free = replace(seen, rivals=(), elder=None)
        assert any(isinstance(it, StartCheck) for it in plan(wanted(), free, planned.status, seen.at).actions)


def test_the_pods_that_are_there_are_all_that_counts() -> None:
    reconciles = Reconciles(wanted())
    reconciles.plan(pods("one", "one"))
    assert states(reconciles.status)[0] == "Reconciling"
