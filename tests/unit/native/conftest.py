"""The native data path, compiled once, and a broker of librdkafka's own in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import ModuleType

import pytest
from confluent_kafka import Producer

import data_paths


@pytest.fixture(scope="session")
def compiled() -> ModuleType:
    return data_paths.compiled()


@pytest.fixture(autouse=True)
def _mock_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    data_paths.mock_brokers(monkeypatch)


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """The address of a broker that makes every topic it hears of, with four partitions."""
    home = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": f"mock-{os.getpid()}"})
    [only] = home.list_topics(timeout=60).brokers.values()
    yield f"{only.host}:{only.port}"
    home.close()
