"""A namespace with the operator and the word count example in it, on the node of ``make cluster-up``. The tests of the
cluster, the soak and the rolling benchmark use it.
"""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from confluent_kafka.admin import AdminClient, NewTopic

from cluster.host_services import BUCKET, KAFKA, PARTITIONS, S3, HostServices
from cluster.layout import ClusterLayout
from cluster.node import Node
from cluster.processes import end
from cluster_app import App, Kubectl, KubectlError
from cluster_load import ExactLoad
from cluster_observer import Observer
from kafka_cluster import wait_until_seen
from streamsapp.manifest.yaml_text import parse_yaml

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "streamsapp"
RELEASE = "streamsapp"
#: The images that the node has.
_IMAGES = (
    "--set=global.imageRegistry=localhost",
    *(f"--set={each}.image.tag=dev" for each in ("operator", "runtime", "spark")),
)
WORDCOUNT, SNAPSHOTS = "wordcount", "wordcount-snapshots"


class World:
    """One namespace of the cluster. Entering it makes it anew, leaving it removes it with all that is in it."""

    def __init__(self, layout: ClusterLayout, namespace: str, *, commit_interval_ms: int = 0) -> None:
        """Applications commit at this interval; 0: as they do without a setting, which keeps brokers busy."""
        self.namespace = namespace
        self._processing = {"commitIntervalMs": commit_interval_ms} if commit_interval_ms else {}
        self.layout = layout
        self.kubectl = Kubectl(self.layout.kubeconfig, self.layout.programs)
        self.services = HostServices(self.layout)
        self._one_outage = threading.Lock()

    def __enter__(self) -> World:
        """The namespace, empty but for the secret that examples with remote state need."""
        self._drop()
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        metadata = {"name": self.namespace, "labels": labels}
        self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        self.kubectl.apply(self.services.credentials(self.namespace))
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def install(self, *options: str) -> None:
        """The operator, by helm; returns when it runs."""
        self.helm("install", *options)

    def helm(self, action: str, *options: str) -> None:
        """``install`` or ``upgrade``, of the chart in this tree."""
        where = [f"--namespace={self.namespace}", "--wait", "--timeout=2m"]
        self.kubectl.helm(action, RELEASE, str(CHART), *where, *_IMAGES, *options)

    def manifest(self, example: str, *, topics: str = "", **spec: Any) -> dict[str, Any]:
        """An example, its spec changed; with ``topics`` it reads and writes others than the example's, so that both
        can run side by side."""
        path = ROOT / "examples" / example / "streamsapp.yaml"
        document: Any = parse_yaml(path.read_text("utf-8"))
        document["spec"] |= {"processing": document["spec"].get("processing", {}) | self._processing, **spec}
        document["spec"]["rollout"] = {"soakSeconds": 2, "lastGoodSeconds": 0, **document["spec"].get("rollout", {})}
        if topics:
            code = document["spec"]["code"]["files"]
            for name in ("lines", "counts"):
                code["wordcount.py"] = code["wordcount.py"].replace(f'"{name}"', f'"{topics}-{name}"')
        return dict(document)

    def snapshots_manifest(self) -> dict[str, Any]:
        """The example without standbys, on topics of its own; one pod, and snapshots so often that one who looks has
        not long to wait until they are old."""
        manifest = self.manifest(SNAPSHOTS, topics=SNAPSHOTS, replicas=1)
        manifest["spec"]["remoteState"]["snapshotIntervalSeconds"] = 2
        return manifest

    def app(self, name: str) -> App:
        return App(self.kubectl, self.namespace, name)

    def load(self, *, topics: str = "", rate: int = 100) -> ExactLoad:
        """On the topics of an example; missing topics are created."""
        source, sink = (f"{topics}-{name}" if topics else name for name in ("lines", "counts"))
        self.create_topics(source, sink)
        return ExactLoad(KAFKA, rate=rate, source=source, sink=sink)

    def observer(self, name: str, application_id: str = "") -> Observer:
        """``application_id`` where it is not the example's own, its name."""
        known = partial(self._snapshots, name, application_id or name)
        return Observer(self.kubectl.api, KAFKA, self.namespace, name, snapshots=known)

    def operator_pods(self) -> dict[str, Any]:
        selector = f"--selector=app.kubernetes.io/instance={RELEASE},app.kubernetes.io/component=operator"
        pods = self.kubectl.json("get", "pods", f"--namespace={self.namespace}", selector)
        return {pod["metadata"]["name"]: pod for pod in pods["items"]}

    def leading_operator(self) -> str | None:
        """The pod that holds the Lease; none while the holder is gone and its time is not up yet."""
        lease = self.kubectl.json("get", "lease", f"{RELEASE}-operator", f"--namespace={self.namespace}")
        holder = lease["spec"].get("holderIdentity")
        return holder if holder in self.operator_pods() else None

    @contextmanager
    def api_server_away(self) -> Iterator[None]:
        with self._stopped("kube-apiserver", Node(self.layout).start):
            yield

    @contextmanager
    def object_store_away(self) -> Iterator[None]:
        with self._stopped("s3", self.services.start):
            yield

    @contextmanager
    def _stopped(self, program: str, start: Callable[[], object]) -> Iterator[None]:
        with self._one_outage:
            end(self.layout.run / f"{program}.pid", signal.SIGKILL)
            try:
                yield
            finally:
                start()

    def _snapshots(self, name: str, application_id: str) -> set[str]:
        """Tasks that have a snapshot: looked up in the bucket itself."""
        access, secret = self.services.keys()
        store = boto3.client(
            "s3",
            endpoint_url=S3,
            aws_access_key_id=access,
            aws_secret_access_key=secret,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )
        pages = store.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{name}/{application_id}/")
        keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
        return {key.split("/")[2] for key in keys if key.split("/")[3] == "manifests"}

    def create_topics(self, *names: str) -> None:
        """Creates the topics that are not there yet."""
        admin = AdminClient({"bootstrap.servers": KAFKA, "log_level": 0})
        missing = sorted(set(names) - admin.list_topics(timeout=20).topics.keys())
        if missing:
            new = [NewTopic(name, num_partitions=PARTITIONS) for name in missing]
            for name, created in admin.create_topics(new).items():
                created.result()
                wait_until_seen(admin, name, PARTITIONS)

    def _drop(self) -> None:
        """Deletes the rest of an earlier run, in an order in which no object waits for a controller that is gone."""
        with suppress(KubectlError):
            self.kubectl("delete", "streamsapps", "--all", f"--namespace={self.namespace}", "--timeout=60s")
        with suppress(KubectlError):
            patch = json.dumps({"metadata": {"finalizers": None}})
            left = self.kubectl("get", "streamsapps", f"--namespace={self.namespace}", "--output=name").split()
            for name in left:  # no operator runs that would let them go
                self.kubectl("patch", name, f"--namespace={self.namespace}", "--type=merge", f"--patch={patch}")
        with suppress(KubectlError):
            self.kubectl.helm("uninstall", RELEASE, f"--namespace={self.namespace}", "--wait", "--timeout=1m")
        self.kubectl("delete", "namespace", self.namespace, "--ignore-not-found", "--timeout=120s", timeout=150)


@dataclass(frozen=True)
class Running:
    """An application, what is sent through it, and who watches it."""

    world: World
    app: App
    load: ExactLoad
    observer: Observer
