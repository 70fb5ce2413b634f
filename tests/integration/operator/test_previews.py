"""A new revision that is previewed before the first pod is restarted, on a real API server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operator_process import until
from operator_world import APP, World
from streamsapp_operator.kube import Object
from streamsapp_operator.kube.kinds import CONFIG_MAP, JOB

FIRST = "store counts, key 'a': today 1, tomorrow 2"


def apply(world: World, code: str, **preview: Any) -> None:
    world.apply(
        code={"files": {"wordcount.py": f"topology = None  # {code}"}},
        remoteState={"url": "s3://bucket/prefix"},
        rollout={"soakSeconds": 0, "preview": {"records": 500, **preview}},
    )


def job(world: World) -> Object | None:
    return world.client.get(JOB, world.namespace, f"{APP}-preview")


def compared(differences: int) -> tuple[int, str]:
    """The Job ends well, and says this."""
    first = [FIRST] if differences else []
    return 0, json.dumps({"records": 600, "keys": 10, "differences": differences, "first": first, "notes": []})


@pytest.mark.long
def test_a_revision_is_held_by_what_it_would_change_and_goes_on_when_it_is_approved(world: World) -> None:
    apply(world, "one")
    world.until_ready()
    assert world.condition("Previewed") == {}, "the first revision has nothing to be previewed against"
    before, good = world.pods(), world.status()["lastGoodRevision"]

    apply(world, "two")
    until(lambda: world.condition("Previewed").get("reason") == "PreviewRunning", "the preview runs")
    made = job(world)
    assert made is not None
    mounted = {it["name"]: it["configMap"]["name"] for it in volumes(made) if "configMap" in it}
    new = world.status()["rollout"]["revision"]
    assert mounted == {"today": f"{APP}-{good}", "tomorrow": f"{APP}-{new}"}
    assert all(world.client.get(CONFIG_MAP, world.namespace, name) is not None for name in mounted.values())
    world.operator.kill()  # the Job is found again
    world.node.behaviour.preview = compared(3)
    world.operator.start()
    until(lambda: world.condition("Previewed").get("reason") == "TooManyDifferences", "it differs too much")
    until(lambda: job(world) is None, "the Job is gone when its result is in the status")
    told = world.condition("Previewed")["message"]
    assert told == f"3 of 10 keys have other results or state after 600 records; {FIRST}"
    assert world.status()["rollout"]["phase"] == "Paused"
    assert "kubectl streamsapp approve" in world.status()["rollout"]["message"]
    assert world.pods() == before

    world.api.kubectl("annotate", "-n", world.namespace, "sapp", APP, f"streamsapp.dev/approved={new}")
    world.until_ready()
    assert not set(world.pods().values()) & set(before.values())
    assert world.status()["lastGoodRevision"] == new

    world.node.behaviour.preview = compared(0)
    apply(world, "three")
    until(lambda: world.condition("Previewed").get("reason") == "NothingDiffers", "nothing differs")
    world.until_ready()
    assert world.status()["lastGoodRevision"] not in {good, new}
    events = {"PreviewStarted", "PreviewDiffers", "PreviewDone"}
    until(lambda: events <= set(world.events()), "every event")


def volumes(made: Object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = made["spec"]["template"]["spec"]["volumes"]
    return found
