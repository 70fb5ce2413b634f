"""Manifests of unit tests. Called by the tests of the manifest and of the command line."""

from __future__ import annotations

from typing import Any

from streamsapp.manifest import StreamsApp, decode


def app(**spec: Any) -> StreamsApp:
    """An application with this in its spec, beside what it must have."""
    return decode({
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "wordcount"},
        "spec": {"topology": {"entrypoint": "a:b"}, "kafka": {"bootstrapServers": "kafka:9092"}} | spec,
    })  # fmt: skip
