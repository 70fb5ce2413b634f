"""Soak, canary, pause, approval, the restart of one pod, and topologies that are kept apart, on a real API server."""

from __future__ import annotations

import pytest

from operator_process import until
from operator_world import APP, World
from streamsapp_operator.kube.kinds import POD


def revisions(world: World) -> dict[str, str]:
    """Pod → revision."""
    listed = world.client.list(POD, world.namespace, f"streamsapp.dev/name={APP}")
    return {it["metadata"]["name"]: it["metadata"]["labels"]["streamsapp.dev/revision"] for it in listed}


def annotate(world: World, *annotations: str) -> None:
    """As the plugin does; ``name-`` removes one."""
    given = [f"streamsapp.dev/{text}" for text in annotations]
    world.api.kubectl("annotate", "--overwrite", "-n", world.namespace, "sapp", APP, *given)


def phase(world: World) -> str:
    found: str = (world.status().get("rollout") or {}).get("phase", "")
    return found


def _template_revision(world: World) -> str:
    labels: dict[str, str] = world.stateful_set()["spec"]["template"]["metadata"]["labels"]
    return labels["streamsapp.dev/revision"]


def crash(world: World, name: str) -> None:
    """Its container crashes for the third time, and the kubelet waits before it starts it again."""
    pod = world.client.get(POD, world.namespace, name)
    assert pod is not None
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    ended = {"terminated": {"exitCode": 1, "message": "late", "startedAt": None, "finishedAt": None}}
    container = {**pod["status"]["containerStatuses"][0], "ready": False, "restartCount": 3}
    container |= {"state": waiting, "lastState": ended}
    conditions = [{"type": "Ready", "status": "False"}]
    world.client.write_status(pod, {**pod["status"], "conditions": conditions, "containerStatuses": [container]})


def test_a_revision_that_crashes_while_it_soaks_is_rolled_back_and_reaches_no_second_pod(world: World) -> None:
    world.apply(rollout={"soakSeconds": 600})
    world.until_ready()  # a first revision does not soak
    good = world.status()["lastGoodRevision"]
    world.restart("2026-01-01T00:00:00Z")
    message = "spec.rollout.soakSeconds"
    until(lambda: message in ((world.status()["rollout"] or {}).get("message") or ""), "the first new pod soaks")
    [canary] = [name for name, revision in revisions(world).items() if revision != good]
    world.operator.kill()  # the status has all that the next operator has to know
    world.operator.start()
    crash(world, canary)
    until(lambda: phase(world) == "RolledBack", "it is rolled back")
    assert set(revisions(world).values()) == {good}
    assert world.status()["lastGoodRevision"] == good
    assert [it for it in world.events()["PodRestarting"] if canary not in it] == []


def test_a_canary_waits_for_its_approval_and_what_comes_back_meanwhile_is_as_before(world: World) -> None:
    world.apply(rollout={"partition": 2})
    world.until_ready()
    good = world.status()["lastGoodRevision"]
    world.restart("2026-01-01T00:00:00Z")
    until(lambda: phase(world) == "Paused", "the canary runs")
    new = world.status()["rollout"]["revision"]
    assert revisions(world) == {f"{APP}-0": good, f"{APP}-1": good, f"{APP}-2": new}
    until(lambda: _template_revision(world) == good, "the template is what a pod that comes back gets")
    world.client.delete(POD, world.namespace, f"{APP}-0")
    until(lambda: revisions(world).get(f"{APP}-0") == good, "it is back", 300)
    annotate(world, f"approved={new}")
    until(lambda: set(revisions(world).values()) == {new}, "all pods have the new revision")
    world.until_ready()


def test_a_pause_holds_until_it_is_ended(world: World) -> None:
    world.apply()
    world.until_ready()
    before = world.pods()
    annotate(world, "paused=true")
    world.restart("2026-01-01T00:00:00Z")
    until(lambda: phase(world) == "Paused", "it is held")
    assert world.pods() == before
    annotate(world, "paused-")
    until(lambda: set(world.pods().values()).isdisjoint(before.values()), "every pod was replaced")


