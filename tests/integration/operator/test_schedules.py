"""A query that catches up by a schedule, on a real API server that enforces the restricted Pod Security Standard."""

from __future__ import annotations

from typing import Any

import pytest

from operator_process import until
from operator_world import APP, World
from streamsapp_operator.kube import Object
from streamsapp_operator.kube.kinds import CRON_JOB, POD, STATEFUL_SET, STREAMS_APP

NAME = f"{APP}-run"
#: Never while the test runs: the test says when a run begins.
SPARK = {"trigger": "availableNow", "schedule": "0 0 29 2 *"}


def cron(world: World) -> Object | None:
    return world.client.get(CRON_JOB, world.namespace, NAME)


def replicas(world: World) -> int | None:
    found = world.client.get(STATEFUL_SET, world.namespace, APP)
    return None if found is None else found["spec"]["replicas"]


def runs(world: World) -> dict[str, Any]:
    return world.status().get("schedule") or {}


def run_pods(world: World) -> list[Object]:
    return world.client.list(POD, world.namespace, f"streamsapp.dev/run={APP}")


def begins(world: World) -> bool:
    found = cron(world)
    return found is not None and not found["spec"]["suspend"]


@pytest.mark.long
def test_an_application_goes_from_pods_to_a_schedule_and_back_and_never_runs_twice(world: World) -> None:
    world.apply(replicas=2)
    world.until_ready()

    world.apply(replicas=2, engine="spark", spark=SPARK)
    until(lambda: begins(world), "runs may begin")
    assert (world.pods(), replicas(world)) == ({}, 0), "the pods have ended first"
    until(lambda: world.condition("Ready").get("reason") == "Scheduled", "it is told")
    assert runs(world)["nextRun"].endswith("-02-29T00:00:00Z")

    world.node.begin_run(NAME)
    until(lambda: runs(world).get("result") == "Running", "the run is seen")
    [pod] = until(lambda: run_pods(world), "its pod")
    mounted = [it["mountPath"] for each in pod["spec"]["containers"] for it in each["volumeMounts"]]
    assert not [path for path in mounted if path.startswith("/var/run/secrets/kubernetes.io")]

    world.apply(replicas=2)
    until(lambda: not begins(world), "no other run begins")
    until(lambda: "every pod ends" in (world.status()["rollout"]["message"] or ""), "pods wait for the run")
    assert replicas(world) == 0
    world.node.behaviour.run = 0, '{"inputLag": 3}'
    world.until_ready()
    assert sorted(world.pods()) == [f"{APP}-0", f"{APP}-1"]
    assert cron(world) is None


@pytest.mark.long
def test_what_became_of_a_run_is_told_and_outlives_its_job(world: World) -> None:
    world.apply(replicas=1, engine="spark", spark=SPARK)
    until(lambda: begins(world), "runs may begin")
    world.node.behaviour.run = 1, "it is poisonous"
    world.node.begin_run(NAME)
    until(lambda: runs(world).get("result") == "Failed", "the run has failed")
    until(lambda: "it is poisonous" in world.condition("Degraded").get("message", ""), "it is told why")
    assert begins(world)

    world.node.behaviour.run = 0, '{"inputLag": 3}'
    world.node.begin_run(NAME)
    until(lambda: runs(world).get("result") == "Succeeded", "the next one has caught up")
    assert runs(world)["inputLag"] == 3
    assert world.condition("Degraded")["status"] == "False"
    until(lambda: {"RunFailed", "RunDone"} <= set(world.events()), "every event")
    world.operator.kill()
    for made in run_pods(world):
        job = made["metadata"]["ownerReferences"][0]["name"]
        world.api.kubectl("delete", "job", job, "-n", world.namespace, "--cascade=orphan", "--ignore-not-found")
    world.operator.start()
    world.apply(replicas=0, engine="spark", spark=SPARK)
    until(lambda: world.status()["phase"] == "Suspended", "it is suspended")
    assert (runs(world)["result"], runs(world)["inputLag"]) == ("Succeeded", 3)
    until(lambda: not begins(world), "no run begins")

    world.apply(replicas=1, engine="spark", spark=SPARK)
    until(lambda: begins(world), "runs may begin again")
    world.node.behaviour.run = None
    world.node.begin_run(NAME)
    until(lambda: runs(world).get("result") == "Running", "a run is under way")
    world.api.kubectl("delete", "streamsapp", APP, f"--namespace={world.namespace}", "--wait=false")
    until(lambda: world.client.get(STREAMS_APP, world.namespace, APP) is None, "it is let go")
    assert (cron(world), run_pods(world)) == (None, []), "nothing of it runs any more"
