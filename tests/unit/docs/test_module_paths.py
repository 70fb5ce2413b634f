"""Modules and tests that the documentation names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("runtime/streamsapp", "operator/streamsapp_operator", "spark/streamsapp_spark")
PATH = re.compile(r"`((?:\w+/)+\w+\.py)`")


def _title(section: str) -> str:
    return section.partition("\n")[0]


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: page.stem)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    named = PATH.findall(page.read_text())
    places = [ROOT, ROOT / "benchmarks", page.parent, *(ROOT / package for package in PACKAGES)]

    assert [path for path in named if not any((place / path).is_file() for place in places)] == []


@pytest.mark.parametrize("section", (ROOT / "docs" / "departures.md").read_text().split("\n## ")[1:], ids=_title)
def test_every_departure_from_kafka_streams_has_a_program_that_shows_it(section: str) -> None:
    modules, names = PATH.findall(section), re.findall(r"`(test_\w+)`", section)
    programs = "\n".join((ROOT / module).read_text() for module in modules)

    assert modules
    assert [name for name in names if f"def {name}(" not in programs] == []
