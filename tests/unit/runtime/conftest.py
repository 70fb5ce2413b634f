"""An object store, the owner of a task that publishes there, and the heir that restores from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_objects import MemoryObjects
from snapshotting import Heir, Owner, SnapshotThreads


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.fixture
def owner(tmp_path: Path, objects: MemoryObjects) -> Owner:
    return Owner(tmp_path / "owner", objects)


@pytest.fixture
def heir(tmp_path: Path, objects: MemoryObjects) -> Iterator[Heir]:
    made = Heir(tmp_path / "heir", objects)
    yield made
    made.close()


@pytest.fixture
def threads(owner: Owner) -> Iterator[SnapshotThreads]:
    made = SnapshotThreads(owner)
    yield made
    made.stop()
