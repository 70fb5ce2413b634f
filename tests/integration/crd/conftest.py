"""An API server that knows the StreamsApp resource, and applications to try on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from api_server import ApiServer
from stream_apps import Applications

ROOT = Path(__file__).resolve().parents[3]
CRD = ROOT / "crds" / "streamsapps.yaml"


@pytest.fixture(scope="session")
def cluster(api_server: ApiServer) -> ApiServer:
    """With the CRD, and with its validation at work."""
    api_server.define(CRD)
    return api_server


@pytest.fixture
def namespace(cluster: ApiServer) -> str:
    return cluster.namespace("apps", {"pod-security.kubernetes.io/enforce": "restricted"})


@pytest.fixture
def applications(cluster: ApiServer, namespace: str) -> Iterator[Applications]:
    with cluster.client() as api:
        yield Applications(api, namespace)
