"""Instances on the shared broker, under either guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from instances import Instances
from kafka import Kafka


@pytest.fixture
def instances(kafka: Kafka, tmp_path: Path) -> Iterator[Instances]:
    """Makes instances; what still runs after the test is closed."""
    made = Instances(kafka, tmp_path)
    yield made
    made.close()


@pytest.fixture(params=["exactly_once", "at_least_once"])
def guarantee(request: pytest.FixtureRequest) -> str:
    """Both processing guarantees."""
    name: str = request.param
    return name
