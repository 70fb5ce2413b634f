"""The operator's work for an application, as its user sees it, with no more rights than the chart gives it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from operator_process import until
from operator_world import APP, DownWatch, World
from streamsapp_operator.kube import Refused
from streamsapp_operator.kube.kinds import (
    BUDGET,
    CONFIG_MAP,
    NETWORK_POLICY,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    STREAMS_APP,
)


def test_makes_everything_an_application_needs_and_owns_it(world: World) -> None:
    world.apply()
    world.until_ready()
    uid = world.app()["metadata"]["uid"]
    children = [
        (STATEFUL_SET, APP),
        (BUDGET, APP),
        (NETWORK_POLICY, APP),
        (SERVICE, APP),
        (SERVICE, f"{APP}-query"),
        (SERVICE_ACCOUNT, f"{APP}-runtime"),
        (SECRET, f"{APP}-http"),
        (CONFIG_MAP, f"{APP}-{world.status()['lastGoodRevision']}"),
    ]
    for kind, name in children:
        found = world.client.get(kind, world.namespace, name)
        assert found is not None, f"{kind.name}/{name}"
        assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [uid]
    assert world.app()["metadata"]["finalizers"] == ["streamsapp.dev/drain"]
    until(lambda: world.status()["inputLag"] == 28, "its input lag")  # none while a pod is late with its answer
    wanted = {"CheckStarted", "RolloutStarted", "RolloutComplete"}
    until(lambda: set(world.events()) >= wanted, "every event")  # reported after the status
    assert set(world.events()) == wanted


def test_asks_pods_with_the_token_that_it_wrote_for_them(world: World) -> None:
    world.apply()
    world.until_ready()
    secret = json.loads(world.api.kubectl("get", "secret", f"{APP}-http", "-n", world.namespace, "-o", "json"))
    go_template = "{{.data.token | base64decode}}"
    text = world.api.kubectl(
        "get", "secret", secret["metadata"]["name"], "-n", world.namespace, f"-o=go-template={go_template}"
    )
    today, yesterday = text.split()
    assert world.node.behaviour.asked_with == {today}
    # A pod whose mounted file is a day old yet is asked with what it knows.
    world.node.behaviour.tokens = (yesterday,)
    until(lambda: yesterday in world.node.behaviour.asked_with, "yesterday's token is tried")
    until(lambda: world.status()["restart"]["safe"], "it answers")


def test_touches_nothing_for_a_spec_that_cannot_be_used_and_says_why(world: World) -> None:
    world.apply()
    world.until_ready()
    before, pods = world.stateful_set()["metadata"]["generation"], world.pods()
    world.apply(code={"configMapRef": {"name": "not-there"}})
    until(lambda: world.condition("Ready").get("observedGeneration") == 2, "the new generation was seen")
    told = json.dumps(world.status()["conditions"])
    assert "there is no ConfigMap 'not-there'" in told
    until(lambda: world.has_told("not-there"), "an event")
    assert (world.stateful_set()["metadata"]["generation"], world.pods()) == (before, pods)
    # The missing object comes: no change of the application is needed.
    world.api.kubectl(
        "create", "configmap", "not-there", "-n", world.namespace, "--from-literal=wordcount.py=other = 1"
    )
    until(lambda: set(world.pods().values()).isdisjoint(pods.values()), "all pods have the new code")
    world.until_ready()


def test_code_that_is_changed_in_its_config_map_is_rolled_out(world: World) -> None:
    world.api.kubectl("create", "configmap", "code", "-n", world.namespace, "--from-literal=wordcount.py=a = 1")
    world.apply(code={"configMapRef": {"name": "code"}})
    world.until_ready()
    first = world.status()["lastGoodRevision"]
    world.api.kubectl("patch", "configmap", "code", "-n", world.namespace, "-p", '{"data":{"wordcount.py":"a = 2"}}')
    until(lambda: world.status()["lastGoodRevision"] != first, "the new code has become good")
    config_map = world.client.get(CONFIG_MAP, world.namespace, f"{APP}-{world.status()['lastGoodRevision']}")
    assert config_map is not None
    assert "a = 2" in config_map["data"].values()


def test_a_topology_that_does_not_load_starts_nothing_and_its_faults_are_told(world: World) -> None:
    fault = "spec.topology.entrypoint: there is no module 'wordcount'"
    world.node.behaviour.check_message = {"faults": [fault]}
    world.apply()
    until(lambda: fault in json.dumps(world.status().get("conditions")), "the fault is in a condition")
    assert world.client.get(STATEFUL_SET, world.namespace, APP) is None
    until(lambda: world.has_told(fault), "an event")
    until(lambda: not world.client.list(POD, world.namespace), "the check pod is gone")


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ({"metadata": {"labels": {"bad": "not a label value!"}}}, "not a label value!"),
        ({"spec": {"tolerationz": []}}, "tolerationz"),
    ],
)
def test_a_pod_that_the_api_server_refuses_is_told_as_a_fault(world: World, template: Any, told: str) -> None:
    world.apply(podTemplate=template)
    until(lambda: told in json.dumps(world.status().get("conditions")), "the fault is in a condition")
    assert world.client.get(STATEFUL_SET, world.namespace, APP) is None


def test_restarts_pods_one_at_a_time(world: World) -> None:
    world.apply()
    world.until_ready()
    before = world.pods()
    with DownWatch(world, 3) as watch:
        world.restart("2026-01-01T00:00:00Z")
        until(lambda: set(world.pods().values()).isdisjoint(before.values()), "every pod was replaced")
        world.until_ready()
    assert watch.fewest >= 2
    assert world.status()["rollout"]["updated"] == 3


class FirstFails(dict[str, str]):
    """The pods of the first revision that is asked about do not start."""

    def get(self, revision: str, default: Any = None) -> Any:
        return "CrashLoopBackOff" if revision == self.setdefault("first", revision) else default


@pytest.mark.parametrize("replicas", [1, 3])
def test_an_application_none_of_whose_pods_ever_started_is_mended_by_the_next_spec(world: World, replicas: int) -> None:
    world.node.behaviour.broken = FirstFails()
    world.apply(replicas=replicas, processing={"standbyReplicas": 0})
    until(lambda: _running(world) == replicas, "all pods run")
    before = world.pods()
    with pytest.raises(Refused):
        world.client.evict(world.namespace, f"{APP}-0", before[f"{APP}-0"])

    world.apply(replicas=replicas, processing={"standbyReplicas": 0, "threads": 2})
    until(lambda: set(world.pods().values()).isdisjoint(before.values()), "every pod was replaced")
    until(lambda: world.status()["readyReplicas"] == replicas, "all pods are ready")
    until(lambda: world.status()["rollout"]["phase"] == "Complete", "the spec is rolled out")

    budget = world.client.get(BUDGET, world.namespace, APP)
    assert budget is not None
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "IfHealthyBudget"


def test_waits_while_standbys_are_behind_and_goes_on_by_itself(world: World) -> None:
    world.apply()
    world.until_ready()
    before = world.pods()
    world.node.behaviour.standby_lag = 4000
    until(lambda: not world.status()["restart"]["safe"], "the gate is shut")
    budget = world.client.get(BUDGET, world.namespace, APP)
    assert budget is not None
    until(lambda: _max_unavailable(world) == 0, "nobody else may take a pod either")
    world.restart("2026-01-01T00:00:00Z")
    until(lambda: (world.status()["rollout"] or {}).get("phase") == "Blocked", "the rollout is blocked")
    # A pod that is late with its answer is another blocker.
    until(lambda: _first_blocker(world) == ("StandbyBehind", 4000), "it is told by what")
    assert world.pods() == before
    world.node.behaviour.standby_lag = 0
    until(lambda: set(world.pods().values()).isdisjoint(before.values()), "every pod was replaced")


def test_scales_up_at_once_and_down_one_by_one(world: World) -> None:
    world.apply(replicas=1, processing={"standbyReplicas": 0}, rollout={"maxStandbyLag": 0})
    until(lambda: len(world.pods()) == 1, "one pod")
    world.apply(replicas=4)
    until(lambda: len(world.pods()) == 4, "four pods")
    world.until_ready()
    world.apply(replicas=2)
    until(lambda: len(world.pods()) == 2, "two pods")
    assert sorted(world.pods()) == [f"{APP}-0", f"{APP}-1"]


def test_mends_what_somebody_else_changed(world: World) -> None:
    world.apply()
    world.until_ready()
    world.api.kubectl("scale", "statefulset", APP, "-n", world.namespace, "--replicas=5")
    until(lambda: world.stateful_set()["spec"]["replicas"] == 3, "the number of pods is mended")
    world.api.kubectl("delete", "pdb", APP, "-n", world.namespace)
    until(lambda: world.client.get(BUDGET, world.namespace, APP), "the budget is back")


def test_leaves_alone_what_is_not_its_own_and_says_so(world: World) -> None:
    theirs = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": APP, "namespace": world.namespace}}
    world.client.create(theirs | {"spec": {"ports": [{"port": 80}]}})
    world.apply()
    messages = until(lambda: world.events().get("OperatorError"), "it is told")
    assert f"there is a Service '{APP}' already that does not belong to this StreamsApp" in messages[0]
    until(lambda: world.condition("Degraded").get("reason") == "NameTaken", "its condition tells it")
    found = world.client.get(SERVICE, world.namespace, APP)
    assert found is not None
    assert "ownerReferences" not in found["metadata"]


@pytest.mark.long
def test_is_scaled_by_what_comes_and_by_what_a_busy_pod_does(world: World) -> None:
    # By its lag alone one pod would do; the incoming records take all that it can do.
    world.node.behaviour.input_lag, world.node.behaviour.records_per_second = 1000, 25.0
    stabilization = {"scaleUpStabilizationSeconds": 1, "scaleDownStabilizationSeconds": 2}
    world.apply(replicas=1, autoscaling={"maxReplicas": 3, "targetInputLag": 1_000_000, **stabilization})
    until(
        lambda: (it := world.client.get(STATEFUL_SET, world.namespace, APP)) and it["spec"]["replicas"] == 2,
        "there is another pod",
        240,
    )
    scaling = world.status()["scaling"]
    world.node.behaviour.input_lag, world.node.behaviour.records_per_second = 0, 0.0
    assert 80 < scaling["podRecordsPerSecond"] < 120
    assert "a busy pod does" in scaling["reason"]
    until(lambda: world.stateful_set()["spec"]["replicas"] == 1, "one is enough", 240)


def test_a_webhook_that_is_away_holds_up_only_the_application_whose_children_it_judges(world: World) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["statefulsets"]}
    hook = {
        "name": "away.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/judge"},
        "rules": [rule],
        "objectSelector": {"matchLabels": {"streamsapp.dev/name": APP}},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": world.namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    name = f"away-{world.namespace}"
    webhook = json.dumps(kind | {"metadata": {"name": name}, "webhooks": [hook]})
    world.api.kubectl("apply", "-f", "-", stdin=webhook)
    try:
        world.apply()
        until(lambda: world.condition("Degraded").get("reason") == "WriteFailed", "it is told")
        assert "failed calling webhook" in world.condition("Degraded")["message"]
        assert world.client.get(STATEFUL_SET, world.namespace, APP) is None
        world.apply("other", replicas=1)
        until(lambda: world.client.get(STATEFUL_SET, world.namespace, "other") is not None, "the other one goes on")
    finally:
        world.api.kubectl("delete", "validatingwebhookconfiguration", name)
    until(lambda: world.client.get(STATEFUL_SET, world.namespace, APP) is not None, "it is tried again")
    until(lambda: world.condition("Degraded").get("status") == "False", "it is over")


def test_writes_nobody_elses_secret_names_it_and_goes_on_when_it_is_gone(world: World) -> None:
    name = f"{APP}-http"
    world.api.kubectl("create", "secret", "generic", name, "-n", world.namespace, "--from-literal=password=theirs")
    world.apply()
    until(lambda: world.condition("Degraded").get("reason") == "NameTaken", "it is told")
    assert f"there is a Secret '{name}' already" in world.condition("Degraded")["message"]
    found = world.client.get(SECRET, world.namespace, name)
    assert found is not None
    assert found["data"] == {"password": "dGhlaXJz"}
    assert "ownerReferences" not in found["metadata"]
    world.api.kubectl("delete", "secret", name, "-n", world.namespace)
    world.until_ready()
    until(lambda: world.condition("Degraded").get("status") == "False", "it is over")
    # The next operator may read it no more than this one, and knows it all the same.
    world.operator.kill()
    world.operator.start()
    before = world.pods()
    world.restart("2026-01-01T00:00:00Z")
    until(lambda: set(world.pods().values()).isdisjoint(before.values()), "the next operator goes on")
    assert world.condition("Degraded")["status"] == "False"


def test_drains_before_it_lets_an_application_go(world: World) -> None:
    world.apply()
    world.until_ready()
    world.api.kubectl("delete", "sapp", APP, "-n", world.namespace, "--wait=false")
    until(lambda: world.client.get(STREAMS_APP, world.namespace, APP) is None, "the application is gone")
    assert world.pods() == {}
    assert world.stateful_set()["spec"]["replicas"] == 0


@pytest.mark.long
def test_an_application_that_is_made_anew_under_its_name_begins_anew(world: World) -> None:
    world.apply()
    world.until_ready()
    world.api.kubectl("delete", "sapp", APP, "-n", world.namespace, "--wait=true", "--timeout=120s")
    # This is what a garbage collector would do.
    for kind in ("statefulset", "pdb", "networkpolicy", "service", "serviceaccount", "secret", "configmap"):
        world.api.kubectl("delete", kind, "-n", world.namespace, "--all")
    world.apply(replicas=2)
    world.until_ready()
    assert len(world.pods()) == 2


def test_tells_how_it_works_on_its_own_port(world: World) -> None:
    world.apply()
    world.until_ready()
    assert json.loads(world.operator.get("/healthz")) == {"ok": True, "reason": "works"}
    assert json.loads(world.operator.get("/readyz"))["ok"]
    labels = f'{{name="{APP}",namespace="{world.namespace}"}}'
    told = [f"streamsapp_app_{it}" for it in (f"restart_safe{labels} 1.0", f"input_lag{labels} 28.0")]
    told.append("streamsapp_operator_leader 1.0")
    until(lambda: {*told} <= {*world.operator.get("/metrics").splitlines()}, f"its metrics tell {told}")


def _first_blocker(world: World) -> tuple[str, int | None] | None:
    blockers = world.status()["restart"]["blockers"]
    return (blockers[0]["reason"].split(":")[0].split()[0], blockers[0]["lag"]) if blockers else None


def _running(world: World) -> int:
    pods = world.client.list(POD, world.namespace, f"streamsapp.dev/name={APP}")
    return sum(pod["status"].get("phase") == "Running" for pod in pods)


def _max_unavailable(world: World) -> int | None:
    budget = world.client.get(BUDGET, world.namespace, APP)
    return None if budget is None else budget["spec"]["maxUnavailable"]
