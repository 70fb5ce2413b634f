from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from observed_builders import NOW, active, passed, pod, pods, store, wanted
from planned_reconciles import RUNS, Reconciles, only, three
from streamsapp_operator.gap_prediction import KEPT
from streamsapp_operator.model.actions import Evict
from streamsapp_operator.model.observed_state import HandOverReport, PodSeen, ReportedRole
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import AppStatus, ObservedGap, RolloutRecord, RolloutStatus, RolloutStep
from streamsapp_operator.plan.gap_measurement import LISTED, RETURNS


def reporting(seen: list[PodSeen], **hand_overs: tuple[float, float]) -> list[PodSeen]:
    """Pods that report their hand-overs: by the pod's name (``app_1``) when, and for how long the task stood still."""
    made = []
    for it in seen:
        found = hand_overs.get(it.name.replace("-", "_"))
        told = () if found is None else (HandOverReport("0_0", found[0], found[1], "planned"),)
        made.append(it if it.report is None else replace(it, report=replace(it.report, hand_overs=told)))
    return made


def rolling(seen: list[PodSeen] | None = None) -> Reconciles:
    """A rollout whose first pod is about to be taken."""
    reconciles = Reconciles(wanted("two"))
    seen = reporting(three()) if seen is None else seen
    reconciles.plan(seen)
    reconciles.plan(seen, checks=passed("two"))
    reconcile(reconciles, seen)
    return reconciles


def reconcile(reconciles: Reconciles, seen: list[PodSeen], after: float = 1.0) -> None:
    """By an operator that knows nothing but the status; pods' clocks stand at ``NOW``."""
    reconciles.status = from_document(to_document(reconciles.status))
    reconciles.plan(seen, template_revision="two", after=after)


def back(seen: list[PodSeen], name: str | None) -> list[PodSeen]:
    return [replace(it, revision="two", uid=f"{it.name}-two") if it.name == name else it for it in seen]


def steps(reconciles: Reconciles) -> list[RolloutStep]:
    return list(reconciles.status.history[0].steps)


def test_the_longest_hand_over_that_pods_report_is_the_gap_of_a_step() -> None:
    reconciles = rolling()
    taken = reconciles.rollout.current
    assert taken == "app-2"
    away = [it for it in three() if it.name != taken]
    reconcile(reconciles, reporting(away, app_0=(NOW, 0.07), app_1=(NOW, 0.09)))
    assert reconciles.rollout.observed_seconds == 0.09
    reconcile(reconciles, reporting(back(three(), taken), app_0=(NOW, 0.07), app_1=(NOW, 0.09)))
    assert [(it.pod, it.observed_seconds) for it in steps(reconciles)] == [("app-2", 0.09)]
    [learned] = reconciles.status.observed_gaps
    assert (learned.kind, learned.seconds, learned.reported) == ("standby", 0.09, True)


def test_hand_overs_before_the_step_and_of_a_clock_that_jumped_do_not_count() -> None:
    reconciles = rolling()
    seen = reporting(back(three(), "app-2"), app_0=(NOW - 60, 7.0), app_1=(NOW + 60, 9.0))
    reconcile(reconciles, seen)
    assert reconciles.rollout.observed_seconds is None
    assert reconciles.status.observed_gaps == ()


def test_a_hand_over_back_to_the_pod_counts_for_a_while_after_its_step() -> None:
    reconciles = rolling()
    reconcile(reconciles, reporting(back(three(), "app-2"), app_0=(NOW, 0.08)))
    assert [it.observed_seconds for it in steps(reconciles)] == [0.08]
    # The next pod is held, so that no other step begins.
    reconciles.app = replace(reconciles.app, requests=replace(reconciles.app.requests, paused=True))
    reconcile(reconciles, reporting(back(three(), "app-2"), app_0=(NOW, 0.08), app_2=(NOW, 0.3)))
    assert [it.observed_seconds for it in steps(reconciles)] == [0.3]
    assert [it.seconds for it in reconciles.status.observed_gaps] == [0.3]
    later = reporting(back(three(), "app-2"), app_2=(NOW, 8.0))
    reconcile(reconciles, later, after=RETURNS + 1)
    assert [it.observed_seconds for it in steps(reconciles)] == [0.3]


