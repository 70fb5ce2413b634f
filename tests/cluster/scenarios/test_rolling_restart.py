"""Pods are restarted one after the other, and never at the wrong moment."""

from __future__ import annotations

import time

import pytest

from cluster_app import frozen, kill, processes_of
from cluster_world import WORDCOUNT, Running

#: For so long nothing may happen that must not happen; the operator looks every second.
_QUIET = 8.0


def test_a_rolling_restart_replaces_every_pod_one_at_a_time_and_counts_every_word_once(wordcount: Running) -> None:
    before = wordcount.app.uids()

    wordcount.app.ask_for_restart()
    status = wordcount.app.wait_replaced(before)

    rollout = status["rollout"]
    assert (rollout["phase"], rollout["updated"], rollout["total"]) == ("Complete", 3, 3)
    assert rollout["predictedSeconds"] is not None
    assert rollout["observedSeconds"] is not None
    wordcount.app.wait(lambda: _removed(wordcount) == sorted(before), "every removal")
    assert len(wordcount.observer.most_down) == 1
    wordcount.load.check()


@pytest.mark.long
def test_a_pod_whose_standby_does_not_answer_is_not_restarted_until_it_does(wordcount: Running) -> None:
    before = wordcount.app.uids()
    asleep, followed = wordcount.app.wait(lambda: _pod_that_follows(wordcount), "a pod with standbys")

    with frozen(wordcount.app.pods()[asleep]):
        wordcount.app.ask_for_restart()
        # Named until the group has noticed too, and has found other pods to follow them.
        wordcount.app.wait(lambda: followed <= _uncovered(wordcount), f"blockers that name {followed}")
        blockers = wordcount.app.status()["restart"]["blockers"]
        condition = wordcount.app.condition("RestartSafe")
        wordcount.app.wait(lambda: wordcount.app.rollout()["phase"] == "Blocked", "a rollout that is blocked")
        assert wordcount.app.uids() == before
        assert wordcount.observer.removals == []

    assert condition["status"] == "False"
    reasons = [it["reason"] for it in blockers if it["pod"] == asleep]
    assert any(reason.startswith(("Unreachable: ", "NotReady: ")) for reason in reasons), blockers
    wordcount.app.wait(
        lambda: any(asleep in event.message for event in wordcount.observer.told("RolloutBlocked")), "an event"
    )

    assert wordcount.app.wait_replaced(before)["rollout"]["phase"] == "Complete"
    wordcount.load.check()


def test_kubectl_drain_waits_while_a_pod_is_needed_and_then_takes_one_at_a_time(wordcount: Running) -> None:
    before = wordcount.app.uids()
    node = next(iter(wordcount.app.pods().values()))["spec"]["nodeName"]
    drain = ("drain", node, f"--pod-selector=streamsapp.dev/name={WORDCOUNT}", "--delete-emptydir-data")
    try:
        with frozen(wordcount.app.pods()[f"{WORDCOUNT}-2"]):
            wordcount.app.wait(lambda: not wordcount.app.status()["restart"]["safe"], "an application that is not safe")
            # The status says so a moment before the budget does, which other clients go by.
            wordcount.app.wait(lambda: _max_unavailable(wordcount) == 0, "a budget of 0")
            draining = wordcount.world.kubectl.begin(*drain, "--timeout=280s")
            time.sleep(_QUIET)
            assert draining.poll() is None
            assert wordcount.app.uids() == before
            assert wordcount.observer.removals == []
        wordcount.app.wait(lambda: len(wordcount.observer.removals) == 1, "the first eviction")
        time.sleep(_QUIET)  # no pod can come back to a node that is cordoned
        assert len(wordcount.observer.removals) == 1
    finally:
        wordcount.world.kubectl("uncordon", node)

    wordcount.app.wait_replaced(before)
    told, _ = draining.communicate(timeout=120)
    assert draining.returncode == 0, told
    assert len(wordcount.observer.most_down) == 1
    wordcount.load.check()


@pytest.mark.long
@pytest.mark.timeout(900, func_only=True)
def test_an_operator_that_is_killed_at_any_moment_of_a_rollout_brings_it_to_its_end(wordcount: Running) -> None:
    before = wordcount.app.uids()
    wordcount.app.ask_for_restart()
    kills = 0
    while set(before.values()) & set(wordcount.app.uids().values()):
        wordcount.app.wait(wordcount.world.leading_operator, "an operator that leads")
        # Sometimes before it has looked, sometimes in the middle of a step; ever later where it is slow to begin.
        time.sleep(1.7 * kills % 3 * max(1.0, kills / 5))
        _kill_operators(wordcount)
        kills += 1
        assert kills < 20, f"the rollout does not get on; {wordcount.app.described()}"

    assert wordcount.app.wait_settled()["rollout"]["phase"] == "Complete"
    assert kills >= 2
    assert len(wordcount.observer.most_down) == 1
    wordcount.app.wait(lambda: _removed(wordcount) == sorted(before), "every removal")
    wordcount.load.check()


def _max_unavailable(running: Running) -> int:
    """How many pods others may take away."""
    budget = running.world.kubectl.json("get", "poddisruptionbudget", WORDCOUNT, f"--namespace={running.app.namespace}")
    return int(budget["spec"]["maxUnavailable"])


def _uncovered(running: Running) -> set[str]:
    """Tasks that have no standby now, by the status."""
    blockers = running.app.status()["restart"]["blockers"]
    return {it["task"] for it in blockers if it["reason"].startswith("NoStandby: ")}


def _removed(running: Running) -> list[str]:
    """The pods that were asked to end, as far as the observer has heard."""
    return sorted(removal.pod.name for removal in running.observer.removals)


def _pod_that_follows(running: Running) -> tuple[str, set[str]] | None:
    """A pod with standbys, and their tasks, if a pod reported them at the last look."""
    look = running.observer.last_view()
    for name, status in look.statuses.items() if look else ():
        followed = {task["id"] for task in status["tasks"] if task["role"] == "standby" and task["stores"]}
        if followed:
            return name, followed
    return None


def _kill_operators(running: Running) -> None:
    """With no time to give the Lease back; and in another pod, as a container that dies often is started ever later."""
    for name, pod in running.world.operator_pods().items():
        if processes_of(pod):
            kill(pod)
        where = (f"--namespace={running.app.namespace}", "--grace-period=0", "--force", "--wait=false")
        running.world.kubectl("delete", "pod", name, *where, "--ignore-not-found")
