"""The wanted and the actual state, as they are handed to the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from streamsapp_operator.children import RenderSettings
from streamsapp_operator.model.desired_state import DesiredState, InvalidSpec
from streamsapp_operator.model.observed_state import PodReport, PodSeen, ReportedRole, TaskReport
from streamsapp_operator.observe.observer import children_seen, is_owned, tasks_total
from streamsapp_operator.spec_rendering import rendered_spec

CRD = Path(__file__).resolve().parents[4] / "crds" / "streamsapps.yaml"
SETTINGS = RenderSettings(runtime_image="default:1", operator_namespace="system")
SPEC: dict[str, Any] = {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "k:9092"}, "replicas": 3}


def app(spec: Any, **metadata: Any) -> dict[str, Any]:
    """As the API server gives it."""
    return {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {
            "name": "app",
            "namespace": "ns",
            "uid": "u",
            "generation": 4,
            "resourceVersion": "9",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["streamsapp.dev/drain"],
            "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsV1": {}}],
            **metadata,
        },
        "spec": spec,
        "status": {"phase": "Running"},
    }


def test_reads_what_the_api_server_gives() -> None:
    remote = {"url": "s3://bucket/prefix", "snapshotIntervalSeconds": 5}
    asked = rendered_spec(app(SPEC | {"applicationId": "other", "remoteState": remote}), SETTINGS, lambda name: None)
    wanted = asked.wanted
    assert isinstance(wanted, DesiredState)
    assert (wanted.name, wanted.generation, wanted.replicas, wanted.deleting) == ("app", 4, 3, False)
    assert (wanted.has_remote_state, wanted.snapshot_interval_seconds) == (True, 5)
    assert asked.application_id == "other"
    assert asked.revision is not None
    assert wanted.revision == asked.revision.id


def test_only_what_pods_are_made_of_makes_another_revision() -> None:
    def revision(spec: Any, **metadata: Any) -> str:
        wanted = rendered_spec(app(spec, **metadata), SETTINGS, lambda name: None).wanted
        assert isinstance(wanted, DesiredState)
        return wanted.revision

    same = revision(SPEC)
    assert revision(SPEC | {"replicas": 7}, generation=5, resourceVersion="10") == same
    assert revision(SPEC, annotations={"streamsapp.dev/restartedAt": "now"}) != same
    assert revision(SPEC | {"image": "other:1"}) != same


def test_another_image_or_more_memory_makes_another_preview_of_the_same_revision_and_a_limit_does_not() -> None:
    remote, code = {"url": "s3://bucket/prefix"}, {"files": {"a.py": "b = None"}}

    def asked(preview: dict[str, Any], image: str = "spark:1") -> tuple[str, str | None]:
        spec = SPEC | {"remoteState": remote, "code": code, "rollout": {"preview": preview}, "spark": {"image": image}}
        wanted = rendered_spec(app(spec), SETTINGS, lambda name: None).wanted
        assert isinstance(wanted, DesiredState), wanted
        return wanted.revision, wanted.preview

    revision, preview = asked({"records": 500})
    more = {"limits": {"memory": "2Gi"}}
    assert asked({"records": 500, "maxDifferences": 7}) == (revision, preview)
    others = [asked({"records": 500}, "spark:2"), asked({"records": 501}), asked({"records": 500, "resources": more})]
    assert {each for each, _ in others} == {revision}
    assert len({preview, *(each for _, each in others)}) == 4


def test_a_spec_with_faults_is_invalid_and_its_pods_are_asked_by_its_id() -> None:
    asked = rendered_spec(app({"applicationId": "id", "replicas": "many"}), SETTINGS, lambda name: None)
    assert isinstance(asked.wanted, InvalidSpec)
    assert any("spec.replicas" in fault for fault in asked.wanted.faults)
    assert (asked.application_id, asked.revision) == ("id", None)
    wrong: tuple[Any, ...] = (None, [], {"applicationId": 7})
    assert [rendered_spec(app(spec), SETTINGS, lambda name: None).application_id for spec in wrong] == ["app"] * 3


def test_a_query_that_ends_when_it_has_caught_up_is_refused_without_a_schedule() -> None:
    settings = replace(SETTINGS, spark_image="spark:1")
    spec = SPEC | {"engine": "spark", "spark": {"trigger": "availableNow"}}
    wanted = rendered_spec(app(spec), settings, lambda name: None).wanted
    assert isinstance(wanted, InvalidSpec)
    (fault,) = wanted.faults
    assert fault.startswith("spec.spark.trigger: 'availableNow' ends, so spec.spark.schedule has to say when it begins")


def test_a_query_that_catches_up_by_a_schedule_is_wanted_as_that() -> None:
    settings = replace(SETTINGS, spark_image="spark:1")
    spec = SPEC | {"engine": "spark", "spark": {"trigger": "availableNow", "schedule": "0 * * * *"}}
    wanted = rendered_spec(app(spec), settings, lambda name: None).wanted
    assert isinstance(wanted, DesiredState)
    assert wanted.schedule == "0 * * * *"
    threads = rendered_spec(app(spec | {"engine": "threads"}), settings, lambda name: None).wanted
    assert isinstance(threads, DesiredState)
    assert threads.schedule is None


def test_an_engine_without_an_image_is_refused() -> None:
    wanted = rendered_spec(app(SPEC | {"engine": "spark"}), SETTINGS, lambda name: None).wanted
    assert isinstance(wanted, InvalidSpec)
    assert wanted.faults == ("spec.spark.image: is required, as this operator was given no image with Spark; name one",)


def test_reads_the_engine() -> None:
    wanted = rendered_spec(
        app(SPEC | {"engine": "spark"}), replace(SETTINGS, spark_image="spark:1"), lambda name: None
    ).wanted
    assert isinstance(wanted, DesiredState)
    assert wanted.engine == "spark"


def test_a_config_map_that_is_not_there_is_a_fault_that_names_it() -> None:
    spec = SPEC | {"code": {"configMapRef": {"name": "mine"}}}
    asked = rendered_spec(app(spec, deletionTimestamp="2026-01-01T00:00:00Z"), SETTINGS, lambda name: None)
    assert isinstance(asked.wanted, InvalidSpec)
    assert "'mine'" in asked.wanted.faults[0]
    assert asked.wanted.deleting
    found = {"metadata": {}, "data": {"a.py": "b = 1"}}
    assert isinstance(rendered_spec(app(spec), SETTINGS, lambda name: found).wanted, DesiredState)


def pod(state: str = "RUNNING", generation: int | None = 5, tasks: tuple[str, ...] = ()) -> PodSeen:
    reports = tuple(TaskReport(name, ReportedRole.ACTIVE, "RUNNING") for name in tasks)
    standby = TaskReport("9_9", ReportedRole.STANDBY, "RUNNING")
    report = PodReport(state, generation, (*reports, standby), 0.0)
    return PodSeen("a", "u", 0, "r", True, False, 0.0, report=report)


def test_counts_tasks_while_all_pods_answer_and_agree() -> None:
    silent = PodSeen("b", "v", 1, "r", True, False, 0.0, unreachable="timed out")
    assert tasks_total([pod(tasks=("0_0", "0_1")), pod(tasks=("0_1", "0_2"))]) == 3
    assert tasks_total([pod(), silent]) is None
    assert tasks_total([pod(), pod(generation=6)]) is None
    assert tasks_total([pod("REBALANCING")]) is None
    assert tasks_total([]) is None


def test_children_are_told_as_the_plan_needs_them() -> None:
    labels = {"streamsapp.dev/revision": "r1"}
    template = {"metadata": {"labels": labels}}
    children: dict[str, Any] = {
        "StatefulSet/app": {
            "metadata": {"annotations": {"streamsapp.dev/applied": "h"}},
            "spec": {"replicas": 3, "template": template},
        },
        "PodDisruptionBudget/app": {"metadata": {}, "spec": {"maxUnavailable": 0}},
        "ConfigMap/app-r1": {"metadata": {"labels": labels}},
        "Service/app": {"metadata": {}},
    }
    seen = children_seen(children, "app")
    assert (seen.replicas, seen.template_revision, seen.max_unavailable) == (3, "r1", 0)
    assert (dict(seen.applied), seen.revisions) == ({"StatefulSet/app": "h"}, frozenset({"r1"}))
    children["PodDisruptionBudget/app"]["spec"] = {"maxUnavailable": "50%"}
    assert children_seen(children, "app").max_unavailable == 1
    assert children_seen({}, "app").replicas is None


def test_what_has_an_owner_with_the_same_name_is_not_owned() -> None:
    owner = {"name": "app", "uid": "of an earlier one", "controller": True}
    document = {"metadata": {"ownerReferences": [owner]}}
    assert not is_owned(document, "u")
    assert is_owned(document, "of an earlier one")
    assert not is_owned({"metadata": {}}, "u")


def test_more_pods_than_a_cluster_has_are_refused_as_the_resource_refuses_them() -> None:
    wanted = rendered_spec(app(SPEC | {"replicas": 5_000_000}), SETTINGS, lambda name: None).wanted
    assert isinstance(wanted, InvalidSpec)
    assert wanted.faults == ("spec.replicas: expected an integer ≤ 1000, got 5000000",)
    (version,) = yaml.safe_load(CRD.read_text("utf-8"))["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["replicas"]
    assert schema["maximum"] == 1000
