"""One Kafka Streams for all tests of this folder, and the folder's own modules on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from models import in_python
from oracle import Oracle


@pytest.fixture(autouse=True)
def models_too(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs one program in four with the models of the parts in C, which have to be right, too."""
    case = getattr(request.node, "callspec", None)
    if case is not None and case.params.get("seed", 1) % 4 == 0:
        in_python(monkeypatch)


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """A running Kafka Streams; its jars are fetched and its program compiled on first use."""
    with Oracle() as running:
        yield running
