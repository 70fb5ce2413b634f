"""A browser, and where its pictures go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from chromium import Page, chromium


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    with chromium(tmp_path / "profile") as opened:
        yield opened


@pytest.fixture
def shots(tmp_path: Path) -> Path:
    """The folder of the screenshots: one that the caller names, or one of the test's."""
    folder = Path(os.environ.get("STREAMSAPP_SCREENSHOTS", tmp_path / "shots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder
