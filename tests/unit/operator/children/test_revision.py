"""The contents of a revision, and what a pod reads of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp, decode
from streamsapp_operator.children import (
    Owner,
    RenderSettings,
    Revision,
    code_files,
    recorded_revision,
    revision_of,
)
from streamsapp_operator.children.user_code import key_of

SETTINGS = RenderSettings(runtime_image="streamsapp-runtime:1", operator_namespace="operators")
OWNER = Owner("wordcount", "prod", "u-1")


def app(name: str = "wordcount", annotations: dict[str, str] | None = None, **spec: Any) -> StreamsApp:
    return decode(
        {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": name, "namespace": "prod", "annotations": annotations or {}},
            "spec": {"topology": {"entrypoint": "words:topology"}, "kafka": {"bootstrapServers": "kafka:9092"}} | spec,
        }
    )


def revision(given: StreamsApp, settings: RenderSettings = SETTINGS, config_map: Any = None) -> Revision:
    return revision_of(given, settings, code_files(given, config_map))


def faults(act: Callable[[], object]) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        act()
    return raised.value.faults


@pytest.mark.parametrize(
    "spec",
    [
        {"replicas": 7},
        {"autoscaling": {"maxReplicas": 9}},
        {"rollout": {"maxStandbyLag": 5, "topologyChange": "Recreate"}},
        {"image": "streamsapp-runtime:1"},
        {"processing": {"standbyReplicas": 1, "acceptableRecoveryLag": 10000}},
    ],
)
def test_what_no_pod_reads_is_no_new_revision(spec: dict[str, Any]) -> None:
    assert revision(app(**spec)) == revision(app())


@pytest.mark.parametrize(
    "spec",
    [
        {"image": "streamsapp-runtime:2"},
        {"processing": {"threads": 2}},
        {"kafka": {"bootstrapServers": "kafka:9093"}},
        {"resources": {"limits": {"memory": "1Gi"}}},
        {"code": {"files": {"words.py": "x = 1"}}},
        {"podTemplate": {"spec": {"nodeSelector": {"disk": "fast"}}}},
    ],
)
def test_what_a_pod_is_made_of_is_a_new_revision(spec: dict[str, Any]) -> None:
    assert revision(app(**spec)).id != revision(app()).id


def test_the_annotation_asks_for_a_restart() -> None:
    restarted = revision(app(annotations={"streamsapp.dev/restartedAt": "2026-01-01T00:00:00Z", "other": "x"}))

    assert restarted.id != revision(app()).id
    assert restarted.template["metadata"]["annotations"] == {"streamsapp.dev/restartedAt": "2026-01-01T00:00:00Z"}


def test_another_annotation_does_not() -> None:
    assert revision(app(annotations={"other": "x"})).id == revision(app()).id


def test_code_of_a_config_map_that_changed_is_a_new_revision() -> None:
    given = app(code={"configMapRef": {"name": "code"}})

    assert (
        revision(given, config_map={"data": {"a.py": "1"}}).id != revision(given, config_map={"data": {"a.py": "2"}}).id
    )


def test_a_revision_is_whole_in_its_config_map() -> None:
    made = revision(
        app(code={"files": {"words.py": "x = 1"}, "configMapRef": {"name": "c"}}),
        config_map={"binaryData": {"m.bin": "/w=="}},
    )

    document = made.config_map(OWNER)

    assert document["metadata"]["name"] == f"wordcount-{made.id}"
    assert document["immutable"] is True
    assert document["binaryData"] == {"code.m.bin": "/w=="}
    assert recorded_revision(document) == made


def test_a_pod_reads_the_manifest_without_what_is_the_operators() -> None:
    given = app(
        applicationId="words", replicas=3, autoscaling={"maxReplicas": 4}, image="i", rollout={"timeoutSeconds": 1},
        code={"files": {"a.py": ""}}, podTemplate={"metadata": {"labels": {"a": "b"}}},
        resources={"limits": {"cpu": 2}},
    )  # fmt: skip

    manifest = yaml.safe_load(revision(given).data["streamsapp.yaml"])

    assert manifest == {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "wordcount"},
        "spec": {
            "applicationId": "words",
            "topology": {"entrypoint": "words:topology"},
            "kafka": {"bootstrapServers": "kafka:9092"},
            "resources": {"limits": {"cpu": 2}},
        },
    }
    assert decode(manifest).application_id == "words"


def test_files_of_the_manifest_win_over_those_of_the_config_map() -> None:
    given = app(code={"files": {"a.py": "mine"}, "configMapRef": {"name": "code"}})

    assert code_files(given, {"data": {"a.py": "theirs", "b.py": "b"}}) == {"a.py": "mine", "b.py": "b"}


def test_a_config_map_that_is_not_there_is_a_fault() -> None:
    given = app(code={"configMapRef": {"name": "code"}})

    (told,) = faults(lambda: code_files(given, None))
    assert told.startswith("spec.code.configMapRef.name: there is no ConfigMap 'code' in this namespace; create it")


def test_different_paths_have_different_keys_that_a_config_map_takes() -> None:
    paths = ["a/b.py", "a-2fb.py", "a-b.py", "a_b.py", "ä/b c.py", "a.b.py"]

    keys = [key_of(path) for path in paths]

    assert len(set(keys)) == len(paths)
    assert all(key.replace("-", "").replace("_", "").replace(".", "").isalnum() and key.isascii() for key in keys)
    assert keys[0] == "code.a-2fb.py"


@pytest.mark.parametrize("name", ["a" * 53, "9lives", "with.dot", "Upper", "ends-"])
def test_a_name_that_pods_and_services_cannot_have_is_a_fault(name: str) -> None:
    assert faults(lambda: revision(app(name)))[0].startswith(f"metadata.name: '{name}' becomes part of the names")


def test_a_driver_leaves_less_room_for_the_name() -> None:
    settings = RenderSettings(runtime_image="r:1", operator_namespace="operators", spark_image="s:1")
    revision_of(app("a" * 45, engine="spark"), settings, {})
    (fault,) = faults(lambda: revision_of(app("a" * 46, engine="spark"), settings, {}))
    assert "expected at most 45" in fault, "its pod has a label of the driver's name, a dash and ten characters"


def test_code_that_no_config_map_takes_is_a_fault() -> None:
    told = faults(lambda: revision(app(code={"files": {"big.py": "x" * (1 << 20), "p" * 250: ""}})))

    assert [line.partition(":")[0] for line in told] == ["spec.code", "spec.code"]
    assert told[1].endswith("put the code into the image")


def test_an_image_must_come_from_somewhere() -> None:
    settings = RenderSettings(runtime_image=None, operator_namespace="operators")

    assert faults(lambda: revision(app(), settings))[0].startswith("spec.image: is required")
    assert revision(app(image="mine"), settings).template["spec"]["containers"][0]["image"] == "mine"


def test_every_fault_is_told_at_once() -> None:
    settings = RenderSettings(runtime_image="r:1", operator_namespace="operators", spark_image="s:1")
    given = app("a" * 46, engine="spark", podTemplate={"spec": {"hostname": "h", "subdomain": "s"}})

    told = faults(lambda: revision(given, settings))

    assert [line.partition(":")[0] for line in told] == [
        "metadata.name",
        "spec.podTemplate.spec.hostname",
        "spec.podTemplate.spec.subdomain",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "sasl.password",
        "producer.ssl.key.password",
        "sasl.oauthbearer.client.secret",
        "ssl.keystore.key",
        "admin.ssl.key.pem",
        "SASL.Password",
        "Ssl.Keystore.Key",
        "sasl.oauthbearer.assertion.private.key.pem",
    ],
)
def test_a_secret_in_the_resource_is_refused_with_where_to_put_it(key: str) -> None:
    given = app(kafka={"bootstrapServers": "kafka:9092", "properties": {key: "hush", "sasl.username": "anna"}})

    (fault,) = faults(lambda: revision(given))

    assert fault.startswith(f"spec.kafka.properties.{key}: ")
    assert fault.endswith(f"put it into the Secret of spec.kafka.secretRef, as a file named {key}")
    assert "hush" not in fault


def test_who_says_it_and_where_its_keys_are_is_no_secret() -> None:
    properties = {
        "sasl.username": "anna",
        "sasl.mechanism": "PLAIN",
        "ssl.ca.location": "/ca.crt",
        "ssl.key.location": "/tls.key",
        "sasl.oauthbearer.token.endpoint.url": "https://sso/token",
    }

    assert revision(app(kafka={"bootstrapServers": "kafka:9092", "properties": properties})).id
