"""The Job that runs two revisions: their files do not mix, and its pod is one of the application's."""

from __future__ import annotations

from typing import Any

from manifests import app
from streamsapp.manifest.model import PreviewSpec, Quantities
from streamsapp_operator.children import Owner, RenderSettings, Revision, revision_of
from streamsapp_operator.children.preview_job import preview_hash, preview_job

SETTINGS = RenderSettings("runtime:1", "operators", spark_image="spark:1")
OWNER = Owner("wordcount", "prod", "u-1")
REMOTE = {"url": "s3://bucket/prefix", "secretRef": {"name": "s3"}}
KAFKA = {"bootstrapServers": "kafka:9092", "secretRef": {"name": "kafka-credentials"}}


def revision(**files: str) -> Revision:
    code = {name.replace("__", "/") + ".py": text for name, text in files.items()}
    found = app(remoteState=REMOTE, kafka=KAFKA, code={"files": code})
    return revision_of(found, SETTINGS, found.spec.code.files)


TODAY, TOMORROW = revision(wordcount="a = 1"), revision(wordcount="a = 2", package__words="b = 3")


def job(**asked: Any) -> dict[str, Any]:
    return preview_job(OWNER, PreviewSpec(**asked), TODAY, TOMORROW, "spark:2", "one-two-5")


def pod(found: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = found["spec"]["template"]["spec"]
    return spec


def container(found: dict[str, Any]) -> dict[str, Any]:
    (only,) = pod(found)["containers"]
    return dict(only)


def test_a_preview_has_a_deadline_and_another_one_makes_it_another_preview() -> None:
    assert job()["spec"]["activeDeadlineSeconds"] == 3600
    assert job(deadline_seconds=60)["spec"]["activeDeadlineSeconds"] == 60
    asked = [PreviewSpec(deadline_seconds=seconds) for seconds in (60, 61)]
    assert preview_hash(asked[0], "spark:1") != preview_hash(asked[1], "spark:1")


def test_each_revision_has_its_manifest_and_its_code_in_a_folder_of_its_own() -> None:
    made = job(records=7)
    arguments = container(made)["args"]
    options = dict(zip(arguments[1::2], arguments[2::2], strict=True))
    assert arguments[0] == "preview"
    assert (options["-f"], options["--against"]) == (
        "/etc/streamsapp/tomorrow/streamsapp.yaml",
        "/etc/streamsapp/today/streamsapp.yaml",
    )
    assert (options["--records"], options["--report"]) == ("7", container(made)["terminationMessagePath"])
    volumes = {each["name"]: each.get("configMap") for each in pod(made)["volumes"]}
    assert {"manifest", "code"}.isdisjoint(volumes)
    assert volumes["today"]["name"] == f"wordcount-{TODAY.id}"
    assert volumes["tomorrow"]["name"] == f"wordcount-{TOMORROW.id}"
    items = {name: {each["path"] for each in volumes[name]["items"]} for name in ("today", "tomorrow")}
    assert items == {
        "today": {"streamsapp.yaml", "wordcount.py"},
        "tomorrow": {"streamsapp.yaml", "wordcount.py", "package/words.py"},
    }
    for name, of in (("today", TODAY), ("tomorrow", TOMORROW)):
        assert {each["key"] for each in volumes[name]["items"]} <= of.data.keys()
    mounts = {each["name"]: each["mountPath"] for each in container(made)["volumeMounts"]}
    assert set(mounts) == set(volumes)
    assert (mounts["today"], mounts["tomorrow"]) == ("/etc/streamsapp/today", "/etc/streamsapp/tomorrow")


def test_it_has_the_secrets_and_the_restrictions_of_the_applications_pods_and_no_token() -> None:
    made, template = job(), TOMORROW.template
    runtime = next(each for each in template["spec"]["containers"] if each["name"] == "runtime")
    same = ("serviceAccountName", "automountServiceAccountToken", "securityContext")
    assert {name: pod(made)[name] for name in same} == {name: template["spec"][name] for name in same}
    assert pod(made)["automountServiceAccountToken"] is False
    secrets = {each["secret"]["secretName"] for each in pod(made)["volumes"] if "secret" in each}
    assert {"s3", "kafka-credentials"} <= secrets
    assert container(made)["securityContext"] == runtime["securityContext"]
    assert container(made)["image"] == "spark:2"


def test_it_goes_with_the_application_and_no_service_or_budget_takes_its_pod_for_one() -> None:
    made = job(resources=Quantities(limits={"cpu": 2, "memory": "3Gi"}))
    assert made["metadata"]["name"] == "wordcount-preview"
    assert [owner["uid"] for owner in made["metadata"]["ownerReferences"]] == ["u-1"]
    assert made["metadata"]["annotations"] == {"streamsapp.dev/attempt": "one-two-5"}
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert (labels["streamsapp.dev/preview"], labels["streamsapp.dev/revision"]) == ("wordcount", TOMORROW.id)
    assert "streamsapp.dev/name" not in labels | made["metadata"]["labels"]
    assert container(made)["resources"]["limits"] == {"cpu": "2", "memory": "3Gi"}
    assert "local[2]" in container(made)["args"]
