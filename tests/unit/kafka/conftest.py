"""Producers over a client that fails as the test wants it to."""

from __future__ import annotations

from typing import Any

import pytest

from fetching_parts import hurried, read, stack, start
from producer_parts import (
    FakeClient,
    Producing,
)
from streamsapp.kafka.librdkafka import producer as module

__all__ = ["hurried", "read", "stack", "start"]  # fixtures


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()

    def make(properties: dict[str, Any], logger: object) -> FakeClient:
        fake.properties = properties
        return fake

    monkeypatch.setattr(module, "Producer", make)
    monkeypatch.setattr(module, "group_metadata", lambda member: member)
    monkeypatch.setattr("streamsapp.kafka.retry.FIRST_PAUSE", 0.0)
    return fake


@pytest.fixture
def once(client: FakeClient) -> Producing:
    return Producing(client, exactly_once=True)


@pytest.fixture
def least(client: FakeClient) -> Producing:
    return Producing(client)
