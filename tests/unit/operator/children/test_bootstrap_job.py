"""The Job that makes state of history: a pod like the application's own, in another image."""

from __future__ import annotations

from typing import Any

import pytest

from manifests import app
from streamsapp.errors import ManifestError
from streamsapp_operator.children import Owner, RenderSettings, revision_of
from streamsapp_operator.children.bootstrap_job import bootstrap_job
from streamsapp_operator.children.check_pod import check_pod
from streamsapp_operator.children.spark_job import attempt_of

SETTINGS = RenderSettings("runtime:1", "operators", spark_image="spark:1")
OWNER = Owner("wordcount", "prod", "u-1")
REMOTE = {"url": "s3://bucket/prefix", "secretRef": {"name": "s3"}}


def job(bootstrap: dict[str, Any] | None = None, settings: RenderSettings = SETTINGS, **spec: Any) -> dict[str, Any]:
    found = app(remoteState=REMOTE, bootstrap=bootstrap or {}, **spec)
    assert found.spec.bootstrap is not None
    return bootstrap_job(OWNER, found.spec.bootstrap, revision_of(found, settings, found.spec.code.files), settings)


def pod(found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def container(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod(found)["containers"]
    return dict(only)


def option(found: dict[str, Any], name: str) -> str:
    arguments = container(found)["args"]
    return str(arguments[arguments.index(name) + 1])


def test_it_runs_the_command_on_the_manifest_of_the_revision_and_reports() -> None:
    made = job()
    assert container(made)["image"] == "spark:1"
    assert container(made)["args"][0] == "bootstrap"
    assert option(made, "-f") == "/etc/streamsapp/app/streamsapp.yaml"
    assert option(made, "--until") == "latest"
    assert option(made, "--report") == container(made)["terminationMessagePath"]


def test_the_end_of_history_is_passed_on_as_json() -> None:
    made = job({"until": {"lines": {"0": 12, "1": -1}}})
    assert option(made, "--until") == '{"lines": {"0": 12, "1": -1}}'


def test_it_goes_with_the_application_and_no_service_or_budget_takes_its_pod_for_one() -> None:
    made = job()
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["u-1"]
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert labels["streamsapp.dev/bootstrap"] == "wordcount"
    assert "streamsapp.dev/name" not in labels | made["metadata"]["labels"]


def test_it_has_the_secrets_code_account_and_security_of_the_applications_pods() -> None:
    spec: dict[str, Any] = {
        "code": {"files": {"wordcount.py": "a = 1"}},
        "podTemplate": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "serviceAccountName": "may-write",
                "nodeSelector": {"disk": "fast"},
                "containers": [{"name": "side"}, {"name": "runtime", "env": [{"name": "A", "value": "1"}]}],
            },
        },
    }
    made = job(**spec)
    found = app(remoteState=REMOTE, **spec)
    template = revision_of(found, SETTINGS, found.spec.code.files).template
    runtime = next(each for each in template["spec"]["containers"] if each["name"] == "runtime")
    same = ("serviceAccountName", "automountServiceAccountToken", "securityContext", "nodeSelector")
    assert {name: pod(made)[name] for name in same} == {name: template["spec"][name] for name in same}
    assert pod(made)["volumes"] == template["spec"]["volumes"]
    assert container(made)["volumeMounts"] == runtime["volumeMounts"]
    assert container(made)["securityContext"] == runtime["securityContext"]
    assert made["spec"]["template"]["metadata"]["labels"]["team"] == "a"
    assert {"name": "A", "value": "1"} in container(made)["env"]


