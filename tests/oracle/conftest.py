"""One Kafka Streams for all tests of this folder, and the folder's own modules on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from oracle import Oracle


@pytest.fixture(scope="session")
def oracle() -> Iterator[Oracle]:
    """A running Kafka Streams; its jars are fetched and its program compiled on first use."""
    with Oracle() as running:
        yield running
