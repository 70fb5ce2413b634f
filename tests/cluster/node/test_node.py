"""The node that the other tests of this folder run on is a real one."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.images import OPERATOR_IMAGE, RUNTIME_IMAGE
from cluster_app import TIMEOUT, Kubectl, KubectlError
from kafka_cluster import Kafka
from kube_cluster import wait_until

_SECURITY = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def pod(name: str, image: str, *command: str, **container: Any) -> dict[str, Any]:
    """A pod that runs one command under the restricted Pod Security Standard."""
    security = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532}
    runs = {"name": "main", "image": image, "command": list(command), "securityContext": _SECURITY, **container}
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {**security, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [runs],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def output_of(kubectl: Kubectl, namespace: str, wanted: dict[str, Any], **labels: str) -> str:
    """Returns the output of the pod's command; fails with it when the command fails."""
    name, where = wanted["metadata"]["name"], f"--namespace={namespace}"

    def ended() -> bool:
        return kubectl("get", "pod", name, where, "-o=jsonpath={.status.phase}") in {"Succeeded", "Failed"}

    kubectl.apply({**wanted, "metadata": {"name": name, "namespace": namespace, "labels": labels}})
    wait_until(ended, f"pod {name} ended", TIMEOUT)
    said = kubectl("logs", name, where)
    assert kubectl("get", "pod", name, where, "-o=jsonpath={.status.phase}") == "Succeeded", said
    return said.strip()


@pytest.mark.parametrize(("image", "command"), [(RUNTIME_IMAGE, "streamsapp"), (OPERATOR_IMAGE, "streamsapp-operator")])
def test_runs_the_images_of_this_tree_without_any_privilege(
    kubectl: Kubectl, namespace: str, image: str, command: str
) -> None:
    output_of(kubectl, namespace, pod("help", image, command, "--help"))


def test_an_image_that_runs_applications_has_nothing_of_the_operator(kubectl: Kubectl, namespace: str) -> None:
    program = "from importlib.util import find_spec; print([find_spec(name) for name in ('kopf', 'kubernetes')])"
    said = output_of(kubectl, namespace, pod("imports", RUNTIME_IMAGE, "python3", "-c", program))
    assert said == "[None, None]"


def test_a_pod_of_any_namespace_reaches_kafka_by_its_bare_name(kubectl: Kubectl, namespace: str, kafka: Kafka) -> None:
    topic = kafka.create_topic(f"from-a-pod-of-{namespace}")
    program = f"""
from confluent_kafka import Producer
producer = Producer({{"bootstrap.servers": "kafka:9092"}})
producer.produce({topic!r}, b"hello")
assert producer.flush(100) == 0
"""
    output_of(kubectl, namespace, pod("producer", RUNTIME_IMAGE, "python3", "-c", program))
    assert [message.value() for message in kafka.read(topic)] == [b"hello"]


def test_a_pod_of_any_namespace_reaches_the_object_store_with_the_secret_beside_it(
    kubectl: Kubectl, namespace: str
) -> None:
    program = """
import boto3
store = boto3.client("s3", endpoint_url="http://s3:9000", region_name="us-east-1")
print([bucket["Name"] for bucket in store.list_buckets()["Buckets"]])
"""
    secret = [{"secretRef": {"name": "s3-credentials"}}]
    said = output_of(kubectl, namespace, pod("buckets", RUNTIME_IMAGE, "python3", "-c", program, envFrom=secret))
    assert said == "['streamsapp']"


def test_the_topics_of_the_examples_are_there(kafka: Kafka) -> None:
    assert kafka.partitions_of("lines") == kafka.partitions_of("counts") == [0, 1, 2, 3]


def test_a_pod_that_breaks_the_standard_its_namespace_enforces_is_refused(kubectl: Kubectl, namespace: str) -> None:
    with pytest.raises(KubectlError, match="violates PodSecurity"):
        kubectl("run", "privileged", f"--image={RUNTIME_IMAGE}", f"-n={namespace}")


def test_a_service_is_known_by_its_name_and_reaches_its_own_pod(kubectl: Kubectl, namespace: str) -> None:
    metadata = {"name": "itself", "namespace": namespace}
    spec = {"selector": {"app": "itself"}, "ports": [{"port": 8080}]}
    kubectl.apply({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
    program = """
import http.server, threading, time, urllib.request
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *told): pass
server = http.server.ThreadingHTTPServer(("", 8080), Quiet)
threading.Thread(target=server.serve_forever, daemon=True).start()
give_up = time.monotonic() + 120
while time.monotonic() < give_up:
    try:
        print(urllib.request.urlopen("http://itself:8080/", timeout=5).status)
        break
    except OSError:
        time.sleep(0.1)
"""
    wanted = pod("itself", RUNTIME_IMAGE, "python3", "-c", program)
    assert output_of(kubectl, namespace, wanted, app="itself") == "200"
