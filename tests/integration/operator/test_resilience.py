"""The operator's behaviour when it is killed, when another one is there, and when the API server is away."""

from __future__ import annotations

import json
import random
import signal
import time

import pytest

from operator_process import LONG_LEASE, TAKEOVER, TIMEOUT, OperatorProcess, until
from operator_world import APP, DownWatch, World
from streamsapp_operator.kube.kinds import LEASE, STATEFUL_SET, STREAMS_APP

LEASE_OBJECT = "streamsapp-operator"


def test_a_rollout_ends_right_however_often_the_operator_is_killed(world: World) -> None:
    chance = random.Random(4)
    world.apply(rollout={"soakSeconds": 1})
    world.until_ready()
    before = world.pods()
    with DownWatch(world, 3) as watch:
        world.restart("2026-01-01T00:00:00Z")
        for _ in range(5):
            time.sleep(chance.uniform(0.1, 3.0))
            world.operator.kill()
            world.operator.start()
        until(lambda: set(world.pods().values()).isdisjoint(before.values()), "every pod was replaced")
        world.until_ready()
    assert watch.fewest >= 2
    told = [reason for reason, messages in world.events().items() if len(messages) != len(set(messages))]
    assert told == []


@pytest.mark.long
def test_a_deletion_goes_on_after_the_operator_was_killed(world: World) -> None:
    world.apply()
    world.until_ready()
    world.operator.kill()
    world.api.kubectl("delete", "sapp", APP, "-n", world.namespace, "--wait=false")
    assert "deletionTimestamp" in world.app()["metadata"]
    world.operator.start()
    until(lambda: not world.api.kubectl("get", "sapp", "-n", world.namespace, "-o=name"), "it is gone")


@pytest.mark.timeout(600)
def test_of_two_operators_one_works_and_the_other_takes_over(world: World) -> None:
    world.apply()
    world.until_ready()
    with OperatorProcess(world.api, world.namespace, world.directory, "two", lease_seconds=LONG_LEASE) as second:
        until(lambda: second.running and second.said("stands by"), "the second one stands by")
        assert json.loads(second.get("/healthz")) == {"ok": True, "reason": "stands by"}
        world.operator.kill()
        # As if that one had a short Lease: the test needs no minute until its end.
        shorter = json.dumps({"spec": {"leaseDurationSeconds": 5}})
        world.api.kubectl("patch", "lease", LEASE_OBJECT, "-n", world.namespace, "--type=merge", "-p", shorter)
        until(lambda: _holder(world) == "two", "the second one has the Lease", TAKEOVER)
        before = world.pods()
        world.restart("2026-01-01T00:00:00Z")
        until(lambda: set(world.pods().values()).isdisjoint(before.values()), "it works")


def test_watches_all_namespaces_when_it_is_told_to(own_world: World) -> None:
    own_world.operator.kill()
    elsewhere = own_world.api.namespace("system")
    api, folder = own_world.api, own_world.directory
    with OperatorProcess(api, elsewhere, folder, "wide", lease_seconds=LONG_LEASE, everywhere=True):
        own_world.apply()
        own_world.until_ready()


@pytest.mark.parametrize(
    "seconds", [0.3, *(pytest.param(each, marks=pytest.mark.long) for each in (0.0, 0.1, 0.6, 2.0))]
)
def test_gives_its_lease_back_whenever_it_is_told_to_end(world: World, seconds: float) -> None:
    until(lambda: _holder(world) == "one", "it leads")
    time.sleep(seconds)
    assert world.operator.terminate() == 0
    assert _holder(world) == ""


@pytest.mark.timeout(600)
def test_ends_at_once_when_it_may_have_lost_its_lease(world: World) -> None:
    until(lambda: _holder(world) == "one", "it leads")
    assert world.operator.terminate() == 0
    # This one is to lose its Lease: with the usual one, of 15 s, that does not take long.
    with OperatorProcess(world.api, world.namespace, world.directory, "short", lease_seconds=15) as operator:
        until(lambda: _holder(world) == "short", "it leads")
        # As a machine that was suspended: for longer than the Lease lasts nothing is renewed.
        operator.signal(signal.SIGSTOP)
        with OperatorProcess(world.api, world.namespace, world.directory, "two", lease_seconds=LONG_LEASE):
            until(lambda: _holder(world) == "two", "another one leads", TAKEOVER)
            operator.signal(signal.SIGCONT)
            assert operator.wait(TIMEOUT) == 1
        assert operator.said("the Lease is lost")