def test_stores_and_shuffles_lie_in_the_folder_that_has_the_limit() -> None:
    made = job({"resources": {"limits": {"ephemeral-storage": "9Gi"}}})
    volumes = {volume["name"]: volume for volume in pod(made)["volumes"]}
    folder = next(each["mountPath"] for each in container(made)["volumeMounts"] if each["name"] == "state")
    assert volumes["state"] == {"name": "state", "emptyDir": {"sizeLimit": "9Gi"}}
    environment = {each["name"]: each.get("value") for each in container(made)["env"]}
    assert (environment["TMPDIR"], environment["SPARK_LOCAL_DIRS"]) == (folder, folder)


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        ({}, {"requests": {"cpu": "500m", "memory": "1Gi"}}),
        (
            {"requests": {"memory": "2Gi"}, "limits": {"cpu": 4}},
            {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": "4"}},
        ),
        (
            {"limits": {"cpu": "100m", "memory": "512Mi"}},
            {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "100m", "memory": "512Mi"}},
        ),
    ],
)
def test_its_resources_are_its_own(asked: dict[str, Any], given: dict[str, Any]) -> None:
    assert container(job({"resources": asked}, resources={"limits": {"memory": "128Mi"}}))["resources"] == given


@pytest.mark.parametrize(
    ("asked", "master"),
    [
        ({}, "local[1]"),
        ({"limits": {"cpu": 4}}, "local[4]"),
        ({"limits": {"cpu": "2500m"}, "requests": {"cpu": 1}}, "local[2]"),
        ({"limits": {"cpu": "500m"}}, "local[1]"),
        ({"requests": {"cpu": 3}}, "local[3]"),
    ],
)
def test_as_many_tasks_run_at_a_time_as_it_is_given_cores(asked: dict[str, Any], master: str) -> None:
    assert option(job({"resources": asked}), "--master") == master


def test_what_would_end_the_same_is_not_tried_again() -> None:
    (rule,) = job()["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [2])
    assert pod(job())["restartPolicy"] == "Never"


def test_an_image_of_the_users_own_wins_and_without_any_it_is_a_fault() -> None:
    assert container(job({"image": "mine:1"}))["image"] == "mine:1"
    without = RenderSettings("runtime:1", "operators")
    assert container(job({"image": "mine:1"}, without))["image"] == "mine:1"
    with pytest.raises(
        ManifestError, match=r"spec\.bootstrap\.image: is required, as this operator was given no image"
    ):
        job(settings=without)


@pytest.mark.parametrize(
    "changes",
    [
        {"bootstrap": {"until": {"lines": {"0": 1}}}},
        {"bootstrap": {"image": "other:1"}},
        {"bootstrap": {"resources": {"limits": {"cpu": 1}}}},
        {"code": {"files": {"wordcount.py": "a = 2"}}},
    ],
)
def test_whatever_it_is_made_of_makes_another_attempt(changes: dict[str, Any]) -> None:
    assert attempt_of(job()) == attempt_of(job())
    assert attempt_of(job(**changes)) != attempt_of(job())


def test_pods_are_not_restarted_for_a_change_of_it() -> None:
    def revision(bootstrap: dict[str, Any] | None) -> str:
        return revision_of(app(remoteState=REMOTE, bootstrap=bootstrap), SETTINGS, {}).id

    assert revision(None) == revision({}) == revision({"until": {"lines": {"0": 1}}, "image": "other:1"})


def test_the_longest_name_of_an_application_has_room_for_a_job() -> None:
    found = app(remoteState=REMOTE, bootstrap={})
    assert found.spec.bootstrap is not None
    owner = Owner("a" * 52, "prod", "u")
    made = bootstrap_job(owner, found.spec.bootstrap, revision_of(found, SETTINGS, {}), SETTINGS)
    assert len(made["metadata"]["name"]) <= 63


def test_a_check_is_still_made_with_the_applications_own_image_and_ends_by_itself() -> None:
    found = app(remoteState=REMOTE, bootstrap={})
    made = check_pod(OWNER, revision_of(found, SETTINGS, {}))
    assert made["spec"]["containers"][0]["image"] == "runtime:1"
    assert made["spec"]["activeDeadlineSeconds"] == 600
