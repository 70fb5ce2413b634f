"""An earlier revision comes back in place of the spec's, on a real API server."""

from __future__ import annotations

import pytest

from operator_process import until
from operator_world import APP, World
from streamsapp_operator.kube.kinds import CONFIG_MAP, POD
from streamsapp_operator.plugin.main import main


def revisions(world: World) -> set[str]:
    pods = world.client.list(POD, world.namespace, f"streamsapp.dev/name={APP}")
    return {pod["metadata"]["labels"]["streamsapp.dev/revision"] for pod in pods}


def kept(world: World) -> set[str]:
    maps = world.client.list(CONFIG_MAP, world.namespace, f"streamsapp.dev/name={APP}", metadata_only=True)
    return {each["metadata"]["labels"]["streamsapp.dev/revision"] for each in maps}


def roll(world: World, threads: int) -> str:
    """Rolls another revision out and returns it."""
    before = world.status()["lastGoodRevision"]
    world.apply(processing={"threads": threads})
    until(lambda: world.status()["lastGoodRevision"] != before, "another revision is good")
    world.until_ready()
    good: str = world.status()["lastGoodRevision"]
    return good


def plugin(world: World, *arguments: str) -> int:
    return main([*arguments, "-n", world.namespace, "--kubeconfig", str(world.api.kubeconfig)])


@pytest.mark.timeout(900)  # five rollouts
def test_an_undo_rolls_the_good_revision_before_out_until_the_spec_changes(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.apply()
    world.until_ready()
    first = world.status()["lastGoodRevision"]
    second, third = roll(world, 2), roll(world, 3)
    until(lambda: kept(world) == {second, third}, "the good one before is kept, and no other")

    assert plugin(world, "rollout", "undo", APP, "--to-revision", first) == 2
    assert plugin(world, "rollout", "undo", APP) == 0
    assert plugin(world, "rollout", "status", APP, "--timeout", "240") == 0
    assert f"revision {second} is rolled out" in capsys.readouterr().out
    assert revisions(world) == {second}
    until(lambda: world.condition("Stalled").get("reason") == "Undone", "it is told")
    assert world.condition("Stalled")["status"] == "True"
    assert world.app()["spec"]["processing"]["threads"] == 3

    assert roll(world, 4) not in {first, second, third}
    assert world.condition("UpToDate")["status"] == "True"


def test_a_revision_that_is_gone_is_a_fault_and_touches_nothing(world: World) -> None:
    world.apply()
    world.until_ready()
    pods = world.pods()
    generation = world.app()["metadata"]["generation"]
    world.api.kubectl("annotate", "-n", world.namespace, "sapp", APP, f"streamsapp.dev/undone={generation}/0123456789")
    until(lambda: world.condition("Stalled").get("reason") == "InvalidSpec", "it is refused")
    assert "revision '0123456789' is gone" in world.condition("Stalled")["message"]
    assert world.pods() == pods
