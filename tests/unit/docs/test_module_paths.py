"""Modules that the documentation names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("runtime/streamsapp", "operator/streamsapp_operator", "spark/streamsapp_spark")
PATH = re.compile(r"`((?:\w+/)+\w+\.py)`")


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: page.stem)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = PATH.findall(page.read_text())
    places = [ROOT, ROOT / "benchmarks", page.parent, *(ROOT / package for package in PACKAGES)]

    assert [path for path in named if not any((place / path).is_file() for place in places)] == []
