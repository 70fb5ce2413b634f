"""The StreamsApp as users and tools meet it: defaults, columns, scaling, status, and what ``kubectl`` says."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import to_builtins
from msgspec.structs import replace

from api_server import ApiServer
from operator_process import until
from stream_apps import Applications, document, refusal
from streamsapp.manifest import decode
from streamsapp.manifest.model import BootstrapSpec, PreviewSpec
from streamsapp_operator.children import Owner, RenderSettings, render, revision_of
from streamsapp_operator.children.bootstrap_job import bootstrap_job
from streamsapp_operator.children.preview_job import preview_job
from streamsapp_operator.model.resource_status import from_document, to_document
from streamsapp_operator.model.status import (
    AppStatus,
    Blocker,
    BootstrapStatus,
    Condition,
    ExpectedGap,
    ObservedGap,
    PodGap,
    Restart,
    RolloutStatus,
    ScalingStatus,
    ScheduleStatus,
    Tasks,
)

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
STATUS = AppStatus(
    phase="Running",
    observed_generation=1,
    replicas=3,
    ready_replicas=2,
    selector="streamsapp.dev/name=wordcount",
    tasks=Tasks(active=4, running=4, standby=4),
    input_lag=310,
    standby_lag=None,
    restart=Restart(blockers=(Blocker(pod="wordcount-0", task="0_1", reason="NoStandby: nobody has it"),)),
    bootstrap=BootstrapStatus(phase="Running", started_at=NOW, job="wordcount-bootstrap", attempt="a1"),
    gaps=(PodGap(pod="wordcount-0", predicted_seconds=0.2, predicted_from="a standby goes on", observed_at=NOW),),
    rollout=RolloutStatus(
        revision="r",
        started_at=NOW,
        predicted_seconds=1.5,
        predicted_from="a standby goes on",
        expected=ExpectedGap(seconds=1.5, kind="standby"),
        measured_from=NOW,
        shape={"sources": {"0": ["a"]}, "stores": {"0": {}}},
    ),
    scaling=ScalingStatus(desired=3, reason="lag", changed_at=NOW),
    conditions=(
        Condition(
            type="Ready",
            status="True",
            reason="AllReady",
            message="",
            last_transition_time="2026-01-02T03:04:05Z",
            observed_generation=1,
        ),
    ),
    last_good_revision="q",
    shape={"sources": {"0": ["a"]}, "stores": {"0": {"counts": "key_value"}}},
    known_tasks={"0": 4},
    observed_gaps=(ObservedGap(kind="standby", work_seconds=0.01, seconds=0.2),),
)


def test_what_is_left_out_is_filled_in_as_the_manifest_means_it(applications: Applications) -> None:
    created = applications.create(document(remoteState={"url": "s3://bucket/prefix"}))

    assert decode(created).spec == decode(document(remoteState={"url": "s3://bucket/prefix"})).spec
    assert created["spec"]["processing"]["threads"] == 1


def test_a_status_with_every_field_comes_back_as_it_was_written(applications: Applications) -> None:
    created = applications.create(document())

    written = applications.write_status(created, to_document(STATUS))

    assert from_document(written["status"]) == STATUS


def test_the_memory_of_an_operator_that_kept_it_among_the_other_fields_is_read_and_moved(
    applications: Applications,
) -> None:
    """As after an upgrade: the resource keeps fields that it does not know, until they are written elsewhere."""
    left = applications.write_status(applications.create(document()), to_builtins(STATUS))

    read = from_document(left["status"])
    moved = applications.write_status(left, to_document(read))

    assert read == STATUS
    assert {"shape", "knownTasks", "accepted"} <= left["status"].keys()
    assert not {"shape", "knownTasks", "accepted"} & moved["status"].keys()
    assert from_document(moved["status"]) == STATUS


def test_an_empty_status_comes_back_as_it_was_written(applications: Applications) -> None:
    written = applications.write_status(applications.create(document()), to_document(AppStatus()))

    assert from_document(written["status"]) == AppStatus()


def test_a_status_of_a_newer_operator_is_kept(applications: Applications) -> None:
    status = to_document(STATUS) | {"inventedLater": {"a": 1}}
    status["rollout"]["inventedLater"] = 2

    written = applications.write_status(applications.create(document()), status)

    assert written["status"]["inventedLater"] == {"a": 1}
    assert written["status"]["rollout"]["inventedLater"] == 2


def test_whoever_writes_the_spec_writes_no_status(applications: Applications) -> None:
    created = applications.create(document() | {"status": {"phase": "Running"}})
    assert created["status"] == {"observedGeneration": -1}


def test_a_condition_is_there_once(applications: Applications) -> None:
    status = to_document(STATUS)
    status["conditions"] *= 2

    created = applications.create(document())

    ((field, message),) = refusal(lambda: applications.write_status(created, status))
    assert field == "status.conditions.1"
    assert message.startswith("Duplicate value")


def test_kubectl_shows_the_columns(cluster: ApiServer, applications: Applications, namespace: str) -> None:
    applications.write_status(applications.create(document()), to_document(STATUS))

    header, row = cluster.kubectl("get", "sapp", "-n", namespace).splitlines()

    assert header.split() == ["NAME", "READY", "PHASE", "TASKS", "LAG", "STANDBY-LAG", "SAFE", "AGE"]
    assert row.split()[:-1] == ["wordcount", "True", "Running", "4", "310", "false"]  # no lag that is not known


def test_kubectl_shows_no_run_where_none_is_to_begin(
    cluster: ApiServer, applications: Applications, namespace: str
) -> None:
    applications.write_status(applications.create(document()), to_document(replace(STATUS, schedule=ScheduleStatus())))

    header, row = cluster.kubectl("get", "sapp", "-o", "wide", "-n", namespace).splitlines()

    assert header.split()[-4:] == ["LAST-RUN", "NEXT-RUN", "AGE", "MESSAGE"]
    assert row[header.index("LAST-RUN") : header.index("AGE")].strip() == ""


def test_wide_columns_show_pods_the_rollout_and_what_is_wrong(
    cluster: ApiServer, applications: Applications, namespace: str
) -> None:
    rollout = RolloutStatus(revision="r", pods="1/3")
    status = replace(STATUS, pods="2/3", rollout=rollout, message="wordcount-1: no image")
    applications.write_status(applications.create(document()), to_document(status))

    header, row = cluster.kubectl("get", "sapp", "-o", "wide", "-n", namespace).splitlines()

    assert [row[header.index(each) :].split()[0] for each in ("PODS", "ROLLOUT")] == ["2/3", "1/3"]
    assert row.endswith("wordcount-1: no image")


def test_kubectl_scales(cluster: ApiServer, applications: Applications, namespace: str) -> None:
    applications.write_status(applications.create(document()), to_document(STATUS))

    cluster.kubectl("scale", "streamsapp/wordcount", "--replicas=3", "-n", namespace)

    scale = applications.scale("wordcount", 2)
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 3, "selector": "streamsapp.dev/name=wordcount"}


def test_scaling_keeps_to_the_rules(applications: Applications) -> None:
    applications.create(document(replicas=3, processing={"standbyReplicas": 2}))

    ((field, message),) = refusal(lambda: applications.scale("wordcount", 2))
    assert field == "spec.processing.standbyReplicas"
    assert "there must be more pods than standbys" in message


def kubectl_apply(cluster: ApiServer, namespace: str, applied: dict[str, Any], *options: str) -> str:
    return cluster.kubectl("apply", "-n", namespace, "-f", "-", *options, stdin=yaml.safe_dump(applied))


@pytest.mark.parametrize("options", [(), ("--server-side",)], ids=["client side", "server side"])
def test_kubectl_refuses_a_misspelt_field(cluster: ApiServer, namespace: str, options: tuple[str, ...]) -> None:
    with pytest.raises(RuntimeError, match=r"spec\.processing\.thread\b"):
        kubectl_apply(cluster, namespace, document(processing={"thread": 2}), *options)


def test_kubectl_tells_every_fault_at_once(cluster: ApiServer, namespace: str) -> None:
    with pytest.raises(RuntimeError) as refused:
        kubectl_apply(
            cluster,
            namespace,
            document(engine="spark", kafka={}, spark={"trigger": "availableNow"}, processing={"instances": 0}),
        )

    for words in ("'availableNow' ends", "is required to run; set it, such as kafka:9092", "'auto' or an integer ≥ 1"):
        assert words in str(refused.value)


def test_kubectl_explains_the_fields(cluster: ApiServer) -> None:
    def explained() -> str:
        with suppress(RuntimeError):  # the server publishes its documentation some time after the resource
            return cluster.kubectl("explain", "streamsapp.spec.remoteState.url")
        return ""

    until(lambda: "immutable in a cluster" in explained(), "the documentation")


@pytest.mark.parametrize("manifest", sorted(EXAMPLES.glob("*/streamsapp.yaml")), ids=lambda path: path.parent.name)
def test_kubectl_applies_every_example_as_it_stands(cluster: ApiServer, namespace: str, manifest: Path) -> None:
    assert "created" in cluster.kubectl("apply", "-n", namespace, "-f", str(manifest))


# ---- children ------------------------------------------------------------------------------------------------------


FULL: dict[str, Any] = {
    "replicas": 2,
    "code": {"files": {"package/words.py": "x = 1\n"}},
    "kafka": {"bootstrapServers": "kafka:9092", "secretRef": {"name": "kafka-credentials"}},
    "remoteState": {"url": "s3://bucket/prefix", "secretRef": {"name": "s3-credentials"}},
    "bootstrap": {"until": {"lines": {"0": 7}}, "resources": {"limits": {"cpu": 2, "ephemeral-storage": "9Gi"}}},
    "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi", "ephemeral-storage": "2Gi"}},
    "podTemplate": {
        "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {
            "containers": [
                {"name": "runtime", "env": [{"name": "A", "value": "1"}], "startupProbe": {"failureThreshold": 600}},
                {"name": "side", "image": "side:1"},
            ],
            "initContainers": [{"name": "first", "image": "first:1"}],
            "volumes": [{"name": "models", "emptyDir": {}}],
            "tolerations": [{"operator": "Exists"}],
        },
    },
}


@pytest.mark.parametrize("spec", [{}, FULL], ids=["least", "most"])
def test_the_api_server_takes_every_child_as_it_is_rendered(
    cluster: ApiServer, applications: Applications, namespace: str, spec: dict[str, Any]
) -> None:
    created = applications.create(document(**spec))
    app = decode(created)
    settings = RenderSettings("streamsapp-runtime:1", "operators", spark_image="streamsapp-spark:1")
    owner = Owner("wordcount", namespace, created["metadata"]["uid"])
    revision = revision_of(app, settings, app.spec.code.files)
    children = render(owner, revision, settings, replicas=2, max_unavailable=0, token_lines=("t",))
    template = children.objects[-1]["spec"]["template"]
    metadata = template["metadata"] | {"name": "wordcount-0", "namespace": namespace}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    job = bootstrap_job(owner, app.spec.bootstrap or BootstrapSpec(), revision, settings)
    template = job["spec"]["template"]
    metadata = template["metadata"] | {"name": "wordcount-bootstrap-1", "namespace": namespace}
    worker = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    preview = preview_job(owner, PreviewSpec(), revision, revision, "streamsapp-spark:1", "one-two-1")
    template = preview["spec"]["template"]
    metadata = template["metadata"] | {"name": "wordcount-preview-1", "namespace": namespace}
    both = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    documents = [*children.objects, children.check[-1], pod, job, worker, preview, both]
    told = cluster.kubectl(
        "apply", "--server-side", "--field-manager=streamsapp-operator", "-f", "-", stdin=yaml.safe_dump_all(documents)
    )

    # A pod that breaks the standard of its namespace, or a field that is unknown, would have been refused.
    assert told.count("serverside-applied") == len(documents)
