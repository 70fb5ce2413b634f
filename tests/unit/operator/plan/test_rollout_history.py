from __future__ import annotations

from dataclasses import replace

from msgspec.structs import replace as changed

from observed_builders import passed, wanted
from planned_reconciles import RUNS, Reconciles, three
from streamsapp_operator.model.observed_state import CheckSeen, CheckState
from streamsapp_operator.model.status import Phase, RolloutRecord, RolloutStatus
from streamsapp_operator.plan.plan_input import moment
from streamsapp_operator.plan.rollout_history import ROLLOUTS, STEPS, remembered


def test_the_restart_of_each_pod_is_remembered_with_what_was_predicted_and_what_it_cost() -> None:
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three())
    reconciles.plan(three(), checks=passed("two"))
    reconciles.plan(three(), template_revision="two")
    began = reconciles.rollout
    assert began.current is not None
    back = [replace(it, revision="two", uid="new") if it.name == began.current else it for it in three()]
    reconciles.plan(back, after=4.0, template_revision="two")
    record = reconciles.status.history[0]
    assert (record.revision, record.phase, record.ended_at) == ("two", "Rolling", None)
    [step] = record.steps
    assert (step.pod, step.started_at, step.predicted_seconds) == (
        began.current,
        began.step_started_at,
        began.predicted_seconds,
    )
    assert step.observed_seconds == 4.0


def test_a_rollout_has_one_record_from_its_check_on() -> None:
    reconciles = Reconciles(wanted("two"))
    for checks in ({}, passed("two"), {}):
        reconciles.plan(three(), checks=checks, template_revision="two")
        assert [it.revision for it in reconciles.status.history] == ["two"]
    assert reconciles.status.history[0].started_at == reconciles.rollout.started_at


def test_a_rollout_that_was_refused_and_is_allowed_later_is_another_one() -> None:
    status, now = RUNS, moment(0)
    phases: list[tuple[Phase, int]] = [("Checking", 0), ("Refused", 0), ("Rolling", 9), ("Complete", 9)]
    for phase, began in phases:
        rollout = RolloutStatus(revision="two", phase=phase, started_at=moment(began))
        status = changed(status, history=remembered(status, rollout, set(), now), rollout=rollout)
    assert [(it.phase, it.started_at) for it in status.history] == [("Complete", moment(9)), ("Refused", moment(0))]


def test_a_rollout_that_ended_says_when_and_why_and_the_next_is_put_before_it() -> None:
    reconciles = Reconciles(wanted("two"))
    reconciles.plan(three())
    reconciles.plan(three(), checks={"two": CheckSeen("two", CheckState.FAILED, ("no module named orders",))})
    refused = reconciles.status.history[0]
    assert (refused.revision, refused.phase, refused.failure) == ("two", "Refused", "no module named orders")
    assert refused.ended_at == moment(reconciles.now)
    reconciles.app = wanted("three")
    reconciles.plan(three())
    reconciles.plan(three())
    assert [(it.revision, it.phase) for it in reconciles.status.history[:2]] == [
        ("three", "Checking"),
        ("two", "Refused"),
    ]
    assert reconciles.status.history[1] == refused


def test_a_rollout_whose_end_nobody_saw_has_no_time_of_it() -> None:
    reconciles = Reconciles(wanted("one"))
    reconciles.plan(three())
    assert [(it.revision, it.phase, it.ended_at) for it in reconciles.status.history] == [("one", "Complete", None)]


def test_the_history_is_as_long_as_it_may_be_and_no_longer() -> None:
    status, now = RUNS, moment(0)
    for number in range(2 * ROLLOUTS):
        rollout = RolloutStatus(revision=str(number), phase="Rolling", started_at=now)
        status = changed(status, rollout=rollout, history=remembered(status, rollout, set(), now))
    for number in range(2 * STEPS):
        taken = changed(rollout, current=f"app-{number}", current_uid=f"uid-{number}")
        status = changed(status, rollout=taken)
        status = changed(status, rollout=rollout, history=remembered(status, rollout, set(), now))
    assert [it.revision for it in status.history] == [str(it) for it in reversed(range(ROLLOUTS, 2 * ROLLOUTS))]
    assert [it.pod for it in status.history[0].steps] == [f"app-{it}" for it in range(STEPS, 2 * STEPS)]


def test_a_pod_that_is_still_there_was_not_restarted() -> None:
    taken = RolloutStatus(revision="two", phase="Rolling", current="app-0", current_uid="one-0")
    before = changed(RUNS, rollout=taken, history=(RolloutRecord(revision="two"),))
    given_up = changed(taken, current=None, current_uid=None)
    [record] = remembered(before, given_up, {"one-0"}, moment(0))
    assert record.steps == ()
