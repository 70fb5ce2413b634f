"""How the documentation is written."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
WIDTH = 120


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Lines outside of code blocks, tables and headings."""
    code = False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.lstrip().startswith(("|", "#")):
            yield number, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_prose_is_wrapped(page: Path) -> None:
    assert [number for number, line in prose(page) if len(line) > WIDTH and " " in line.strip()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_papers_are_named_and_not_numbered(page: Path) -> None:
    assert [number for number, line in prose(page) if re.search(r"\bseed 0\d\d\b", line)] == []
