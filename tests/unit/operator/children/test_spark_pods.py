"""The pods of ``engine: spark``."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from manifests import app
from streamsapp.manifest.mounts import SECRETS_DIR
from streamsapp_operator.children import Children, Owner, RenderSettings, recorded_revision, render, revision_of
from streamsapp_operator.children.spark_pods import cores_of

SETTINGS = RenderSettings("runtime:1", "operators", spark_image="spark:1")
OWNER = Owner("wordcount", "prod", "u-1")


def children(*, replicas: int = 2, runs_driver: bool = True, **spec: Any) -> Children:
    found = app(**{"engine": "spark", **spec})
    revision = revision_of(found, SETTINGS, found.spec.code.files)
    return render(
        OWNER, revision, SETTINGS, replicas=replicas, max_unavailable=1, token_lines=("t",), spark_word="word",
        runs_driver=runs_driver,
    )  # fmt: skip


def find(found: Children, kind: str, name: str) -> dict[str, Any]:
    (child,) = [each for each in found.objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return child


def pod(found: Children, name: str) -> dict[str, Any]:
    template: dict[str, Any] = find(found, "StatefulSet", name)["spec"]["template"]
    return template


def container(template: dict[str, Any], kind: str = "containers") -> dict[str, Any]:
    (only,) = template["spec"][kind]
    return dict(only)


def settings_of(driver: dict[str, Any]) -> dict[str, str]:
    arguments = container(driver)["args"]
    pairs = [arguments[at + 1] for at, each in enumerate(arguments) if each == "--conf"]
    return dict(pair.split("=", 1) for pair in pairs)


def variables(of: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in of["env"] if "value" in each}


def test_the_login_of_a_sink_is_files_where_the_driver_looks_for_them() -> None:
    options, login = {"url": "jdbc:postgresql://db/lake"}, {"secretRef": {"name": "lake-login"}}
    table = {"topic": "counts", "format": "jdbc", "table": "counts", "options": options, **login}
    folder = {"name": "folder", "topic": "counts", "format": "parquet", "path": "/lake/files"}
    found = children(spark={"sinks": [folder, {"name": "table", "path": "/lake/table", **table}]})

    template = pod(found, "wordcount-driver")
    (mount,) = [each for each in container(template)["volumeMounts"] if "/sinks/" in each["mountPath"]]
    assert mount == {"name": "sink-1", "mountPath": f"{SECRETS_DIR}/sinks/table", "readOnly": True}
    (volume,) = [each for each in template["spec"]["volumes"] if each["name"] == "sink-1"]
    assert volume["secret"]["secretName"] == "lake-login"


def program(annotations: dict[str, str] | None = None, **spec: Any) -> str | None:
    found = app(**{"engine": "spark", "code": {"files": {"words.py": "topology = 1"}}, **spec})
    found = replace(found, metadata=replace(found.metadata, annotations=annotations or {}))
    return revision_of(found, SETTINGS, found.spec.code.files).program


def beside(kind: str, **changes: Any) -> dict[str, Any]:
    """A part of the pod beside what runs the application, by which code may come."""
    return {"podTemplate": {"spec": {kind: [{"name": "fetch", **changes}]}}}


@pytest.mark.parametrize(
    "change",
    [
        {"annotations": {"streamsapp.dev/restartedAt": "2026-11-22T12:00:00Z"}},
        {"resources": {"limits": {"memory": "4Gi", "ephemeral-storage": "9Gi"}}},
        {"podTemplate": {"spec": {"nodeSelector": {"disk": "fast"}}}},
    ],
)
def test_where_and_how_large_pods_are_is_no_other_program(change: dict[str, Any]) -> None:
    assert program(**change) == program()


@pytest.mark.parametrize(
    "change",
    [
        {"code": {"files": {"words.py": "topology = 2"}}},
        {"spark": {"image": "spark:2"}},
        {"spark": {"trigger": "5s"}},
        {"resources": {"limits": {"cpu": "3"}}},
        {"topology": {"entrypoint": "words:other"}},
    ],
)
def test_what_the_driver_and_its_executors_run_is_another_program(change: dict[str, Any]) -> None:
    assert program(**change) != program()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (beside("initContainers", image="code:1"), beside("initContainers", image="code:2")),
        (beside("containers", image="code:1"), beside("containers", image="code:2")),
        (beside("volumes", configMap={"name": "code-1"}), beside("volumes", configMap={"name": "code-2"})),
    ],
)
def test_a_container_or_a_volume_that_may_bring_other_code_is_another_program(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert program(**before) != program(**after)


@pytest.mark.parametrize("kind", ["initContainers", "containers"])
def test_how_large_a_container_beside_is_makes_no_other_program(kind: str) -> None:
    small, large = ({"requests": {"memory": memory}} for memory in ("64Mi", "128Mi"))
    one, other = (program(**beside(kind, image="code:1", resources=each)) for each in (small, large))
    assert one == other


def test_both_parts_of_a_query_are_labelled_with_their_program() -> None:
    made = children()
    labels = [pod(made, name)["metadata"]["labels"] for name in ("wordcount", "wordcount-driver")]
    assert labels[0]["streamsapp.dev/program"] == labels[1]["streamsapp.dev/program"] != ""


def test_executors_are_the_pods_of_the_application_and_the_driver_is_one_beside_them() -> None:
    made = children(replicas=3)

    executors, driver = (find(made, "StatefulSet", name)["spec"] for name in ("wordcount", "wordcount-driver"))
    assert (executors["replicas"], driver["replicas"]) == (3, 1)
    labels = driver["template"]["metadata"]["labels"]
    assert driver["selector"]["matchLabels"].items() <= labels.items()
    assert labels["streamsapp.dev/revision"] == made.revision
    assert driver["serviceName"] == "wordcount", "which gives it the name that executors look for"
    address = container(executors["template"])["args"][-1]
    assert address == "spark://wordcount-driver-0.wordcount:7077"


def test_no_pod_has_a_token_of_the_api_server_and_all_keep_to_the_restricted_standard() -> None:
    made = children()

    for name in ("wordcount", "wordcount-driver"):
        spec = pod(made, name)["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        for each in (*spec["containers"], *spec.get("initContainers", ())):
            security = each["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert (security["allowPrivilegeEscalation"], security["capabilities"]) == (False, {"drop": ["ALL"]})


def test_the_driver_runs_the_manifest_against_its_own_master_which_is_there_before_it_and_after_it() -> None:
    driver = pod(children(), "wordcount-driver")

    arguments = container(driver)["args"]
    assert arguments[:3] == ["run", "-f", "/etc/streamsapp/app/streamsapp.yaml"]
    assert arguments[arguments.index("--master") + 1] == "spark://$(POD_IP):7077"
    master = container(driver, "initContainers")
    assert (master["restartPolicy"], master["command"][-1]) == ("Always", "spark-class")
    assert master["startupProbe"]["tcpSocket"] == {"port": 7077}


@pytest.mark.parametrize(
    ("address", "host", "option"),
    [("10.0.0.7", "10.0.0.7", ""), ("fd00::7", "[fd00::7]", "-Djava.net.preferIPv6Addresses=true")],
)
def test_programs_of_spark_listen_at_the_address_of_the_pod_which_has_brackets_if_it_is_one_of_ipv6(
    tmp_path: Path, address: str, host: str, option: str
) -> None:
    shown = tmp_path / "spark-class"
    shown.write_text('#!/bin/sh\nprintf \'%s\\n\' "${SPARK_DAEMON_JAVA_OPTS-}" "$@"\n')
    shown.chmod(0o755)
    made = children()
    for each in (container(pod(made, "wordcount")), container(pod(made, "wordcount-driver"), "initContainers")):
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "POD_IP": address}
        run = subprocess.run(
            [*each["command"], *each["args"]], env=environment, capture_output=True, text=True, check=True
        )
        options, *arguments = run.stdout.splitlines()
        assert options.strip() == option
        assert arguments == [*each["args"], "--host", host]


def test_services_have_addresses_of_both_families_where_the_cluster_has_both() -> None:
    made = children()
    for name in ("wordcount", "wordcount-query"):
        assert find(made, "Service", name)["spec"]["ipFamilyPolicy"] == "PreferDualStack"


def test_a_query_has_as_many_lanes_as_its_executors_have_cores_so_another_number_of_them_is_another_driver() -> None:
    limits: dict[str, Any] = {"resources": {"limits": {"cpu": "2500m"}}}
    driver = pod(children(replicas=3, **limits), "wordcount-driver")

    assert variables(container(driver))["SPARK_TOTAL_CORES"] == "6"
    assert settings_of(driver)["spark.default.parallelism"] == "$(SPARK_TOTAL_CORES)"
    assert settings_of(driver)["spark.executor.cores"] == "2", "by which its Python workers divide the memory"
    executor = container(pod(children(**limits), "wordcount"))["args"]
    assert executor[executor.index("--cores") + 1] == "2"
    assert children(replicas=3, **limits).revision == children(replicas=2, **limits).revision


@pytest.mark.parametrize(("cpu", "cores"), [(None, 1), ("300m", 1), (2, 2), ("3", 3)])
def test_an_executor_has_its_whole_cores(cpu: object, cores: int) -> None:
    assert cores_of(app(resources={"requests": {"cpu": cpu}} if cpu else {})) == cores


def test_who_does_not_know_the_word_of_the_application_is_not_heard() -> None:
    made = children()

    secret = find(made, "Secret", "wordcount-http")["data"]
    assert base64.b64decode(secret["spark"]) == b"word"
    driver = pod(made, "wordcount-driver")
    reference = {"secretKeyRef": {"name": "wordcount-http", "key": "spark"}}
    for each in (container(driver), container(driver, "initContainers"), container(pod(made, "wordcount"))):
        assert {"name": "_SPARK_AUTH_SECRET", "valueFrom": reference} in each["env"]
    assert settings_of(driver)["spark.authenticate"] == "true"
    assert "-Dspark.authenticate=true" in variables(container(driver, "initContainers"))["SPARK_MASTER_OPTS"]
    assert "-Dspark.authenticate=true" in variables(container(pod(made, "wordcount")))["SPARK_WORKER_OPTS"]


def test_the_ports_of_spark_are_open_to_the_pods_of_the_application_only() -> None:
    own = {"from": [{"podSelector": {"matchLabels": {"streamsapp.dev/name": "wordcount"}}}]}

    assert find(children(), "NetworkPolicy", "wordcount")["spec"]["ingress"][1:] == [own]
    assert len(find(children(engine="threads"), "NetworkPolicy", "wordcount")["spec"]["ingress"]) == 1


def test_the_driver_ends_before_the_executors_and_with_the_last_of_them() -> None:
    assert find(children(runs_driver=False), "StatefulSet", "wordcount-driver")["spec"]["replicas"] == 0
    assert find(children(replicas=0), "StatefulSet", "wordcount-driver")["spec"]["replicas"] == 0


def test_settings_of_the_manifest_win_over_ours_but_for_those_the_pods_rely_on() -> None:
    given = {"spark.executor.memory": "3g", "spark.driver.host": "elsewhere"}
    made = settings_of(pod(children(spark={"conf": given}), "wordcount-driver"))

    assert "spark.executor.memory" not in made, "the manifest's own is taken"
    assert (made["spark.driver.memory"], made["spark.driver.host"]) == ("512m", "$(POD_IP)")


def test_an_image_of_its_own_is_another_revision_and_no_part_of_the_manifest_of_the_pods() -> None:
    made, other = children(), children(spark={"image": "mine:2"})

    assert container(pod(made, "wordcount"))["image"] == "spark:1"
    assert container(pod(other, "wordcount-driver"), "initContainers")["image"] == "mine:2"
    assert other.revision != made.revision
    texts = [find(it, "ConfigMap", f"wordcount-{it.revision}")["data"]["streamsapp.yaml"] for it in (made, other)]
    assert texts[0] == texts[1]


def test_a_revision_is_whole_in_its_config_map() -> None:
    found = app(engine="spark")
    revision = revision_of(found, SETTINGS, {})

    again = recorded_revision(revision.config_map(OWNER))
    assert (again.driver, again.template) == (revision.driver, revision.template)
    assert again.driver is not None


def test_its_check_loads_the_topology_as_any_other() -> None:
    check = children().check[-1]

    assert "command" not in check["spec"]["containers"][0]
    assert check["spec"]["containers"][0]["args"][0] == "check"


def test_its_check_needs_no_word_which_the_secret_has_from_when_the_other_engine_has_ended() -> None:
    check = children().check[-1]

    assert "_SPARK_AUTH_SECRET" not in {each["name"] for each in check["spec"]["containers"][0]["env"]}
