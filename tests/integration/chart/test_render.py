"""The chart is rendered with values, right and wrong ones, by the real helm."""

from __future__ import annotations

import base64
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamsapp_operator.settings import Settings, parse

CHART = Path(__file__).resolve().parents[3] / "charts" / "streamsapp"
CRD = CHART.parents[1] / "crds" / "streamsapps.yaml"
EVERYTHING = (
    "operator.replicas=2",
    "podDisruptionBudget.enabled=true",
    "monitoring.serviceMonitor.enabled=true",
    "monitoring.podMonitor.enabled=true",
    "monitoring.dashboard.enabled=true",
    "monitoring.alerts.enabled=true",
    'networkPolicy.metricsFrom=[{"namespaceSelector":{"matchLabels":{"team":"metrics"}}}]',
    'networkPolicy.egress=[{"ports":[{"port":443}]}]',
    'networkPolicy.applicationEgress=[{"ports":[{"port":9092}]}]',
    'imagePullSecrets=[{"name":"registry"}]',
    'operator.podAnnotations={"a":"b"}',
    'operator.extraEnv=[{"name":"HTTPS_PROXY","value":"http://proxy:3128"}]',
    'operator.nodeSelector={"disk":"ssd"}',
    'operator.priorityClassName="system-cluster-critical"',
    'serviceAccount={"create":true,"name":"mine","annotations":{"eks.amazonaws.com/role-arn":"arn:aws:iam::1:role/x"}}',
    'service={"type":"LoadBalancer","port":80,"annotations":{"internal":"true"}}',
    'commonLabels={"team":"streams"}',
    'operator.extraVolumes=[{"name":"ca","configMap":{"name":"ca"}}]',
    'operator.extraVolumeMounts=[{"name":"ca","mountPath":"/etc/ca"}]',
    'operator.extraEnvFrom=[{"configMapRef":{"name":"proxy"}}]',
    'operator.extraArgs=["--lease-seconds=30"]',
    'runtime.imagePullSecrets=["apps"]',
    'monitoring.namespace="metrics"',
)
#: A release names the place of its images.
IMAGES = '--set-json=global.imageRegistry="registry.example/team"'


Document = dict[str, Any]
Helm = Callable[..., str]
Render = Callable[..., list[Document]]


VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))["appVersion"]


def one(documents: list[Document], kind: str) -> Document:
    (found,) = [each for each in documents if each["kind"] == kind]
    return found


def pod(documents: list[Document], kind: str) -> Document:
    """The specification of the operator's pods (``Deployment``), or of that of ``helm test`` (``Pod``)."""
    found = one(documents, kind)["spec"]
    spec: Document = found["template"]["spec"] if kind == "Deployment" else found
    return spec


def alerts(documents: list[Document]) -> list[Document]:
    (group,) = one(documents, "PrometheusRule")["spec"]["groups"]
    rules: list[Document] = group["rules"]
    return rules


def settings_of(documents: list[Document], folder: Path) -> Settings:
    """The settings that the operator reads from what the chart gives it."""
    (container,) = pod(documents, "Deployment")["containers"]
    key = folder / "key"
    key.write_bytes(b"0123456789abcdef")
    environment = {each["name"]: each.get("value", "from-the-pod") for each in container["env"]}
    return parse([], {**environment, "STREAMSAPP_KEY_FILE": str(key)})


@pytest.mark.parametrize("values", [(), EVERYTHING, ("watch.clusterWide=true",), ('watch.namespaces=["a","b"]',)])
def test_helm_lint_has_nothing_to_say(helm: Helm, values: tuple[str, ...]) -> None:
    options = [option for value in values for option in ("--set-json", value)]
    assert "0 chart(s) failed" in helm("lint", "--strict", "--kube-version", "1.34.0", str(CHART), IMAGES, *options)


