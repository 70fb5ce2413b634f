"""The changes that ``spec.podTemplate`` may make, and the refusals of other changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp.errors import ManifestError
from streamsapp.manifest import decode
from streamsapp_operator.children import RenderSettings, revision_of
from streamsapp_operator.children.run_to_completion import run_to_completion

TOKEN = {"serviceAccountToken": {"path": "token"}}
SETTINGS = RenderSettings(runtime_image="streamsapp-runtime:1", operator_namespace="operators")


def template(pod_template: dict[str, Any]) -> dict[str, Any]:
    app = decode(
        {
            "apiVersion": "streamsapp.dev/v1alpha1",
            "kind": "StreamsApp",
            "metadata": {"name": "wordcount"},
            "spec": {"topology": {"entrypoint": "words:topology"}, "podTemplate": pod_template},
        }
    )
    return revision_of(app, SETTINGS, {}).template


def pod(**spec: Any) -> dict[str, Any]:
    made: dict[str, Any] = template({"spec": spec})["spec"]
    return made


def runtime(**container: Any) -> dict[str, Any]:
    made: dict[str, Any] = pod(containers=[{"name": "runtime"} | container])["containers"][0]
    return made


def faults(pod_template: dict[str, Any]) -> list[str]:
    with pytest.raises(ManifestError) as raised:
        template(pod_template)
    return raised.value.faults


def of_runtime(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "runtime"} | container]}}


def test_labels_and_annotations_are_added() -> None:
    made = template({"metadata": {"labels": {"team": "a"}, "annotations": {"b": "c"}}})["metadata"]

    assert made["labels"]["team"] == "a"
    assert made["labels"]["streamsapp.dev/name"] == "wordcount"
    assert made["annotations"] == {"b": "c"}


def test_environment_and_mounts_are_added_to_the_runtimes_own() -> None:
    made = runtime(env=[{"name": "A", "value": "1"}], volumeMounts=[{"name": "m", "mountPath": "/models"}])

    assert [variable["name"] for variable in made["env"]] == ["POD_IP", "NODE_ZONE", "A"]
    assert made["volumeMounts"][-1] == {"name": "m", "mountPath": "/models"}
    assert len(made["volumeMounts"]) > 1


def test_a_probe_is_changed_field_by_field() -> None:
    probe = runtime(startupProbe={"failureThreshold": 600})["startupProbe"]

    assert probe["failureThreshold"] == 600
    assert probe["httpGet"]["path"] == "/healthz"


def test_lists_without_names_are_replaced() -> None:
    assert pod(tolerations=[{"operator": "Exists"}])["tolerations"] == [{"operator": "Exists"}]


def test_a_constraint_over_nodes_is_made_hard() -> None:
    nodes, zones = pod(
        topologySpreadConstraints=[{"topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}]
    )["topologySpreadConstraints"]

    assert (nodes["whenUnsatisfiable"], zones["whenUnsatisfiable"]) == ("DoNotSchedule", "ScheduleAnyway")
    assert nodes["labelSelector"] == {"matchLabels": {"streamsapp.dev/name": "wordcount"}}


def test_null_removes_a_field() -> None:
    made = pod(securityContext={"runAsUser": None, "fsGroup": None})["securityContext"]

    assert "runAsUser" not in made
    assert made["runAsNonRoot"] is True


@pytest.mark.parametrize(
    "nothing",
    [
        {"metadata": None, "spec": None},
        {"metadata": {"labels": None, "annotations": None}},
        {"spec": dict.fromkeys(("containers", "volumes", "serviceAccountName", "terminationGracePeriodSeconds"))},
        of_runtime(env=None, ports=None, volumeMounts=None),
    ],
)
def test_a_key_without_a_value_takes_nothing_away_that_pods_need(nothing: dict[str, Any]) -> None:
    assert template(nothing) == template({})


def test_the_users_account_wins() -> None:
    assert pod(serviceAccountName="knows-the-cloud")["serviceAccountName"] == "knows-the-cloud"


def test_a_longer_grace_period_is_left_to_draining() -> None:
    made = pod(terminationGracePeriodSeconds=300)

    assert made["terminationGracePeriodSeconds"] == 300
    arguments = made["containers"][0]["args"]
    assert arguments[arguments.index("--shutdown-timeout") + 1] == "295"


def test_other_containers_are_restricted_too() -> None:
    made = pod(
        containers=[{"name": "side", "image": "s", "securityContext": {"runAsUser": 7}}],
        initContainers=[{"name": "first", "image": "f"}],
    )

    assert [container["name"] for container in made["containers"]] == ["runtime", "side"]
    for container in (made["containers"][1], made["initContainers"][0]):
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert made["containers"][1]["securityContext"]["runAsUser"] == 7


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ({"spec": {"containers": {}}}, "spec.podTemplate.spec.containers: expected a list, got a mapping"),
        ({"spec": {"containers": [{}]}}, "spec.podTemplate.spec.containers[0].name: is required"),
        ({"spec": {"volumes": ["a"]}}, "spec.podTemplate.spec.volumes[0]: expected a mapping, got 'a'"),
        ({"metadata": {"name": "x"}}, "spec.podTemplate.metadata.name: unknown field; known fields are labels, annot"),
        ({"specs": {}}, "spec.podTemplate.specs: unknown field; did you mean 'spec'?"),
        (
            {"metadata": {"labels": {"streamsapp.dev/name": "x"}}},
            "spec.podTemplate.metadata.labels.streamsapp.dev/name: belongs to the operator; remove it",
        ),
        (
            {"spec": {"terminationGracePeriodSeconds": 5}},
            "spec.podTemplate.spec.terminationGracePeriodSeconds: expected an integer ≥ 10, got 5",
        ),
        (
            {"spec": {"serviceAccountName": "wordcount-runtime"}},
            "spec.podTemplate.spec.serviceAccountName: 'wordcount-runtime' is the account that the operator makes; ",
        ),
        (
            {"spec": {"automountServiceAccountToken": True}},
            "spec.podTemplate.spec.automountServiceAccountToken: pods of an application carry no token",
        ),
        ({"spec": {"restartPolicy": "Never"}}, "spec.podTemplate.spec.restartPolicy: pods of a StatefulSet are always"),
        (
            {"spec": {"volumes": [{"name": "state", "emptyDir": {}}]}},
            "spec.podTemplate.spec.volumes[state]: this name belongs to the operator",
        ),
        (of_runtime(args=[]), "spec.podTemplate.spec.containers[runtime].args: belongs to the operator; remove it"),
        (of_runtime(image="x"), "spec.podTemplate.spec.containers[runtime].image: set spec.image instead"),
        (of_runtime(resources={}), "spec.podTemplate.spec.containers[runtime].resources: set spec.resources instead"),
        (of_runtime(readinessProbe={}), "spec.podTemplate.spec.containers[runtime].readinessProbe: rolling restarts"),
        (
            of_runtime(env=[{"name": "POD_IP", "value": "x"}]),
            "spec.podTemplate.spec.containers[runtime].env[POD_IP]: belongs to the operator; remove it",
        ),
        (
            of_runtime(ports=[{"containerPort": 8080}]),
            "spec.podTemplate.spec.containers[runtime].ports[8080]: 8080 and the name 'http' are the runtime's",
        ),
        (
            {"spec": {"containers": [{"name": "s", "ports": [{"containerPort": 1, "name": "http"}]}]}},
            "spec.podTemplate.spec.containers[s].ports[1]: 8080 and the name 'http' are the runtime's",
        ),
    ],
)
def test_what_the_operator_relies_on_is_refused_by_name(override: dict[str, Any], fault: str) -> None:
    (told,) = faults(override)
    assert told.startswith(fault)


@pytest.mark.parametrize("path", ["/etc", "/", "/etc/streamsapp/code", "/var/lib/streamsapp/x", "/var"])
def test_nothing_is_mounted_over_the_runtimes_files(path: str) -> None:
    (told,) = faults(of_runtime(volumeMounts=[{"name": "v", "mountPath": path}]))
    assert told.startswith(f"spec.podTemplate.spec.containers[runtime].volumeMounts[{path}]: the runtime's own files")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"hostNetwork": True}, "hostNetwork"),
        ({"hostPID": True}, "hostPID"),
        ({"hostIPC": True}, "hostIPC"),
        ({"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}, "volumes[h]"),
        ({"securityContext": {"runAsNonRoot": False}}, "securityContext.runAsNonRoot"),
        ({"securityContext": {"runAsUser": 0}}, "securityContext.runAsUser"),
        ({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "securityContext.seccompProfile"),
        ({"securityContext": {"windowsOptions": {}}}, "securityContext.windowsOptions"),
        (
            {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}},
            "securityContext.sysctls[kernel.msgmax]",
        ),
        ({"securityContext": {"seLinuxOptions": {"type": "spc_t"}}}, "securityContext.seLinuxOptions"),
        ({"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "securityContext.appArmorProfile"),
        ({"volumes": [{"name": "t", "projected": {"sources": [TOKEN]}}]}, "volumes[t].projected"),
        *(
            (
                {"containers": [{"name": "s", field: {way: {"host": "10.0.0.1", "port": 1}}}]},
                f"containers[s].{field}.{way}.host",
            )
            for field in ("startupProbe", "livenessProbe", "readinessProbe")
            for way in ("httpGet", "tcpSocket")
        ),
        *(
            (
                {"initContainers": [{"name": "s", "lifecycle": {hook: {"httpGet": {"host": "x", "port": 1}}}}]},
                f"initContainers[s].lifecycle.{hook}.httpGet.host",
            )
            for hook in ("postStart", "preStop")
        ),
        (
            of_runtime(livenessProbe={"httpGet": {"host": "x"}})["spec"],
            "containers[runtime].livenessProbe.httpGet.host",
        ),
        (
            {"containers": [{"name": "s", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
            "containers[s].ports[1].hostPort",
        ),
        *(
            ({kind: [{"name": name, "securityContext": security}]}, f"{kind}[{name}].securityContext.{field}")
            for kind, name in (("containers", "runtime"), ("containers", "side"), ("initContainers", "first"))
            for field, security in (
                ("privileged", {"privileged": True}),
                ("allowPrivilegeEscalation", {"allowPrivilegeEscalation": True}),
                ("procMount", {"procMount": "Unmasked"}),
                ("capabilities", {"capabilities": {"add": ["NET_ADMIN"]}}),
                ("capabilities", {"capabilities": {"drop": ["NET_RAW"]}}),
                ("runAsNonRoot", {"runAsNonRoot": False}),
                ("runAsUser", {"runAsUser": 0}),
                ("seccompProfile", {"seccompProfile": {"type": "Unconfined"}}),
                ("appArmorProfile", {"appArmorProfile": {"type": "Unconfined"}}),
                ("seLinuxOptions", {"seLinuxOptions": {"user": "system_u"}}),
            )
        ),
    ],
)
def test_what_breaks_the_restricted_standard_is_refused_by_name(spec: dict[str, Any], field: str) -> None:
    (told,) = faults({"spec": spec})
    assert told.startswith(f"spec.podTemplate.spec.{field}: pods of an application ")


def test_what_the_restricted_standard_allows_is_left() -> None:
    security = {
        "sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}],
        "seLinuxOptions": {"type": "container_t", "level": "s0:c1"},
        "appArmorProfile": {"type": "RuntimeDefault"},
    }
    volume = {"name": "v", "projected": {"sources": [{"configMap": {"name": "c"}}]}}
    made = pod(securityContext=security, volumes=[volume])
    assert security.items() <= made["securityContext"].items()
    assert made["volumes"][-1] == volume


ARMOR = "container.apparmor.security.beta.kubernetes.io/runtime"


@pytest.mark.parametrize("profile", ["runtime/default", "localhost/mine", ""])
def test_an_annotation_may_name_a_containers_profile(profile: str) -> None:
    assert template({"metadata": {"annotations": {ARMOR: profile}}})["metadata"]["annotations"] == {ARMOR: profile}


def test_an_annotation_takes_no_containers_profile_away() -> None:
    (told,) = faults({"metadata": {"annotations": {ARMOR: "unconfined"}}})
    assert told.startswith(f"spec.podTemplate.metadata.annotations.{ARMOR}: pods of an application ")


def test_an_affinity_that_is_none_is_a_fault() -> None:
    (told,) = faults({"spec": {"affinity": 5}})
    assert told.startswith("spec.podTemplate.spec.affinity: expected a mapping, got 5")


FIELDS = (
    *("spec", "metadata", "labels", "annotations", "containers", "initContainers", "volumes", "env", "ports", "name"),
    *("affinity", "podAntiAffinity", "securityContext", "livenessProbe", "httpGet", "port", "imagePullPolicy"),
    *("volumeMounts", "mountPath", "topologySpreadConstraints", "topologyKey", "sysctls", "projected", "sources"),
    *("resourceClaims", "lifecycle", "preStop", "csi", "volumeAttributes", "image", "containerPort", "tolerations"),
)
NAMES = st.sampled_from(FIELDS)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "runtime", "state", "http", "/", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=30,
)
CONTAINER = dict.fromkeys(("livenessProbe", "imagePullPolicy", "env", "ports", "lifecycle", "x"), ANYTHING)
CONTAINERS = st.lists(st.fixed_dictionaries({"name": st.just("runtime")}, optional=CONTAINER), max_size=1)


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, ANYTHING) | {"containers": CONTAINERS}))
def test_whatever_a_template_says_it_is_used_or_refused_with_its_field(spec: dict[str, Any]) -> None:
    told: list[str] = []
    try:
        run_to_completion(template({"spec": spec}), {}, {})
    except ManifestError as error:
        told = error.faults
    assert all(fault.startswith("spec.podTemplate.") for fault in told)


@pytest.mark.parametrize("key", [[], {}, None, ["a"]])
def test_an_item_whose_name_is_none_is_kept_as_kubernetes_has_it(key: Any) -> None:
    """Elsewhere in a pod than where names matter: the API server judges it."""
    claims = {"ephemeral": {"volumeClaimTemplate": {"spec": {"ports": [{"containerPort": key}]}}}}
    made = pod(volumes=[{"name": "v"} | claims])
    assert made["volumes"][-1]["ephemeral"]["volumeClaimTemplate"]["spec"]["ports"] == [{"containerPort": key}]


@pytest.mark.parametrize("kind", ["serviceAccountToken", "podCertificate", "somethingNew"])
def test_a_projected_volume_that_logs_a_pod_in_is_refused(kind: str) -> None:
    sources = [{"configMap": {"name": "c"}}, {kind: {"path": "x"}}]
    (told,) = faults({"spec": {"volumes": [{"name": "v", "projected": {"sources": sources}}]}})
    assert told.startswith("spec.podTemplate.spec.volumes[v].projected: pods of an application carry no token")
    assert kind in told


def test_a_volume_of_two_kinds_is_refused() -> None:
    (told,) = faults({"spec": {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]}})
    assert told == (
        "spec.podTemplate.spec.volumes[v]: is of 2 kinds, emptyDir, hostPath; a volume has one: remove the others"
    )


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("path", ["/models/../etc/streamsapp/code", "/..", "../x"])
def test_a_mount_path_that_leads_upwards_is_refused(kind: str, path: str) -> None:
    container = {
        "name": "runtime" if kind == "containers" else "first",
        "volumeMounts": [{"name": "v", "mountPath": path}],
    }
    told = faults({"spec": {kind: [container]}})
    assert [line for line in told if "'..' may lead anywhere" in line and path in line], told


def test_the_cluster_may_choose_the_user_of_pods() -> None:
    spec = {"topology": {"entrypoint": "words:topology"}}
    document = {"apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp", "metadata": {"name": "a"}, "spec": spec}
    settings = RenderSettings(runtime_image="runtime:1", operator_namespace="operators", fixed_user=False)
    made = revision_of(decode(document), settings, {}).template["spec"]["securityContext"]
    assert made == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
