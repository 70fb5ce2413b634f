"""The names of objects that a manifest refers to are names that objects can have, and one part of a path."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp.errors import ManifestError
from streamsapp.manifest import StreamsApp, decode


def manifest(name: Any) -> StreamsApp:
    spec = {
        "topology": {"entrypoint": "a:b"},
        "code": {"configMapRef": {"name": name}},
        "kafka": {"bootstrapServers": "k:9092", "secretRef": {"name": name}},
        "remoteState": {"url": "s3://bucket/prefix", "secretRef": {"name": name}},
    }
    metadata = {"name": "a"}
    return decode({"apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp", "metadata": metadata, "spec": spec})


@pytest.mark.parametrize("name", ["a", "0", "my-code.v1", "a" * 253])
def test_a_name_that_an_object_may_have(name: str) -> None:
    assert manifest(name).spec.kafka.secret_ref is not None


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/../../secrets/b", "a/b", "a%2fb", "A", "a_b", "-a", "a-", "a..b", "a" * 254, "a?x=y", 5]
)
def test_a_name_that_no_object_has_is_a_fault_of_its_field(name: Any) -> None:
    with pytest.raises(ManifestError) as raised:
        manifest(name)
    fields = ("spec.code.configMapRef.name", "spec.kafka.secretRef.name", "spec.remoteState.secretRef.name")
    assert [line.partition(": ")[0] for line in raised.value.faults] == list(fields)
    assert all("expected the name of an object" in line for line in raised.value.faults)


def test_a_long_text_in_a_fault_is_read_once() -> None:
    """Words of a fault are looked up: with a step back for each letter this would take hours."""
    spec = {"topology": {"entrypoint": "a:b"}, "remoteState": {"url": "a" * 900_000}}
    with pytest.raises(ManifestError, match=r"spec\.remoteState"):
        decode({"apiVersion": "streamsapp.dev/v1alpha1", "kind": "StreamsApp", "metadata": {"name": "a"}, "spec": spec})
