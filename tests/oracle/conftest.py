"""One Kafka Streams for all tests of this folder, and the folder's own modules on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from oracle import Oracle
from streamsapp import native


@pytest.fixture(autouse=True)
def data_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs every other program with the parts of tasks that are in C, where they can be had: a test driver, which makes
    no client, has nothing compiled by itself."""
    case = getattr(request.node, "callspec", None)
    seed = 0 if case is None else case.params.get("seed", 0)
    chosen = native.data_path_at_hand() if seed % 2 else None
    monkeypatch.setattr(native, "data_path_at_hand", lambda: chosen)


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """A running Kafka Streams; its jars are fetched and its program compiled on first use."""
    with Oracle() as running:
        yield running