def test_survives_an_api_server_that_is_away_without_a_wrong_step(own_world: World) -> None:
    world = own_world
    # With a Lease that outlives the outage, as the usual one may not: it is the loops that are tested here.
    world.operator.terminate()  # and gives its own back, which the next one would have to wait out
    with OperatorProcess(world.api, world.namespace, world.directory, "patient", lease_seconds=120) as operator:
        world.apply()
        world.until_ready()
        before = world.pods()
        world.api.stop()
        time.sleep(8)
        world.api.start()
        world.api.freeze()
        time.sleep(6)
        world.api.thaw()
        world.until_ready()
        assert world.pods() == before
        complaints = [line for line in operator.log() if line["message"].startswith("watching ")]
        assert 0 < len(complaints) < 30
        # The watch has come back too: only by it a new application is heard of.
        world.apply("another")
        another = lambda: world.client.get(STATEFUL_SET, world.namespace, "another")  # noqa: E731
        until(another, "an application that was made after the outage has pods")
        until(lambda: json.loads(operator.get("/healthz"))["ok"], "it is healthy")
        assert operator.running, operator.ended


@pytest.mark.long
@pytest.mark.timeout(600)
def test_stands_by_until_an_api_server_is_back_that_was_away_for_longer_than_its_lease(own_world: World) -> None:
    world = own_world
    world.apply()
    world.until_ready()
    before = world.pods()
    world.api.stop()
    assert world.operator.wait(TIMEOUT) == 1
    world.operator.start()
    until(lambda: world.operator.said("cannot have the Lease"), "it says why it waits")
    assert world.operator.running, world.operator.ended
    world.api.start()
    until(lambda: _holder(world) == "one" and world.ready(), "it works again")
    assert world.pods() == before


def test_says_what_is_missing_when_the_cluster_does_not_know_the_resource(own_world: World) -> None:
    own_world.operator.kill()
    own_world.api.kubectl("delete", "crd", "streamsapps.streamsapp.dev", "--wait=false")
    until(lambda: "streamsapps" not in own_world.api.kubectl("api-resources", "-o=name"), "the resource is gone")
    own_world.operator.start()
    until(lambda: own_world.operator.said("apply crds/streamsapps.yaml"), "it says what is missing")


def test_names_the_right_that_it_lacks(world: World) -> None:
    world.operator.kill()
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}
    patch = json.dumps({"rules": [leases]})
    world.api.kubectl("patch", "role", "operator", "-n", world.namespace, "--type=merge", "-p", patch)
    world.operator.start()
    until(lambda: world.operator.said("the operator may not list streamsapps; add list on streamsapps"), "it is named")


def _holder(world: World) -> str | None:
    found = world.client.get(LEASE, world.namespace, LEASE_OBJECT)
    holder: str | None = None if found is None else found["spec"].get("holderIdentity")
    return holder


def test_an_application_that_is_nested_without_end_is_told_and_all_others_go_on(world: World) -> None:
    world.apply()
    world.until_ready()
    deep = world.manifest("deep")
    begin, end = json.dumps({**deep, "spec": {**deep["spec"], "podTemplate": "HERE"}}).split('"HERE"')
    world.api.kubectl("create", "-f", "-", stdin=begin + '{"a":' * 1_500 + "1" + "}" * 1_500 + end)

    def told() -> bool:
        found = world.client.get(STREAMS_APP, world.namespace, "deep") or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(it["type"] == "Degraded" and "spec.podTemplate.a.a" in it["message"] for it in conditions)

    until(told, "its fault is told")
    before = world.pods()
    world.restart("2026-01-01T00:00:00Z")
    until(lambda: set(world.pods().values()).isdisjoint(before.values()), "the other one is restarted")
    assert world.operator.running, world.operator.ended
    world.operator.kill()
    world.operator.start()
    world.apply("third", replicas=1)
    until(lambda: world.client.get(STATEFUL_SET, world.namespace, "third") is not None, "a new one is seen")
    assert world.operator.running, world.operator.ended
