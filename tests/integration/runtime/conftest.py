"""Instances on the shared broker, under either guarantee."""

from __future__ import annotations

import os
import subprocess
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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with room for a few megabytes."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system takes root")
    directory = tmp_path / "small-disk"
    directory.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(directory)], check=True)
    yield directory
    subprocess.run(["umount", "--lazy", str(directory)], check=True)
