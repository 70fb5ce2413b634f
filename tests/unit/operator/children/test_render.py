"""The objects that an application is made of."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from streamsapp.manifest import decode
from streamsapp.manifest.mounts import CODE_DIR, HTTP_TOKEN_FILE, SECRETS_DIR
from streamsapp_operator.children import Children, Owner, RenderSettings, recorded_revision, render, revision_of
from streamsapp_operator.children.names import (
    bootstrap_labels,
    check_labels,
    command_labels,
    own_labels,
    preview_labels,
    run_labels,
)
from streamsapp_operator.children.policies import network_policy

#: Labels of pods that belong to a revision, and are none of the StatefulSet's.
OF_REVISIONS = (check_labels, bootstrap_labels, preview_labels, run_labels)
SETTINGS = RenderSettings(runtime_image="streamsapp-runtime:1", operator_namespace="operators")
OWNER = Owner("wordcount", "prod", "u-1")


def children(*, replicas: int = 3, max_unavailable: int = 0, tokens: tuple[str, ...] = ("t",), **spec: Any) -> Children:
    app = decode(
        {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": "wordcount"},
            "spec": {"topology": {"entrypoint": "words:topology"}} | spec,
        }
    )
    revision = revision_of(app, SETTINGS, app.spec.code.files)
    return render(OWNER, revision, SETTINGS, replicas=replicas, max_unavailable=max_unavailable, token_lines=tokens)


def find(found: Children, kind: str, name: str = "wordcount") -> dict[str, Any]:
    (child,) = [each for each in found.objects if each["kind"] == kind and each["metadata"]["name"] == name]
    return child


def mounts(found: Children) -> dict[str, dict[str, Any]]:
    """Path → volume of the runtime's container."""
    spec = find(found, "StatefulSet")["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    return {mount["mountPath"]: volumes[mount["name"]] for mount in spec["containers"][0]["volumeMounts"]}


def test_images_are_pulled_with_the_operators_secrets_and_those_of_the_manifest() -> None:
    settings = replace(SETTINGS, image_pull_secrets=("ours",))
    app = decode(
        {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": "wordcount"},
            "spec": {
                "topology": {"entrypoint": "words:topology"},
                "podTemplate": {"spec": {"imagePullSecrets": [{"name": "theirs"}]}},
            },
        }
    )
    named = revision_of(app, settings, app.spec.code.files).template["spec"]["imagePullSecrets"]
    assert sorted(each["name"] for each in named) == ["ours", "theirs"]
    bare = find(children(), "StatefulSet")["spec"]["template"]["spec"]
    assert "imagePullSecrets" not in bare


def test_everything_is_there_before_the_stateful_set() -> None:
    made = children()

    assert [(child["kind"], child["metadata"]["name"]) for child in made.objects] == [
        ("ServiceAccount", "wordcount-runtime"),
        ("ConfigMap", f"wordcount-{made.revision}"),
        ("Secret", "wordcount-http"),
        ("Service", "wordcount"),
        ("Service", "wordcount-query"),
        ("PodDisruptionBudget", "wordcount"),
        ("NetworkPolicy", "wordcount"),
        ("StatefulSet", "wordcount"),
    ]


def test_every_child_is_labelled_and_goes_with_its_owner() -> None:
    for child in children().objects:
        metadata = child["metadata"]
        assert metadata["namespace"] == "prod"
        assert metadata["labels"]["streamsapp.dev/name"] == "wordcount"
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "streamsapp-operator"
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == ["u-1"]


def test_children_are_plain_json() -> None:
    made = children()

    assert json.loads(json.dumps(made.objects)) == list(made.objects)


def test_the_stateful_set_leaves_it_to_the_gate_which_pod_goes() -> None:
    spec = find(children(replicas=5), "StatefulSet")["spec"]

    assert (spec["replicas"], spec["updateStrategy"], spec["podManagementPolicy"]) == (
        5,
        {"type": "OnDelete"},
        "Parallel",
    )
    assert spec["serviceName"] == "wordcount"
    assert "volumeClaimTemplates" not in spec


def test_pods_carry_their_revision() -> None:
    made = children()
    labels = find(made, "StatefulSet")["spec"]["template"]["metadata"]["labels"]

    assert labels["streamsapp.dev/revision"] == made.revision
    assert labels["streamsapp.dev/name"] == "wordcount"


def test_the_pod_runs_the_manifest_of_its_revision() -> None:
    made = children()
    (container,) = find(made, "StatefulSet")["spec"]["template"]["spec"]["containers"]

    assert container["args"] == [
        "run", "-f", "/etc/streamsapp/app/streamsapp.yaml", "--state-dir", "/var/lib/streamsapp",
        "--shutdown-timeout", "55", "--application-server", "$(POD_IP):8080",
    ]  # fmt: skip
    assert mounts(made)["/etc/streamsapp/app"]["configMap"] == {
        "name": f"wordcount-{made.revision}",
        "items": [{"key": "streamsapp.yaml", "path": "streamsapp.yaml"}],
    }


def test_the_pod_learns_its_zone_from_its_label_and_is_spread_over_zones_and_nodes() -> None:
    spec = find(children(), "StatefulSet")["spec"]["template"]["spec"]
    environment = {each["name"]: each for each in spec["containers"][0]["env"]}

    field = environment["NODE_ZONE"]["valueFrom"]["fieldRef"]["fieldPath"]
    assert field == "metadata.labels['topology.kubernetes.io/zone']"
    spread = {each["topologyKey"]: each["whenUnsatisfiable"] for each in spec["topologySpreadConstraints"]}
    assert spread == dict.fromkeys(("kubernetes.io/hostname", "topology.kubernetes.io/zone"), "ScheduleAnyway")


def test_code_is_mounted_under_its_own_paths() -> None:
    files = {"words.py": "x = 1", "package/part.py": "y = 2"}
    made = children(code={"files": files})
    data = find(made, "ConfigMap", f"wordcount-{made.revision}")["data"]

    items = mounts(made)[str(CODE_DIR)]["configMap"]["items"]
    assert {item["path"]: data[item["key"]] for item in items} == files


def test_without_code_nothing_is_mounted_for_it() -> None:
    assert str(CODE_DIR) not in mounts(children())


def test_secrets_are_files_where_the_runtime_looks_for_them() -> None:
    made = mounts(
        children(
            kafka={"secretRef": {"name": "kafka-credentials"}},
            remoteState={"url": "s3://bucket/prefix", "secretRef": {"name": "s3-credentials"}},
        )
    )

    assert made[f"{SECRETS_DIR}/kafka"]["secret"]["secretName"] == "kafka-credentials"
    assert made[f"{SECRETS_DIR}/remote-state"]["secret"]["secretName"] == "s3-credentials"
    assert made[str(HTTP_TOKEN_FILE.parent)]["secret"]["secretName"] == "wordcount-http"


def test_only_state_and_temporary_files_are_writable() -> None:
    spec = find(children(), "StatefulSet")["spec"]["template"]["spec"]
    (container,) = spec["containers"]

    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/var/lib/streamsapp", "/tmp"]  # noqa: S108
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_state_may_fill_what_the_limit_leaves_to_a_pod() -> None:
    made = mounts(children(resources={"limits": {"ephemeral-storage": "20Gi", "cpu": 2}}))

    assert made["/var/lib/streamsapp"] == {"name": "state", "emptyDir": {"sizeLimit": "20Gi"}}


def test_resources_are_passed_on_as_text() -> None:
    resources = {"requests": {"cpu": 0.5}, "limits": {"memory": "2Gi", "cpu": 2}}
    (container,) = find(children(resources=resources), "StatefulSet")["spec"]["template"]["spec"]["containers"]

    assert container["resources"] == {"requests": {"cpu": "0.5"}, "limits": {"memory": "2Gi", "cpu": "2"}}


def test_pods_have_no_token_of_the_api_server() -> None:
    made = children()

    assert find(made, "ServiceAccount", "wordcount-runtime")["automountServiceAccountToken"] is False
    assert find(made, "StatefulSet")["spec"]["template"]["spec"]["automountServiceAccountToken"] is False


def test_no_account_is_made_beside_the_users() -> None:
    made = children(podTemplate={"spec": {"serviceAccountName": "knows-the-cloud"}})

    assert "ServiceAccount" not in {child["kind"] for child in (*made.objects, *made.check)}


def test_tokens_are_lines_of_a_secret_and_no_part_of_the_revision() -> None:
    one, two = children(tokens=("new",)), children(tokens=("new", "old"))

    assert one.revision == two.revision
    assert base64.b64decode(find(two, "Secret", "wordcount-http")["data"]["token"]) == b"new\nold\n"


def test_the_budget_is_what_the_gate_says() -> None:
    spec = find(children(max_unavailable=0), "PodDisruptionBudget")["spec"]

    assert spec["maxUnavailable"] == 0
    assert spec["selector"] == {"matchLabels": {"streamsapp.dev/name": "wordcount"}}


def test_services_reach_all_pods_or_those_that_are_ready() -> None:
    made = children()
    headless, query = (find(made, "Service", name)["spec"] for name in ("wordcount", "wordcount-query"))

    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    assert "publishNotReadyAddresses" not in query
    assert headless["selector"] == query["selector"] == {"streamsapp.dev/name": "wordcount"}


def test_the_port_is_open_to_the_application_the_operator_and_clients_only() -> None:
    (rule,) = find(children(), "NetworkPolicy")["spec"]["ingress"]

    assert [port["port"] for port in rule["ports"]] == [8080]
    assert [peer["podSelector"]["matchLabels"] for peer in rule["from"]] == [
        {"streamsapp.dev/name": "wordcount"},
        {"app.kubernetes.io/name": "streamsapp-operator"},
        {"streamsapp.dev/client": "true"},
    ]
    assert rule["from"][1]["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "operators"}}


def test_what_pods_reach_is_narrowed_only_where_the_operator_has_rules_for_it() -> None:
    policy = find(children(), "NetworkPolicy")["spec"]
    assert (policy["policyTypes"], "egress" in policy) == (["Ingress"], False)

    rule = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "ports": [{"port": 9092}]}
    policy = network_policy(OWNER, replace(SETTINGS, egress=(rule,)), among_pods=False)["spec"]
    dns, own, given = policy["egress"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert {(port["port"], port["protocol"]) for port in dns["ports"]} == {(53, "UDP"), (53, "TCP")}
    assert own["to"] == [{"podSelector": {"matchLabels": {"streamsapp.dev/name": "wordcount"}}}]
    assert given == rule


def test_the_network_policy_is_about_every_pod_that_the_operator_makes_for_an_application() -> None:
    chosen = find(children(), "NetworkPolicy")["spec"]["podSelector"]["matchLabels"]
    made = (own_labels, command_labels)
    labels = [*(each("wordcount") for each in made), *(each("wordcount", "r") for each in OF_REVISIONS)]
    assert all(chosen.items() <= each.items() for each in labels)


def test_an_earlier_revision_is_rendered_from_its_config_map() -> None:
    before = children(image="streamsapp-runtime:0", code={"files": {"a.py": "1"}})
    config_map = find(before, "ConfigMap", f"wordcount-{before.revision}")

    again = render(OWNER, recorded_revision(config_map), SETTINGS, replicas=3, max_unavailable=0, token_lines=("t",))

    assert again == before


# ---- the check -------------------------------------------------------------------------------------------------------


def check_pod(**spec: Any) -> dict[str, Any]:
    return children(**spec).check[-1]


def test_the_check_needs_nothing_that_pods_run_by() -> None:
    made = children()

    assert [child["kind"] for child in made.check] == ["ServiceAccount", "ConfigMap", "Secret", "Pod"]
    assert made.check[-1]["metadata"]["name"] == f"wordcount-check-{made.revision}"


def test_a_check_pod_is_nobodys_but_the_checks() -> None:
    labels = check_pod(podTemplate={"metadata": {"labels": {"team": "a"}}})["metadata"]["labels"]

    assert "streamsapp.dev/name" not in labels
    assert labels["streamsapp.dev/check"] == "wordcount"
    assert labels["app.kubernetes.io/component"] == "check"
    assert labels["team"] == "a"


def test_the_check_runs_as_the_pod_would() -> None:
    made = children(code={"files": {"a.py": ""}}, kafka={"secretRef": {"name": "k"}})
    pod, template = made.check[-1]["spec"], find(made, "StatefulSet")["spec"]["template"]["spec"]
    (container,), (runtime,) = pod["containers"], template["containers"]

    assert pod["volumes"] == template["volumes"]
    assert pod["securityContext"] == template["securityContext"]
    for field in ("image", "env", "securityContext", "volumeMounts"):
        assert container[field] == runtime[field]
    assert container["args"] == [
        "check", "-f", "/etc/streamsapp/app/streamsapp.yaml", "--report", "/dev/termination-log"
    ]  # fmt: skip
    assert container["terminationMessagePath"] == "/dev/termination-log"


def test_the_check_ends() -> None:
    pod = check_pod(podTemplate={"spec": {"containers": [{"name": "side", "image": "s"}]}})["spec"]

    assert pod["restartPolicy"] == "Never"
    assert pod["activeDeadlineSeconds"] == 600
    (container,) = pod["containers"]
    assert not container.keys() & {"startupProbe", "livenessProbe", "readinessProbe", "ports"}


@pytest.mark.parametrize(
    ("limits", "requests"),
    [
        ({}, {"cpu": "50m", "memory": "128Mi"}),
        ({"cpu": "10m", "memory": "64Mi"}, {"cpu": "10m", "memory": "64Mi"}),
        ({"cpu": 4, "memory": "8Gi"}, {"cpu": "50m", "memory": "128Mi"}),
    ],
)
def test_the_check_asks_for_little(limits: dict[str, Any], requests: dict[str, str]) -> None:
    (container,) = check_pod(resources={"requests": {"cpu": 4}, "limits": limits})["spec"]["containers"]

    assert container["resources"]["requests"] == requests


def test_the_check_takes_no_device() -> None:
    pod = check_pod(
        resources={"limits": {"example.com/gpu": 1, "memory": "1Gi"}, "claims": [{"name": "c"}]},
        podTemplate={"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "d"}]}},
    )["spec"]
    (container,) = pod["containers"]

    assert container["resources"] == {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"memory": "1Gi"}}
    assert "resourceClaims" not in pod


def test_the_check_runs_beside_pods_that_are_kept_apart() -> None:
    near: dict[str, Any] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}
    apart: dict[str, Any] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}

    assert check_pod(podTemplate={"spec": {"affinity": near | apart}})["spec"]["affinity"] == near
