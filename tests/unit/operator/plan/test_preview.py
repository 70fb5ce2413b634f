"""A new revision runs on a copy of the state before the first pod restarts for it, and is held if results differ."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from observed_builders import ROLLOUT, passed, wanted
from planned_reconciles import Reconciles, has, only, three, told
from streamsapp.manifest.model import PreviewSpec
from streamsapp_operator.model.actions import ApplyChildren, DeletePreview, Evict, StartPreview
from streamsapp_operator.model.desired_state import AnnotationRequests, DesiredState
from streamsapp_operator.model.observed_state import JobSeen, JobState, PreviewResult, PreviewSeen
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import Condition, PreviewStatus
from streamsapp_operator.plan import ReconcilePlan

ASKED = structs.replace(ROLLOUT, preview=PreviewSpec(records=500, max_differences=2))
APP = wanted("two", rollout=ASKED, preview="a1")
ATTEMPT = "one-two-a1"
FIRST = "store counts, key 'a': today 1, tomorrow 2"


def job(state: JobState, message: str | None = None, attempt: str = ATTEMPT, *, stuck: bool = False) -> PreviewSeen:
    return PreviewSeen(JobSeen(attempt, "two", state, message, stuck))


def compared(differences: int, keys: int = 10) -> PreviewSeen:
    return replace(job(JobState.DONE), result=PreviewResult(600, keys, differences, (FIRST,) * bool(differences)))


def reconcile(reconciles: Reconciles, seen: PreviewSeen | None, template: str = "one", **more: str) -> ReconcilePlan:
    """By an operator that knows nothing but the status."""
    reconciles.status = from_document(to_document(reconciles.status))
    return reconciles.plan(three(more.get("first", "one"), "one", "one"), preview=seen, template_revision=template)


def begun(app: DesiredState = APP) -> tuple[Reconciles, ReconcilePlan]:
    """The check of the new revision has just passed."""
    reconciles = Reconciles(app)
    assert not has(reconciles.plan(three()), StartPreview)
    return reconciles, reconciles.plan(three(), checks=passed("two"))


def preview(reconciles: Reconciles) -> PreviewStatus:
    assert reconciles.rollout.preview is not None
    return reconciles.rollout.preview


def condition(reconciles: Reconciles) -> Condition:
    return next(it for it in reconciles.status.conditions if it.type == "Previewed")


def approved(reconciles: Reconciles) -> None:
    assert isinstance(reconciles.app, DesiredState)
    reconciles.app = replace(reconciles.app, requests=AnnotationRequests(approved="two"))


def test_the_job_starts_when_the_check_has_passed_and_no_pod_is_taken_before_it_is_done() -> None:
    reconciles, planned = begun()
    assert only(planned, StartPreview) == StartPreview(ATTEMPT, "two", "one")
    assert only(planned, ApplyChildren).revision == "one", "a pod that comes back by itself has the last good revision"
    assert "PreviewStarted" in told(planned)
    assert has(reconcile(reconciles, None), StartPreview), "an operator that died before it was made makes it"
    for state in (JobState.WAITING, JobState.RUNNING):
        planned = reconcile(reconciles, job(state))
        assert not has(planned, Evict)
        assert not has(planned, StartPreview)
        assert only(planned, ApplyChildren).revision == "one"
    assert (reconciles.rollout.phase, preview(reconciles).phase) == ("Paused", "Running")
    assert "previewed" in (reconciles.rollout.message or "")
    assert condition(reconciles).status == "Unknown"


def test_a_revision_that_differs_as_little_as_it_may_goes_on() -> None:
    reconciles, _ = begun()
    planned = reconcile(reconciles, compared(2))
    assert only(planned, ApplyChildren).revision == "two"
    assert not has(planned, DeletePreview), "the result is in the status before the Job goes"
    assert (condition(reconciles).status, condition(reconciles).reason) == ("True", "Differs")
    assert condition(reconciles).message == f"2 of 10 keys have other results or state after 600 records; {FIRST}"
    planned = reconcile(reconciles, compared(2), template="two")
    assert has(planned, Evict)
    assert has(planned, DeletePreview)
    assert not has(reconcile(reconciles, None, template="two"), StartPreview)
    assert not has(reconcile(reconciles, None, template="two", first="two"), StartPreview)
    assert preview(reconciles).differences == 2, "it is told as long as the revision is the last one"


def test_a_revision_that_differs_in_more_keys_is_held_until_it_is_approved() -> None:
    reconciles, _ = begun()
    planned = reconcile(reconciles, compared(3))
    assert "PreviewDiffers" in told(planned)
    for seen in (compared(3), None):
        planned = reconcile(reconciles, seen)
        assert not has(planned, Evict)
        assert only(planned, ApplyChildren).revision == "one"
    assert reconciles.rollout.phase == "Paused"
    assert reconciles.rollout.message == (
        "its preview found that 3 of 10 keys have other results or state after 600 records, more than 2 "
        "(spec.rollout.preview.maxDifferences); `kubectl streamsapp approve` lets it go on, another revision is "
        "previewed anew"
    )
    assert (condition(reconciles).status, condition(reconciles).reason) == ("False", "TooManyDifferences")
    approved(reconciles)
    assert only(reconcile(reconciles, None), ApplyChildren).revision == "two"
    assert has(reconcile(reconciles, None, template="two"), Evict)


def test_a_higher_limit_lets_the_rollout_go_on_without_another_preview() -> None:
    reconciles, _ = begun()
    reconcile(reconciles, compared(3))
    more = structs.replace(APP.rollout, preview=PreviewSpec(records=500, max_differences=3))
    reconciles.app = replace(APP, rollout=more)
    planned = reconcile(reconciles, None)
    assert not has(planned, StartPreview)
    assert only(planned, ApplyChildren).revision == "two"


def test_a_preview_that_fails_holds_the_rollout_and_says_why() -> None:
    reconciles, _ = begun()
    planned = reconcile(reconciles, job(JobState.FAILED, "exit 1: tomorrow's program fails: KeyError"))
    assert "PreviewFailed" in told(planned)
    for seen in (job(JobState.FAILED, "exit 1"), None):
        planned = reconcile(reconciles, seen)
        assert not has(planned, Evict)
        assert not has(planned, StartPreview), "what failed is not tried again by itself"
    assert "its preview failed: exit 1" in (reconciles.rollout.message or "")
    assert (condition(reconciles).status, condition(reconciles).reason) == ("False", "PreviewFailed")
    approved(reconciles)
    assert only(reconcile(reconciles, None), ApplyChildren).revision == "two"


@pytest.mark.parametrize(
    "seen", [job(JobState.FAILED, "exit 137"), job(JobState.WAITING, "ImagePullBackOff", stuck=True)]
)
def test_with_another_image_or_with_more_memory_it_is_tried_anew(seen: PreviewSeen) -> None:
    reconciles, _ = begun()
    reconcile(reconciles, seen)
    reconciles.app = replace(APP, preview="b2")
    planned = reconcile(reconciles, seen)
    assert has(planned, DeletePreview)
    assert not has(planned, StartPreview)
    assert only(reconcile(reconciles, None), StartPreview).attempt == "one-two-b2"


def test_another_revision_is_previewed_when_the_job_of_the_one_before_is_gone() -> None:
    reconciles, _ = begun()
    reconcile(reconciles, compared(3))
    reconciles.app = replace(APP, revision="three")
    old = job(JobState.RUNNING)
    assert has(reconcile(reconciles, old), DeletePreview)
    planned = reconciles.plan(three(), preview=old, checks=passed("three"), template_revision="one")
    assert has(planned, DeletePreview)
    assert not has(planned, StartPreview)
    assert not has(reconcile(reconciles, job(JobState.ENDING)), DeletePreview)
    assert only(reconcile(reconciles, None), StartPreview) == StartPreview("one-three-a1", "three", "one")


def test_nothing_is_previewed_that_nobody_asked_for_or_that_begins_nothing() -> None:
    for app in (
        wanted("two"),
        replace(APP, revision="one"),
        replace(APP, replicas=0),
        replace(APP, requests=AnnotationRequests(approved="two")),
    ):
        _, planned = begun(app)
        assert not has(planned, StartPreview)


def test_a_preview_that_compared_nothing_says_so_and_holds_nothing() -> None:
    reconciles, _ = begun()
    planned = reconcile(reconciles, compared(0, keys=0))
    assert only(planned, ApplyChildren).revision == "two"
    assert (condition(reconciles).status, condition(reconciles).reason) == ("Unknown", "NothingCompared")


def test_a_preview_whose_pod_cannot_run_is_told_with_the_way_past_it() -> None:
    reconciles, _ = begun()
    reconcile(reconciles, job(JobState.WAITING, "ImagePullBackOff: no such image", stuck=True))
    assert reconciles.rollout.message == (
        "the new revision is previewed on a copy of the state: ImagePullBackOff: no such image; "
        "`kubectl streamsapp approve` lets it go on without its result"
    )
    degraded = next(it for it in reconciles.status.conditions if it.type == "Degraded")
    assert (degraded.reason, degraded.message) == (
        "PodFailing",
        "the preview's pod does not run: ImagePullBackOff: no such image",
    )
