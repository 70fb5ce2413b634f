"""Drivers that are closed after the test."""

from __future__ import annotations

from typing import Any

import pytest

from driven import Drive, Driven
from streamsapp import (
    Topology,
)


@pytest.fixture
def drive(request: pytest.FixtureRequest) -> Drive:
    def make(topology: Topology, **settings: Any) -> Driven:
        driven = Driven(topology, **settings)
        request.addfinalizer(driven.driver.close)
        return driven

    return make
