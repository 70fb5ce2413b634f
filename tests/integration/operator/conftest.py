"""An operator at work in a namespace of its own, on a real API server and a simulated node."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from api_server import ApiServer
from operator_process import LONG_LEASE, OperatorProcess
from operator_world import World, running


@pytest.fixture
def own_api_server(tmp_path: Path) -> Iterator[ApiServer]:
    """A running API server for one test, which may stop, freeze and restart it."""
    with ApiServer(tmp_path / "api-server") as running:
        yield running


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator keeps its Lease on a busy machine."""
    monkeypatch.setattr("operator_world.OperatorProcess", partial(OperatorProcess, lease_seconds=LONG_LEASE))


@pytest.fixture
def world(steady: None, api_server: ApiServer, tmp_path: Path) -> Iterator[World]:
    """On the API server that all tests share."""
    yield from running(api_server, tmp_path)


@pytest.fixture
def own_world(steady: None, own_api_server: ApiServer, tmp_path: Path) -> Iterator[World]:
    """With an API server that the test may stop."""
    yield from running(own_api_server, tmp_path)
