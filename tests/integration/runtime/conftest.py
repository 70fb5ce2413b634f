"""What tests of instances break."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


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