def test_the_crd_is_the_one_in_crds_and_stays_when_the_release_goes(render: Render) -> None:
    installed = one(render(), "CustomResourceDefinition")
    source = yaml.safe_load(CRD.read_text("utf-8"))
    assert installed["spec"] == source["spec"]
    assert installed["metadata"]["name"] == source["metadata"]["name"]
    assert installed["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_without_crds_there_is_none(render: Render) -> None:
    assert "CustomResourceDefinition" not in {each["kind"] for each in render("crds.install=false")}


def test_a_release_of_another_name_has_its_own_of_everything(render: Render) -> None:
    names = {each["metadata"]["name"] for each in render(release="blue")} - {"streamsapps.streamsapp.dev"}
    assert all("blue-streamsapp-operator" in name for name in names)


def test_two_releases_share_no_object_but_the_crd(render: Render) -> None:
    def objects(release: str) -> set[tuple[str, str]]:
        return {(each["kind"], each["metadata"]["name"]) for each in render(release=release)}

    assert objects("blue") & objects("green") == {("CustomResourceDefinition", "streamsapps.streamsapp.dev")}


def test_everything_has_the_recommended_labels(render: Render) -> None:
    wanted = {"name", "instance", "version", "managed-by", "part-of"}
    for each in render(*EVERYTHING):
        labels = {name.removeprefix("app.kubernetes.io/") for name in each["metadata"]["labels"]}
        assert wanted <= labels, each["metadata"]["name"]


def test_the_pod_of_helm_test_is_not_taken_for_the_operator(render: Render) -> None:
    documents = render()
    selector = one(documents, "Service")["spec"]["selector"].items()
    assert not selector <= one(documents, "Pod")["metadata"]["labels"].items()
    assert selector <= one(documents, "Deployment")["spec"]["template"]["metadata"]["labels"].items()


@pytest.mark.parametrize(("values", "told"), [((), "on"), (("console.enabled=false",), "off")])
def test_the_console_can_be_left_out(render: Render, values: tuple[str, ...], told: str) -> None:
    (container,) = one(render(*values), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each.get("value") for each in container["env"]}["STREAMSAPP_CONSOLE"] == told


def test_the_service_has_the_port_that_is_chosen(render: Render) -> None:
    documents = render("service.port=80")
    spec = one(documents, "Service")["spec"]
    assert spec["ports"] == [{"name": "http", "port": 80, "targetPort": "http"}]
    assert spec["ipFamilyPolicy"] == "PreferDualStack"
    (container,) = one(documents, "Pod")["spec"]["containers"]
    assert {each["name"]: each["value"] for each in container["env"]}["OPERATOR_URL"].endswith(":80")


@pytest.mark.parametrize(
    ("values", "watched"),
    [((), "apps"), (('watch.namespaces=["b","a"]',), "a,b"), (("watch.clusterWide=true",), "*")],
)
def test_the_operator_is_told_what_its_roles_are_for(render: Render, values: tuple[str, ...], watched: str) -> None:
    (container,) = one(render(*values), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert {each["name"]: each.get("value") for each in container["env"]}["WATCH_NAMESPACES"] == watched


def test_every_variable_the_chart_sets_is_one_the_operator_reads(render: Render, tmp_path: Path) -> None:
    documents = render()
    settings = settings_of(documents, tmp_path)
    assert settings.namespaces == ("apps",)
    assert settings.lease_name == "streamsapp-operator"
    assert settings.render.runtime_image == f"registry.example/team/streamsapp-runtime:{VERSION}"
    assert settings.render.spark_image == f"registry.example/team/streamsapp-spark:{VERSION}"
    assert settings.render.operator_labels == one(documents, "Service")["spec"]["selector"]
    assert (settings.namespace, settings.identity) == ("from-the-pod", "from-the-pod")


def test_the_key_is_long_and_another_one_for_each_installation(render: Render) -> None:
    keys = {base64.b64decode(one(render(), "Secret")["data"]["key"]) for _ in range(2)}
    assert len(keys) == 2
    assert min(map(len, keys)) >= 32


def test_a_key_of_the_users_own_is_mounted_instead(render: Render) -> None:
    documents = render('key.existingSecret="mine"')
    assert "Secret" not in {each["kind"] for each in documents}
    volumes = one(documents, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert [volume["secret"]["secretName"] for volume in volumes if "secret" in volume] == ["mine"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("operatr.replicas=1", "operatr"),
        ("operator.replica=1", "replica"),
        ('operator.image="streamsapp-operator"', "operator/image"),
        ('operator.image={"name":"x"}', "name"),
        ('operator.image={"tag":"a b"}', "tag"),
        ('operator.podSecurityContext={"runAsRoot":true}', "runAsRoot"),
        ('operator.containerSecurityContext={"readOnly":true}', "readOnly"),
        ('operator.extraArgs=["lease"]', "extraArgs"),
        ('serviceAccount={"named":"a"}', "named"),
        ("rbac.enabled=false", "enabled"),
        ('service.type="Loadbalancer"', "type"),
        ("monitoring.alerts.thresholds.lag=1", "lag"),
        ('global.imageRegistry="https://registry.example"', "imageRegistry"),
        ('imagePullSecrets=[{"secret":"a"}]', "imagePullSecrets"),
        ('operator.logLevel="loud"', "logLevel"),
        ('watch.namespaces=["Upper"]', "watch.namespaces"),
        ('watch={"clusterWide":true,"namespaces":["a"]}', "namespaces"),
        ('monitoring.serviceMonitor.interval="15"', "interval"),
        ("operator.replicas=-1", "replicas"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(render: Render, value: str, told: str) -> None:
    with pytest.raises(RuntimeError, match=rf"values don't meet the specifications[\s\S]*{told}"):
        render(value)


def test_alerts_are_made_only_when_asked_for_and_link_to_their_runbooks(render: Render) -> None:
    assert "PrometheusRule" not in {each["kind"] for each in render()}
    rule = one(
        render("monitoring.alerts.enabled=true", 'monitoring.alerts.runbooks="https://docs.example/runbooks/"'),
        "PrometheusRule",
    )
    (group,) = rule["spec"]["groups"]
    alerts = {each["alert"]: each for each in group["rules"]}
    assert len(alerts) > 5
    assert alerts["StreamsAppNotReady"] == {
        "alert": "StreamsAppNotReady",
        "expr": 'streamsapp_app_condition{type="Ready"} < 1 '
        'unless on (namespace, name) streamsapp_app_replicas{state="wanted"} == 0',
        "for": "5m",
        "labels": {"severity": "critical"},
        "annotations": {
            "summary": "{{ $labels.namespace }}/{{ $labels.name }} is not ready",
            "runbook_url": "https://docs.example/runbooks/#the-application-is-not-ready",
        },
    }


def test_the_operator_is_given_what_applications_may_reach(render: Render) -> None:
    (container,) = one(render(*EVERYTHING), "Deployment")["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each.get("value") for each in container["env"]}["STREAMSAPP_APPLICATION_EGRESS"]
    assert json.loads(given) == [{"ports": [{"port": 9092}]}]


@pytest.mark.parametrize(("tag", "shown"), [("", ""), ("1.0", ":1.0")])
def test_an_image_may_have_a_digest_and_a_registry_with_a_port(render: Render, tag: str, shown: str) -> None:
    own = {
        "registry": "registry.example:5000",
        "repository": "team/operator",
        "tag": tag,
        "digest": f"sha256:{'a' * 64}",
    }
    given = (
        f"operator.image={json.dumps(own)}",
        'global.imageRegistry=""',
        *(f'{each}.image.registry="localhost"' for each in ("runtime", "spark")),
    )
    (container,) = one(render(*given), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"registry.example:5000/team/operator{shown}@sha256:{'a' * 64}"
    environment = {each["name"]: each.get("value") for each in container["env"]}
    assert environment["STREAMSAPP_RUNTIME_IMAGE"] == f"localhost/streamsapp-runtime:{VERSION}"


def test_the_registry_of_all_charts_wins_over_that_of_an_image(render: Render) -> None:
    documents = render('operator.image.registry="other.example"', 'operator.image.tag="dev"')
    images = [each["image"] for kind in ("Pod", "Deployment") for each in pod(documents, kind)["containers"]]
    assert images == ["registry.example/team/streamsapp-operator:dev"] * 2


def test_without_a_registry_nothing_is_installed_and_the_message_says_what_to_push(helm: Helm) -> None:
    with pytest.raises(RuntimeError) as failed:
        helm("template", "streamsapp", str(CHART), "-n", "apps", "--kube-version", "1.34.0")
    told = str(failed.value)
    assert "operator.image names no registry, and no registry has this image yet" in told
    assert f"docker push registry.example/team/streamsapp-$image:{VERSION}" in told
    assert "--set global.imageRegistry=registry.example/team" in told


def test_a_global_value_that_is_none_is_refused(render: Render) -> None:
    with pytest.raises(
        RuntimeError, match=r"global.imageRegistri is no value of this chart; it has global.imageRegistry"
    ):
        render('global.imageRegistri="x"')


def test_what_people_expect_of_a_chart_has_its_effect(render: Render) -> None:
    documents = render(*EVERYTHING)
    assert one(documents, "ServiceAccount")["metadata"]["name"] == "mine"
    assert one(documents, "ServiceAccount")["metadata"]["annotations"] == {
        "eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"
    }
    assert all(each["metadata"]["labels"]["team"] == "streams" for each in documents)
    service = one(documents, "Service")
    assert (service["spec"]["type"], service["metadata"]["annotations"]) == ("LoadBalancer", {"internal": "true"})
    spec = pod(documents, "Deployment")
    (container,) = spec["containers"]
    assert spec["serviceAccountName"] == pod(documents, "Pod")["serviceAccountName"] == "mine"
    assert {"name": "ca", "configMap": {"name": "ca"}} in spec["volumes"]
    assert {"name": "ca", "mountPath": "/etc/ca"} in container["volumeMounts"]
    assert container["envFrom"] == [{"configMapRef": {"name": "proxy"}}]
    assert container["args"] == ["--lease-seconds=30"]
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    for kind in ("ServiceMonitor", "PodMonitor", "PrometheusRule", "ConfigMap"):
        assert one(documents, kind)["metadata"]["namespace"] == "metrics"
    assert one(documents, "ServiceMonitor")["spec"]["namespaceSelector"] == {"matchNames": ["apps"]}
    subjects = [subject["name"] for each in documents if each["kind"] == "RoleBinding" for subject in each["subjects"]]
    assert set(subjects) == {"mine"}


def test_secrets_of_all_charts_are_those_of_the_operator_and_of_applications(render: Render, tmp_path: Path) -> None:
    documents = render(
        'global.imagePullSecrets=["all"]', 'imagePullSecrets=["own"]', 'runtime.imagePullSecrets=["apps"]'
    )
    assert pod(documents, "Deployment")["imagePullSecrets"] == [{"name": "own"}, {"name": "all"}]
    assert settings_of(documents, tmp_path).render.image_pull_secrets == ("apps", "all")


def test_without_rbac_there_is_no_role_and_without_an_account_the_default_one(render: Render) -> None:
    documents = render("rbac.create=false", "serviceAccount.create=false")
    kinds = {each["kind"] for each in documents}
    assert not kinds & {"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "ServiceAccount"}
    assert pod(documents, "Deployment")["serviceAccountName"] == "default"


def test_security_contexts_are_those_of_the_values_and_openshift_gives_the_user(render: Render) -> None:
    documents = render(
        'operator.podSecurityContext={"runAsUser":7,"fsGroupChangePolicy":"OnRootMismatch"}',
        'operator.containerSecurityContext={"capabilities":{"drop":["NET_RAW"]}}',
    )
    spec = pod(documents, "Deployment")
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["fsGroup"]) == (7, 65532)
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["containers"][0]["securityContext"]["capabilities"] == {"drop": ["NET_RAW"]}
    left = pod(render('security.fixedUser="never"'), "Deployment")["securityContext"]
    assert left == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_thresholds_take_the_place_of_the_usual_numbers(render: Render) -> None:
    names = VALUES["monitoring"]["alerts"]["thresholds"]
    given = [f"monitoring.alerts.thresholds.{name}={7_000_000 + place}" for place, name in enumerate(names)]
    expressions = [each["expr"] for each in alerts(render("monitoring.alerts.enabled=true", *given))]
    for place, name in enumerate(names):
        assert sum(f"> {7_000_000 + place}" in each for each in expressions) == 1, name
    usual = [each["expr"] for each in alerts(render("monitoring.alerts.enabled=true"))]
    assert usual == [each["expr"] for each in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text("utf-8"))]


def test_the_networks_door_is_open_for_metrics_and_nothing_else(render: Render) -> None:
    spec = one(render(), "NetworkPolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}]}]
    restricted = one(render(*EVERYTHING), "NetworkPolicy")["spec"]
    assert restricted["policyTypes"] == ["Ingress", "Egress"]
    assert restricted["ingress"][0]["from"][0] == {"namespaceSelector": {"matchLabels": {"team": "metrics"}}}


def test_helm_package_has_everything(helm: Helm, tmp_path: Path) -> None:
    helm("package", str(CHART), "-d", str(tmp_path))
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as archive:
        names = set(archive.getnames())
        resource = archive.extractfile("streamsapp/files/streamsapps.yaml")
        assert resource is not None
        assert resource.read() == CRD.read_bytes()
    assert {
        "streamsapp/files/streamsapps.yaml",
        "streamsapp/files/alerts.yaml",
        "streamsapp/files/dashboard.json",
        "streamsapp/values.schema.json",
    } <= names
