"""The operator beside a StreamsApp resource that is older or newer than itself, on a real API server: no field is lost,
nothing is rolled out, and it says why."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from older_definition import LACKING, newer_definition, older_definition
from operator_process import CRD, until
from operator_world import APP, World
from streamsapp_operator.kube.kinds import STATEFUL_SET

WROTE = "is older than this operator: it lacks"
READ = "is older than this application: it hides"


def define(world: World, resource: Path) -> None:
    """Replaces the resource, as ``helm rollback`` does, and waits until objects are read by it."""
    world.api.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(resource))
    known = resource == CRD
    until(lambda: ("soakSeconds" in world.app()["spec"]["rollout"]) == known, "the API server learns of it")


@pytest.fixture
def older(tmp_path: Path) -> Path:
    return older_definition(CRD, tmp_path / "older.yaml")


def test_an_older_resource_stops_the_operator_and_nothing_is_lost_or_rolled_out(own_world: World, older: Path) -> None:
    world = own_world
    world.apply(**LACKING)
    world.until_ready()
    pods, revision = world.pods(), world.status()["rollout"]["revision"]
    define(world, older)
    version = world.app()["metadata"]["resourceVersion"]
    world.operator.kill()
    world.operator.start()
    until(lambda: world.operator.said(READ), "its log says so")
    until(lambda: world.has_told("spec.rollout.soakSeconds"), "an event names the fields")
    until(lambda: "leaves 1 StreamsApps as they are" in world.operator.get("/healthz"), "its health says so")
    assert "streamsapp_operator_applications_left_alone 1.0" in world.operator.get("/metrics")
    world.api.kubectl("scale", "statefulset", APP, "-n", world.namespace, "--replicas=3")
    time.sleep(2)
    assert world.app()["metadata"]["resourceVersion"] == version
    define(world, CRD)
    assert all(fields.items() <= world.app()["spec"][section].items() for section, fields in LACKING.items())
    until(lambda: "leaves" not in world.operator.get("/healthz"), "it works again")
    world.until_ready()
    assert world.pods() == pods
    assert world.status()["rollout"]["revision"] == revision


def test_an_application_that_others_write_meanwhile_is_not_acted_on(own_world: World, older: Path) -> None:
    world = own_world
    world.apply(**LACKING)
    world.until_ready()
    pods = world.pods()
    define(world, older)
    world.restart("2026-01-01T00:00:00Z")
    until(lambda: world.operator.said(READ), "its log says so")
    time.sleep(2)
    assert world.status()["rollout"]["phase"] == "Complete"
    assert world.pods() == pods


def test_an_application_that_was_made_under_an_older_resource_waits_for_the_operators_own(
    own_world: World, older: Path
) -> None:
    world = own_world
    world.api.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(older))
    manifest = {**world.manifest(), "spec": {**world.manifest()["spec"], "rollout": {}}}
    world.api.kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    until(lambda: world.operator.said(WROTE), "its log says so")
    until(lambda: world.has_told("spec.errors.processing, spec.rollout.soakSeconds"), "an event names the fields")
    app = world.app()
    assert app["status"] == {"observedGeneration": -1}, "nothing but the default of the schema"
    assert "finalizers" not in app["metadata"]
    assert world.client.get(STATEFUL_SET, world.namespace, APP) is None
    define(world, CRD)
    until(lambda: world.client.get(STATEFUL_SET, world.namespace, APP), "it starts")


def test_an_operator_that_is_older_than_the_resource_leaves_unknown_fields_and_the_pods(
    own_world: World, tmp_path: Path
) -> None:
    world = own_world
    world.apply()
    world.until_ready()
    pods = world.pods()
    world.api.define(newer_definition(CRD, tmp_path / "newer.yaml"))
    patch = '{"spec": {"rollout": {"sinceThen": "x"}, "replicas": 2}}'
    change = ("patch", "sapp", APP, "-n", world.namespace, "--type=merge", "-p", patch)
    until(
        lambda: "patched" in world.api.kubectl(*change) and "sinceThen" in world.app()["spec"]["rollout"], "the field"
    )
    told = until(
        lambda: world.condition("Degraded").get("reason") == "InvalidSpec" and world.condition("Degraded"), "told"
    )
    assert "spec.rollout.sinceThen: this operator does not know the field" in told["message"]
    assert "is older than the resource" in told["message"]
    assert world.app()["spec"]["rollout"]["sinceThen"] == "x"
    assert world.pods() == pods
