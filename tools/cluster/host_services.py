"""Kafka and the S3 server on the host, which pods reach by the names the examples use, with what the examples need.

Called by the command line of the cluster once the node's address exists, on its thread; both go on after it has ended.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError
from confluent_kafka.admin import AdminClient, NewTopic

import versitygw
from cluster.layout import NODE_ADDRESS, ClusterLayout
from cluster.processes import Daemon, end, note, noted
from streamsapp.errors import StreamsError
from streamsapp.local.broker import EmbeddedBroker

ROOT = Path(__file__).resolve().parent.parent.parent
#: The place where processes of the host find them; pods say ``kafka:9092`` and ``http://s3:9000``. The variables are
#: for tests on a cluster that was given to them and has its own.
KAFKA = os.environ.get("CLUSTER_KAFKA", f"{NODE_ADDRESS}:19092")
S3 = os.environ.get("CLUSTER_S3", f"http://{NODE_ADDRESS}:9000")
BUCKET = "streamsapp"
PARTITIONS = 4
_HOST_LISTENER = f"{NODE_ADDRESS}:19092"
_CONTROLLER = f"{NODE_ADDRESS}:19093"
_BROKER_SETTINGS = {
    "listeners": f"PODS://{NODE_ADDRESS}:9092,HOST://{_HOST_LISTENER},CONTROLLER://{_CONTROLLER}",
    "advertised.listeners": f"PODS://kafka:9092,HOST://{_HOST_LISTENER}",
    "listener.security.protocol.map": "PODS:PLAINTEXT,HOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "HOST",
    "controller.quorum.voters": f"1@{_CONTROLLER}",
}


class HostServices:
    """The broker and the object store of one cluster."""

    def __init__(self, layout: ClusterLayout) -> None:
        self._layout = layout
        self._broker = layout.run / "kafka.pid"
        self._keys = layout.state / "s3-keys.json"
        command = [str(versitygw.executable()), "--quiet", "--keep-alive", "--port", f"{NODE_ADDRESS}:9000"]
        self._objects = Daemon(
            "s3", [*command, "posix", str(layout.state / "objects")], run=layout.run, logs=layout.logs
        )

    def start(self) -> None:
        """Returns when both answer, and have the topics of the examples and the bucket."""
        (self._layout.state / "objects").mkdir(exist_ok=True)
        access, secret = self.keys()
        self._objects.start({"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret})
        if noted(self._broker) is None:
            broker = EmbeddedBroker(
                self._layout.state / "kafka", properties=_BROKER_SETTINGS, outlives_starter=True
            ).start()
            assert broker.pid is not None
            note(self._broker, broker.pid)
        self._objects.wait(self._has_bucket, 20)
        _create_topics(_topics_of_the_examples())

    def stop(self) -> None:
        end(self._broker)
        self._objects.stop()

    def keys(self) -> tuple[str, str]:
        """Access key and secret key of the S3 server; made anew with each cluster, or given with the server."""
        if "CLUSTER_S3" in os.environ:
            return os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        if not self._keys.exists():
            self._keys.touch(mode=0o600)
            self._keys.write_text(json.dumps(["streamsapp", secrets.token_hex(16)]), encoding="utf-8")
        access, secret = json.loads(self._keys.read_text("utf-8"))
        return access, secret

    def credentials(self, namespace: str) -> dict[str, Any]:
        """The Secret that the examples refer to."""
        access, secret = self.keys()
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s3-credentials", "namespace": namespace},
            "stringData": {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret},
        }

    def _has_bucket(self) -> bool:
        access, secret = self.keys()
        client = boto3.client(
            "s3",
            endpoint_url=S3,
            aws_access_key_id=access,
            aws_secret_access_key=secret,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )
        try:
            if BUCKET not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=BUCKET)
        except BotoCoreError:
            return False
        return True


def _topics_of_the_examples() -> set[str]:
    topics: set[str] = set()
    for manifest in sorted(ROOT.glob("examples/*/streamsapp.yaml")):
        command = [sys.executable, "-m", "cluster.topics", str(manifest)]
        answer = subprocess.run(command, cwd=ROOT / "tools", capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise StreamsError(f"the topics of {manifest} cannot be told: {answer.stderr.strip()}")
        topics.update(json.loads(answer.stdout))
    return topics


def _create_topics(names: set[str]) -> None:
    admin = AdminClient({"bootstrap.servers": KAFKA, "log_level": 0})
    missing = sorted(names - admin.list_topics(timeout=20).topics.keys())
    if missing:
        created = admin.create_topics([NewTopic(name, num_partitions=PARTITIONS) for name in missing])
        for each in created.values():
            each.result()