def test_a_rollout_whose_first_restart_shows_too_long_a_gap_is_held_until_it_is_approved(world: World) -> None:
    world.node.behaviour.gap_seconds = 0.35
    world.apply(rollout={"maxGap": "200ms"})
    world.until_ready()
    good = world.status()["lastGoodRevision"]
    world.restart("2026-01-01T00:00:00Z")
    until(lambda: phase(world) == "Paused", "it is held")
    rollout = world.status()["rollout"]
    words = "for 350 ms (a standby goes on, 1 such observed), longer than 200ms (spec.rollout.maxGap)"
    assert words in rollout["message"]
    until(lambda: any(words in it for it in world.events().get("GapTooLong", [])), "it is told of")
    assert words in world.condition("Stalled")["message"]
    assert sorted(it != good for it in revisions(world).values()) == [False, False, True]
    assert {it["predictedSeconds"] for it in world.status()["gaps"]} == {0.35}
    world.operator.kill()  # the status has all that the next operator has to know
    world.operator.start()
    annotate(world, f"approved={rollout['revision']}")
    until(lambda: set(revisions(world).values()) == {rollout["revision"]}, "all pods have the new revision")
    world.until_ready()
    steps = world.status()["history"][0]["steps"]
    assert [it["predictedSeconds"] for it in steps][1:] == [0.35] * 2
    # On a busy machine the next step may begin before the pods of one are looked at: it shows nothing then.
    assert {it["observedSeconds"] for it in steps[1:]} - {None} == {0.35}
    assert "none such was observed yet" in steps[0]["predictedFrom"]


def test_one_pod_is_restarted_and_the_others_stay(world: World) -> None:
    world.apply()
    world.until_ready()
    before = world.pods()
    annotate(world, f"restartPod={before[f'{APP}-1']}")
    until(lambda: world.pods().get(f"{APP}-1", before[f"{APP}-1"]) != before[f"{APP}-1"], "it was replaced")
    world.until_ready()
    assert {name: uid for name, uid in world.pods().items() if uid != before[name]}.keys() == {f"{APP}-1"}


def test_the_way_back_from_another_topology_begins_when_every_pod_of_it_has_ended(world: World) -> None:
    seen: set[frozenset[str]] = set()

    def runs_alone(good: str, *, is_good: bool) -> bool:
        found = revisions(world)
        seen.add(frozenset(found.values()))
        return bool(found) and all((it == good) == is_good for it in found.values())

    world.apply()
    world.until_ready()
    good = world.status()["lastGoodRevision"]
    moved = {"sources": {"0": ["other"]}, "stores": {"0": {"counts": "keyvalue"}}}
    world.node.behaviour.check_message = {"faults": [], "shape": moved}
    code = {"files": {"wordcount.py": "topology = 'moved'"}}
    world.apply(code=code, rollout={"topologyChange": "Recreate", "soakSeconds": 600})
    until(lambda: runs_alone(good, is_good=False), "pods of the other topology run")
    world.operator.kill()  # the status has all that the next operator has to know
    world.apply()
    world.operator.start()
    until(lambda: runs_alone(good, is_good=True), "pods of the good one run again")
    world.until_ready()
    assert [set(it) for it in seen if len(it) > 1] == []
    assert "RolloutBlocked" not in world.events()


@pytest.mark.long
def test_two_revisions_that_fit_the_last_good_one_and_not_each_other_have_no_pods_at_a_time(world: World) -> None:
    lines, behaviour = {"0": ["lines"]}, world.node.behaviour
    shapes = {
        "first": {"sources": {**lines, "1": ["more"]}, "stores": {"0": {"counts": "keyvalue"}}},
        "second": {"sources": {**lines, "1": ["other"], "2": ["more"]}, "stores": {"0": {"counts": "keyvalue"}}},
    }
    seen: set[frozenset[str]] = set()

    def there() -> frozenset[str]:
        seen.add(frozenset(revisions(world).values()))
        return frozenset(revisions(world).values())

    def ask_for(name: str, **rollout: int) -> None:
        behaviour.check_message = {"faults": [], "shape": shapes[name]}
        world.apply(code={"files": {"wordcount.py": f"topology = {name!r}"}}, rollout=rollout)

    world.apply()
    world.until_ready()
    good = world.status()["lastGoodRevision"]
    ask_for("first", soakSeconds=600)
    until(lambda: len(there()) == 2, "a pod of the first is there")
    (first,) = there() - {good}
    ask_for("second")
    until(
        lambda: first in (world.status().get("workingMemory") or {}).get("shapes", {}),
        "the API server keeps its topology",
    )
    world.operator.kill()  # the status has all that the next operator has to know
    world.operator.start()
    until(lambda: there().isdisjoint({good, first}), "all pods have the second")
    assert [it for it in seen if len(it - {good}) > 1] == []