def test_a_hand_over_that_is_reported_only_after_the_step_is_learned_once() -> None:
    reconciles = rolling()
    reconcile(reconciles, reporting(back(three(), "app-2")))
    assert [it.observed_seconds for it in steps(reconciles)] == [None]
    reconciles.app = replace(reconciles.app, requests=replace(reconciles.app.requests, paused=True))
    for _ in range(3):
        reconcile(reconciles, reporting(back(three(), "app-2"), app_0=(NOW, 0.2)))
    assert [it.observed_seconds for it in steps(reconciles)] == [0.2]
    assert [it.seconds for it in reconciles.status.observed_gaps] == [0.2]


def test_while_one_pod_does_not_report_the_looks_of_the_operator_count() -> None:
    mixed = [*reporting(three()[:2]), three()[2]]
    reconciles = rolling(mixed)
    taken = reconciles.rollout.current
    new = back(three(), taken)
    silent = [it for it in new if it.name == "app-0"] + reporting([it for it in new if it.name != "app-0"])
    reconcile(reconciles, silent, after=3.0)
    assert reconciles.rollout.observed_seconds == 3.0
    assert [it.reported for it in reconciles.status.observed_gaps] == [False]


def test_a_step_that_was_given_up_before_its_pod_was_taken_measures_nothing() -> None:
    reconciles = rolling()
    reconciles.app = replace(reconciles.app, requests=replace(reconciles.app.requests, paused=True))
    reconcile(reconciles, reporting(three()))
    reconcile(reconciles, reporting(three(), app_0=(NOW, 5.0)))
    assert reconciles.rollout.observed_seconds is None
    assert (steps(reconciles), reconciles.status.observed_gaps) == ([], ())


def test_a_pod_without_tasks_teaches_nothing() -> None:
    idle = [pod(0), pod(1), pod(2)]
    reconciles = rolling(reporting(idle))
    assert (reconciles.rollout.predicted_seconds, reconciles.rollout.predicted_from) == (0.0, "no task runs on it")
    reconcile(reconciles, reporting(back(idle, reconciles.rollout.current), app_0=(NOW, 4.0)))
    assert reconciles.status.observed_gaps == ()


def test_tasks_without_state_stand_still_too() -> None:
    seen = [pod(it, active(f"0_{it}", stores=())) for it in range(3)]
    reconciles = rolling(reporting(seen))
    assert reconciles.rollout.predicted_from == "its tasks have no state, none such was observed yet"
    reconcile(reconciles, reporting(back(seen, reconciles.rollout.current), app_0=(NOW, 0.6)))
    assert [(it.kind, it.seconds) for it in reconciles.status.observed_gaps] == [("stateless", 0.6)]


def test_the_status_has_what_the_restart_of_each_pod_would_cost_and_did() -> None:
    reconciles = rolling()
    reconcile(reconciles, reporting(back(three(), "app-2"), app_0=(NOW, 0.08)))
    found = {it.pod: it for it in reconciles.status.gaps}
    assert (found["app-2"].observed_seconds, found["app-0"].observed_seconds) == (0.08, None)
    reconcile(reconciles, reporting(back(three(), "app-2"), app_0=(NOW, 0.08)))
    found = {it.pod: it for it in reconciles.status.gaps}
    assert (found["app-0"].predicted_seconds, found["app-0"].predicted_from) == (
        0.08,
        "a standby goes on, 1 such observed",
    )


def test_the_status_has_gaps_of_so_many_pods_and_no_more() -> None:
    reconciles = Reconciles(wanted("one", 2 * LISTED))
    reconciles.plan(pods(*["one"] * (2 * LISTED)))
    assert [it.pod for it in reconciles.status.gaps] == [f"app-{it}" for it in range(LISTED)]


def test_a_status_of_another_release_has_no_gaps_and_is_read() -> None:
    document = to_document(AppStatus(rollout=RolloutStatus(revision="one"), history=(RolloutRecord(revision="one"),)))
    document["workingMemory"].pop("observedGaps")
    document.pop("gaps")
    assert from_document(document).observed_gaps == ()


