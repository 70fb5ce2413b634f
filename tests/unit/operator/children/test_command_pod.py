"""The pod in which a user's command runs: the application's in everything but what would make it one of its pods."""

from __future__ import annotations

from typing import Any

from manifests import app
from streamsapp_operator.children import Owner, RenderSettings, revision_of
from streamsapp_operator.children.command_pod import DEADLINE_SECONDS, command_pod, template_of
from streamsapp_operator.children.names import selector
from streamsapp_operator.children.stateful_set import stateful_set

SETTINGS = RenderSettings("runtime:1", "operators", spark_image="spark:1")
OWNER = Owner("wordcount", "prod", "u-1")


def pod(**spec: Any) -> dict[str, Any]:
    found = app(**spec)
    made = stateful_set(OWNER, revision_of(found, SETTINGS, found.spec.code.files), 3)
    # The API server leaves out what is empty.
    if not made["spec"]["template"]["metadata"]["annotations"]:
        del made["spec"]["template"]["metadata"]["annotations"]
    return command_pod(OWNER, template_of(made), "wordcount-consume-1", {})


def container(**spec: Any) -> dict[str, Any]:
    (only,) = pod(**spec)["spec"]["containers"]
    return dict(only)


def test_it_has_the_image_the_manifest_and_the_secrets_of_the_application() -> None:
    found = pod(kafka={"bootstrapServers": "kafka:9092", "secretRef": {"name": "login"}})
    (only,) = found["spec"]["containers"]
    assert only["image"] == "runtime:1"
    mounts = {mount["name"]: mount["mountPath"] for mount in only["volumeMounts"]}
    assert {"manifest", "kafka"} <= mounts.keys() == {volume["name"] for volume in found["spec"]["volumes"]}
    assert any(volume.get("secret", {}).get("secretName") == "login" for volume in found["spec"]["volumes"])


def test_nothing_takes_it_for_a_pod_of_the_application() -> None:
    labels = pod(podTemplate={"metadata": {"labels": {"team": "a"}}})["metadata"]["labels"]
    assert not selector("wordcount").items() <= labels.items()
    assert (labels["streamsapp.dev/command"], labels["team"]) == ("wordcount", "a")


def test_it_goes_with_the_application_and_ends_by_itself() -> None:
    made = pod()
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["u-1"]
    assert made["spec"]["activeDeadlineSeconds"] == DEADLINE_SECONDS
    assert made["spec"]["restartPolicy"] == "Never"


def test_it_is_restricted_and_has_no_token_of_the_api_server() -> None:
    made = pod()
    assert made["spec"]["automountServiceAccountToken"] is False
    assert made["spec"]["securityContext"]["runAsNonRoot"] is True
    (only,) = made["spec"]["containers"]
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    assert only["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_it_waits_for_commands_whatever_the_image_would_run() -> None:
    for spec in ({}, {"engine": "spark"}):
        found = container(**spec)
        assert found["command"][0] == "python3"
        assert found["args"] == []
        assert not {"startupProbe", "livenessProbe", "readinessProbe", "ports"} & found.keys()


def test_it_asks_for_little_and_keeps_the_limits_but_for_devices() -> None:
    limits = {"memory": "2Gi", "nvidia.com/gpu": "1"}
    found = container(resources={"requests": {"cpu": 4, "memory": "2Gi"}, "limits": limits})["resources"]
    assert found == {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "2Gi"}}
