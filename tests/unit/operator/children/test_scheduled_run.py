"""The CronJob of a query that catches up by a schedule: its pod is one of the application's, with Spark in it."""

from __future__ import annotations

from typing import Any

from manifests import app
from streamsapp_operator.children import Children, Owner, RenderSettings, recorded_revision, render, revision_of

SETTINGS = RenderSettings("runtime:1", "operators", spark_image="spark:1")
OWNER = Owner("wordcount", "prod", "u-1")
SPARK = {"trigger": "availableNow", "schedule": "0 * * * *", "conf": {"spark.driver.memory": "1g"}}


def children(*, begins: bool = True, replaces: bool = False, **spec: Any) -> Children:
    found = app(**{"engine": "spark", "spark": SPARK, **spec})
    revision = revision_of(found, SETTINGS, found.spec.code.files)
    again = recorded_revision(revision.config_map(OWNER))
    assert (again.scheduled, again.template) == (revision.scheduled, revision.template)
    return render(
        OWNER, revision, SETTINGS, replicas=0, max_unavailable=1, token_lines=("t",), begins_runs=begins,
        replaces_run=replaces,
    )  # fmt: skip


def cron(found: Children) -> dict[str, Any]:
    (made,) = [each for each in found.objects if each["kind"] == "CronJob"]
    return dict(made)


def pod(found: Children) -> dict[str, Any]:
    template: dict[str, Any] = cron(found)["spec"]["jobTemplate"]["spec"]["template"]
    return template


def container(found: Children) -> dict[str, Any]:
    (only,) = pod(found)["spec"]["containers"]
    return dict(only)


def test_one_run_at_a_time_begins_when_the_line_says_and_not_while_pods_are_there() -> None:
    spec = cron(children())["spec"]
    assert (spec["schedule"], spec["timeZone"], spec["concurrencyPolicy"]) == ("0 * * * *", "Etc/UTC", "Forbid")
    assert spec["suspend"] is False
    assert cron(children(begins=False))["spec"]["suspend"] is True


def test_a_run_has_a_deadline_that_no_pod_reads() -> None:
    def deadline(found: Children) -> Any:
        return cron(found)["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]

    assert deadline(children()) == 21_600
    made = children(spark=SPARK | {"deadlineSeconds": 60})
    assert deadline(made) == 60
    (manifest,) = [each for each in made.objects if each["kind"] == "ConfigMap"]
    assert "deadlineSeconds" not in manifest["data"]["streamsapp.yaml"]


def test_the_next_run_takes_the_place_of_one_whose_pod_cannot_run() -> None:
    assert cron(children(replaces=True))["spec"]["concurrencyPolicy"] == "Replace"


def test_there_is_no_driver_beside_it_and_the_stateful_set_has_no_pods() -> None:
    sets = [each for each in children().objects if each["kind"] == "StatefulSet"]
    assert [(each["metadata"]["name"], each["spec"]["replicas"]) for each in sets] == [("wordcount", 0)]
    assert not [each for each in children(spark={}).objects if each["kind"] == "CronJob"]


def test_all_of_spark_is_in_the_one_container_which_reports_at_its_end() -> None:
    made = container(children(resources={"limits": {"cpu": 3, "memory": "4Gi"}}))
    arguments = made["args"]
    options = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert arguments[0] == "run"
    assert options["-f"] == "/etc/streamsapp/app/streamsapp.yaml"
    assert (options["--master"], options["--http-host"]) == ("local[3]", "127.0.0.1")
    assert options["--report"] == made["terminationMessagePath"]
    assert "spark.executor.memory=512m" in arguments
    assert not [each for each in arguments if each.startswith("spark.driver.memory=")], "the manifest has it"
    assert made["image"] == "spark:1"
    assert {"ports", "readinessProbe", "livenessProbe"}.isdisjoint(made)
    assert {"name": "SPARK_LOCAL_IP", "value": "127.0.0.1"} in made["env"]


def test_its_pod_is_restricted_and_no_service_or_budget_takes_it_for_one_of_the_application() -> None:
    made = children(podTemplate={"spec": {"containers": [{"name": "side"}]}})
    assert pod(made)["spec"]["automountServiceAccountToken"] is False
    assert pod(made)["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container(made)["securityContext"]["allowPrivilegeEscalation"] is False
    assert pod(made)["spec"]["restartPolicy"] == "Never"
    for labels in (pod(made)["metadata"]["labels"], cron(made)["metadata"]["labels"]):
        assert labels["streamsapp.dev/run"] == "wordcount"
        assert labels["streamsapp.dev/revision"] == made.revision
        assert "streamsapp.dev/name" not in labels


def test_another_line_is_another_revision() -> None:
    assert children().revision != children(spark=SPARK | {"schedule": "5 * * * *"}).revision