#: For how long tasks stand still in truth, by the seconds of work that the pod predicts; and the state of a pod.
_TRUTHS: dict[str, tuple[Callable[[float], float], bool]] = {
    "with standbys": (lambda work: 0.08, False),
    "on a busy machine": (lambda work: 1.4, False),
    "from snapshots": (lambda work: 0.4 + 0.8 * work, True),
    "from snapshots that are read while tasks run": (lambda work: 0.3 + 0.05 * work, True),
}


def stateful(revision: str, chance: random.Random, *, snapshots: bool) -> tuple[list[PodSeen], dict[str, float]]:
    """Pods of a revision, and what a restore of each takes by its own rates."""
    if not snapshots:
        return pods(*[revision] * 3), dict.fromkeys(["app-0", "app-1", "app-2"], 0.0)
    kept = tuple(store(f"0_{it}", ReportedRole.ACTIVE, snapshot_offset=50) for it in range(3))
    work = [round(chance.uniform(0.5, 40), 2) for _ in range(3)]
    seen = [
        pod(it, active(f"0_{it}", stores=(kept[it],), predicted_restore_seconds=work[it]), revision=revision)
        for it in range(3)
    ]
    return seen, {it.name: took for it, took in zip(seen, work, strict=True)}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", _TRUTHS)
def test_nine_of_ten_steps_of_simulated_rollouts_are_predicted_within_thirty_percent(name: str, seed: int) -> None:
    """Each operator knows the status alone; hand-overs vary by a tenth, one in thirty takes four times as long."""
    truth, snapshots = _TRUTHS[name]
    chance = random.Random(f"{name} {seed}")
    reconciles, found = Reconciles(wanted("r0")), list[tuple[float, float]]()
    assert RUNS.rollout is not None
    reconciles.status = changed(RUNS, last_good_revision="r0", rollout=changed(RUNS.rollout, revision="r0"))
    for number in range(1, 26):
        old, new = f"r{number - 1}", f"r{number}"
        seen, work = stateful(old, chance, snapshots=snapshots)
        reconciles.app = wanted(new)
        reconciles.plan(reporting(seen), template_revision=old)
        reconciles.plan(reporting(seen), template_revision=old, checks=passed(new))
        for _ in range(3):
            taken = begin_step(reconciles, reporting(seen), new)
            took = truth(work[taken]) * chance.lognormvariate(0, 0.1) * (4 if chance.random() < 0.03 else 1)
            predicted = reconciles.rollout.predicted_seconds
            assert predicted is not None
            found.append((predicted, took))
            seen = [replace(it, revision=new, uid=f"{new}-{it.ordinal}") if it.name == taken else it for it in seen]
            heir = next(it.name for it in seen if it.name != taken).replace("-", "_")
            reconcile_at(reconciles, reporting(seen, **{heir: (NOW, took)}), new)
        reconcile_at(reconciles, reporting(seen), new)
        assert (reconciles.rollout.phase, reconciles.status.last_good_revision) == ("Complete", new)
    known = found[KEPT:]
    hits = sum(abs(predicted - took) <= 0.3 * took for predicted, took in known)
    assert hits >= 0.9 * len(known), (hits, len(known))
    assert len(reconciles.status.observed_gaps) == KEPT


def begin_step(reconciles: Reconciles, seen: list[PodSeen], revision: str) -> str:
    for _ in range(5):
        reconciles.status = from_document(to_document(reconciles.status))
        planned = reconciles.plan(seen, template_revision=revision)
        if any(isinstance(it, Evict) for it in planned.actions):
            return only(planned, Evict).pod
    raise AssertionError(reconciles.rollout)


def reconcile_at(reconciles: Reconciles, seen: list[PodSeen], revision: str) -> None:
    reconciles.status = from_document(to_document(reconciles.status))
    reconciles.plan(seen, template_revision=revision, after=0.5)


def test_the_gaps_of_kinds_are_remembered_in_the_status_as_they_are() -> None:
    known = ObservedGap(kind="snapshot", work_seconds=3.25, seconds=3.5)
    status = AppStatus(observed_gaps=(known,))
    assert from_document(to_document(status)).observed_gaps == (known,)
    assert "observedGaps" not in {key for key in to_document(status) if key != "workingMemory"}
