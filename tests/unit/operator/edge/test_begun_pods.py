"""The first pods of a revision are made by what is there, and none by objects that are not known yet."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from memory_api import MemoryApi
from observed_builders import SHAPE
from streamsapp.clock import SystemClock
from streamsapp_operator.children import RenderSettings
from streamsapp_operator.children.names import NAME_LABEL, REVISION_LABEL
from streamsapp_operator.kube.kinds import STATEFUL_SET
from streamsapp_operator.loop import Key, Loop
from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.model.desired_state import DesiredState
from streamsapp_operator.model.observed_state import TopologyShape
from streamsapp_operator.model.resource_status import to_document
from streamsapp_operator.model.status import AppStatus, RolloutStatus
from streamsapp_operator.observe import PodAsker
from streamsapp_operator.plan import plan
from streamsapp_operator.plan.topology_compatibility import encode
from streamsapp_operator.reconcile import OperatorContext
from streamsapp_operator.reconcile_interval import PERIOD, Pace
from streamsapp_operator.shared_informers import make_cache
from streamsapp_operator.spec_rendering import rendered_spec
from streamsapp_operator.steady_clock import SteadyClock

APP: dict[str, Any] = {
    "apiVersion": "streamsapp.dev/v1alpha1",
    "kind": "StreamsApp",
    "metadata": {"name": "app", "namespace": "ns", "uid": "u", "generation": 1},
    "spec": {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "k:9092"}, "image": "image:1"},
}
SETTINGS = RenderSettings(runtime_image=None, operator_namespace="ns")


@pytest.fixture
def api() -> MemoryApi:
    return MemoryApi()


@pytest.fixture
def tools(api: MemoryApi) -> OperatorContext:
    clock = SteadyClock(SystemClock())
    asker = PodAsker(clock)
    return OperatorContext(api, asker, clock, SETTINGS, b"k" * 32, "test", lambda: True, plan, cache=make_cache(api))


def reconcile(tools: OperatorContext) -> float | None:
    return Loop(Key("ns", "app"), tools, OperatorMetrics(), Pace()).reconcile()


def stopped_at(revision: str) -> dict[str, Any]:
    """Returns the StatefulSet after the operator has asked all its pods to end."""
    owner = {"kind": "StreamsApp", "name": "app", "uid": "u", "controller": True}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "app", "labels": {NAME_LABEL: "app"}, "ownerReferences": [owner]},
        "spec": {"replicas": 0, "template": {"metadata": {"labels": {REVISION_LABEL: revision}}}},
        "status": {"observedGeneration": 1},
    }


def ending_pod(revision: str) -> dict[str, Any]:
    owner = {"kind": "StatefulSet", "name": "app", "uid": "s", "controller": True}
    times = {"creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:01:00Z"}
    labels = {NAME_LABEL: "app", REVISION_LABEL: revision}
    metadata = {"name": "app-1", "labels": labels, "ownerReferences": [owner], **times}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}


def test_no_pod_is_made_beside_one_of_another_topology_that_no_watch_told_of(
    api: MemoryApi, tools: OperatorContext
) -> None:
    wanted = rendered_spec(APP, SETTINGS, lambda name: None)
    assert isinstance(wanted.wanted, DesiredState)
    before = AppStatus(
        last_good_revision=wanted.wanted.revision,
        shape=encode(SHAPE),
        rollout=RolloutStatus(
            revision="two", phase="Rolling", checked=True, shape=encode(TopologyShape({0: ("other",)}, {}))
        ),
    )
    app = {**APP, "status": json.loads(json.dumps(to_document(before)))}
    assert tools.cache is not None
    tools.cache.put(STATEFUL_SET, api.put(stopped_at("two")))
    api.put(ending_pod("two"))

    def replicas() -> int:
        api.put(app)
        reconcile(tools)
        return int(api.objects["StatefulSet", "app"]["spec"]["replicas"])

    assert replicas() == 0
    del api.objects["Pod", "app-1"]
    assert replicas() == 1


def test_nothing_is_planned_in_a_namespace_whose_objects_are_not_known_yet(
    api: MemoryApi, tools: OperatorContext
) -> None:
    known: set[str] = set()
    tools = dataclasses.replace(tools, is_watched=known.__contains__)
    api.put(APP)
    assert reconcile(tools) == PERIOD
    assert not api.calls
    known.add("ns")
    reconcile(tools)
    assert api.objects["StreamsApp", "app"]["status"]["phase"]
