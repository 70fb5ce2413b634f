"""State made of history before the first pods, with no more rights than the chart gives the operator."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operator_process import until
from operator_world import APP, World
from streamsapp_operator.kube import Object
from streamsapp_operator.kube.kinds import CONFIG_MAP, JOB, STATEFUL_SET

REMOTE = {"url": "s3://bucket/prefix"}


def apply(world: World, **spec: Any) -> None:
    fields: dict[str, Any] = {"remoteState": REMOTE, "bootstrap": {"until": {"lines": {"0": 7}}}}
    world.apply(**fields | spec)


def job(world: World) -> Object | None:
    return world.client.get(JOB, world.namespace, f"{APP}-bootstrap")


def bootstrap(world: World) -> dict[str, Any]:
    return world.status().get("bootstrap") or {}


def nothing_started(world: World) -> bool:
    return world.client.get(STATEFUL_SET, world.namespace, APP) is None and world.pods() == {}


def until_running(world: World) -> None:
    until(lambda: bootstrap(world).get("phase") == "Running", "the bootstrap runs")


def done(world: World) -> None:
    """The Job ends well, and everything is there."""
    world.node.behaviour.bootstrap = (0, "")
    world.until_ready()
    until(lambda: job(world) is None and bootstrap(world)["job"] is None, "the Job is gone and forgotten")


def test_no_pod_is_made_before_the_job_is_done(world: World) -> None:
    apply(world)
    until_running(world)
    made = job(world)
    assert made is not None
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == [world.app()["metadata"]["uid"]]
    assert nothing_started(world)
    assert world.status()["phase"] == "Bootstrapping"
    assert world.condition("Progressing")["reason"] == "Bootstrapping"
    done(world)
    assert bootstrap(world)["phase"] == "Done"
    wanted = {"BootstrapStarted", "BootstrapDone", "RolloutComplete"}
    until(lambda: wanted <= set(world.events()), "every event")


def test_a_failure_is_told_and_a_mended_spec_is_tried_again(world: World) -> None:
    world.node.behaviour.bootstrap = (2, "--until: lines-0 has the offsets 0 to 5")
    apply(world)
    until(lambda: bootstrap(world).get("phase") == "Failed", "the bootstrap has failed")
    degraded = world.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "BootstrapFailed")
    assert "exit 2: --until: lines-0 has the offsets 0 to 5; no pod is started" in degraded["message"]
    assert nothing_started(world)
    first = job(world)
    assert first is not None, "its log can still be read"

    world.node.behaviour.bootstrap = None
    apply(world, bootstrap={"until": {"lines": {"0": 5}}})
    until_running(world)
    second = job(world)
    assert second is not None
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    assert world.condition("Degraded")["status"] == "False"
    done(world)
    until(lambda: "BootstrapFailed" in world.events(), "an event")
    assert len(world.events()["BootstrapFailed"]) == 1


@pytest.mark.long
def test_a_restart_that_is_asked_for_tries_it_again(world: World) -> None:
    world.node.behaviour.bootstrap = (1, "the object store is away")
    apply(world)
    until(lambda: bootstrap(world).get("phase") == "Failed", "the bootstrap has failed")
    world.node.behaviour.bootstrap = None
    world.restart("2026-01-01T00:00:00Z")
    until_running(world)
    assert nothing_started(world)
    done(world)


def test_an_operator_that_is_killed_meanwhile_finds_the_job_again(world: World) -> None:
    apply(world)
    until_running(world)
    before = job(world)
    world.operator.kill()
    world.node.behaviour.bootstrap = (0, "")
    world.operator.start()
    world.until_ready()
    assert before is not None
    assert len(world.events().get("BootstrapStarted", [])) <= 1, "told once, or lost with the operator"
    until(lambda: job(world) is None, "the Job is gone")


@pytest.mark.long
def test_suspending_ends_the_job(world: World) -> None:
    apply(world)
    until_running(world)
    apply(world, replicas=0)
    until(lambda: job(world) is None and world.status()["phase"] == "Suspended", "nothing runs")
    assert nothing_started(world)
    apply(world)
    until_running(world)
    done(world)


@pytest.mark.long
def test_one_that_comes_too_late_is_ignored(world: World) -> None:
    world.apply(remoteState=REMOTE)
    world.until_ready()
    before = world.pods()
    apply(world)
    until(lambda: bootstrap(world).get("phase") == "Ignored", "it is ignored")
    world.until_ready()
    assert (world.pods(), job(world)) == (before, None)
    (told,) = until(lambda: world.events().get("BootstrapIgnored"), "an event")
    assert "has run already" in told


def test_a_job_of_somebody_else_is_left_alone_and_told(world: World) -> None:
    theirs = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{APP}-bootstrap", "namespace": world.namespace},
        "spec": {
            "suspend": True,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "theirs", "image": "theirs"}]}},
        },
    }
    world.node.behaviour.bootstrap = None
    world.api.kubectl("apply", "-f", "-", stdin=json.dumps(theirs))
    apply(world)
    until(lambda: "is not this StreamsApp's" in json.dumps(world.events().get("OperatorError")), "it is told")
    found = job(world)
    assert found is not None
    assert found["metadata"].get("ownerReferences") is None
    assert nothing_started(world)


def test_the_configuration_that_the_job_reads_is_the_revisions(world: World) -> None:
    apply(world)
    until_running(world)
    made = job(world)
    assert made is not None
    volumes = made["spec"]["template"]["spec"]["volumes"]
    (name,) = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    config_map = world.client.get(CONFIG_MAP, world.namespace, name)
    assert config_map is not None
    assert "bootstrap:" not in config_map["data"]["streamsapp.yaml"]


@pytest.fixture(autouse=True)
def ends(world: World) -> None:
    """By default a Job runs until a test lets it end."""
    world.node.behaviour.bootstrap = None
