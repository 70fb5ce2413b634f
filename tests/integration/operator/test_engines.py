"""One application on two engines, on a real API server that enforces the restricted Pod Security Standard."""

from __future__ import annotations

from typing import Any

import pytest

from operator_process import until
from operator_world import APP, World
from streamsapp_operator.kube.kinds import POD, STATEFUL_SET

PODS = [f"{APP}-0", f"{APP}-1"]


def apply(world: World, engine: str, **spec: Any) -> None:
    world.apply(engine=engine, replicas=2, **spec)


def engine_of(world: World) -> str:
    """Returns the engine of the application once it is ready."""
    return str(world.status().get("engine")) if world.ready() else ""


def driver_replicas(world: World) -> int | None:
    found = world.client.get(STATEFUL_SET, world.namespace, f"{APP}-driver")
    return None if found is None else found["spec"]["replicas"]


@pytest.mark.long
def test_executors_are_restarted_one_by_one_and_their_driver_after_them(world: World) -> None:
    apply(world, "spark")
    until(lambda: engine_of(world) == "spark", "the application runs on Spark")
    before, head = world.pods(), f"{APP}-driver-0"
    world.node.behaviour.batches_end = False
    world.restart("2026-11-22T12:00:00Z")

    def replaced() -> set[str]:
        return {name for name, uid in world.pods().items() if uid != before[name]}

    def waits_for_a_batch() -> bool:
        told = world.condition("RestartSafe")
        return told.get("status") == "False" and "JOINING" in told.get("message", "")

    until(lambda: replaced() == {f"{APP}-1"}, "the first executor is replaced")
    until(waits_for_a_batch, "no batch has ended with it")
    assert replaced() == {f"{APP}-1"}
    world.node.behaviour.batches_end = True
    until(lambda: {*PODS} <= replaced(), "the other executor is replaced")
    until(lambda: replaced() == {*PODS, head} and world.ready(), "the driver is replaced, and all work")
    told = world.events()
    assert sorted(line.partition(" ")[0] for line in told["PodRestarting"]) == [*PODS, head]
    assert "EngineSwitching" not in told


@pytest.mark.long
def test_an_application_goes_to_spark_and_back_scales_there_and_ends_in_order(world: World) -> None:
    apply(world, "threads")
    until(lambda: engine_of(world) == "threads", "the application runs in pods")
    before = world.pods()

    apply(world, "spark")
    until(lambda: engine_of(world) == "spark", "the application runs on Spark")
    assert sorted(world.pods()) == [*PODS, f"{APP}-driver-0"]
    assert not set(world.pods().values()) & set(before.values())
    # A driver that is late with its answer is not heard of for a while.
    until(lambda: (world.status().get("query") or {}).get("batches") == 3, "its batches")
    tasks = {"active": 4, "running": 4, "restoring": 0, "standby": 0}
    until(lambda: world.status()["tasks"] == tasks, "its tasks")
    assert world.status()["switch"]["observedSeconds"] > 0
    for pod in world.client.list(POD, world.namespace, f"streamsapp.dev/name={APP}"):
        mounted = [it["mountPath"] for each in pod["spec"]["containers"] for it in each["volumeMounts"]]
        assert not [path for path in mounted if path.startswith("/var/run/secrets/kubernetes.io")]

    world.api.kubectl("scale", f"streamsapp/{APP}", f"--namespace={world.namespace}", "--replicas=3")
    until(lambda: len(world.pods()) == 4 and engine_of(world) == "spark", "one more executor")

    apply(world, "threads")
    until(lambda: engine_of(world) == "threads", "the application runs in pods again")
    assert (sorted(world.pods()), driver_replicas(world)) == (PODS, 0)
    told = {"EngineSwitching", "EngineSwitched"}
    until(lambda: told <= set(world.events()) and len(world.events()["EngineSwitched"]) == 2, "every event")

    apply(world, "spark")
    until(lambda: engine_of(world) == "spark", "the application runs on Spark")
    world.api.kubectl("delete", "streamsapp", APP, f"--namespace={world.namespace}", "--wait=false")
    until(lambda: driver_replicas(world) in (0, None), "the driver is to end first")
    until(lambda: world.pods() == {}, "every pod ends")
