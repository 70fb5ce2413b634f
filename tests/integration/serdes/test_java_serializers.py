"""Avro records that Java's serializers wrote are read here, and those written here are read by Java's."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_cluster import Kafka
from oracle import class_path
from streamsapp import SchemaRegistry
from streamsapp.local.downloads import artifacts_of
from streamsapp.local.jars import Jars
from streamsapp.local.java import find_java

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
#: Java's serializers for a schema registry, of the registry that the tests run.
REGISTERED = Jars("registered", artifacts_of((HERE / "registered.jars").read_text("ascii")))
ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "long"}],
    }
)
Java = Callable[..., str]


@pytest.fixture(scope="module")
def java(registry_url: str) -> Java:
    """Runs the Java program on the registry, by the registry's own API; returns the output."""
    classes = class_path(HERE / "java", [REGISTERED.folder()])
    own = registry_url.replace("/ccompat/v7", "/registry/v2")

    def run(*arguments: str) -> str:
        command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-cp", classes, "Registered", own, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


def test_records_of_java_are_read_and_those_of_here_by_java(java: Java, registry_url: str, kafka: Kafka) -> None:
    topic = kafka.unique("java-orders")
    registry = SchemaRegistry(registry_url)
    try:
        serde = registry.avro(ORDER).bind(topic, is_key=False)
        of_java = base64.b64decode(java(topic, "write", ORDER, "ä", "5"))
        assert serde.deserialize(of_java) == {"id": "ä", "cents": 5}
        assert registry.avro().bind(topic, is_key=False).deserialize(of_java) == {"id": "ä", "cents": 5}

        ours = serde.serialize({"id": "ö", "cents": -7})
        assert json.loads(java(topic, "read", base64.b64encode(ours).decode())) == {"id": "ö", "cents": -7}
    finally:
        registry.close()
