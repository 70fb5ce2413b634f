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


#: Words whose sentences a stranger reads twice: they hide who acts.
VAGUE = re.compile(r"\b(whoever|somebody|nobody|those\s+that|of\s+which|tells|is\s+told)\b", re.IGNORECASE)
#: How many of them a page has left. A page that loses some has less here, too, so no page gets more.
VAGUE_LEFT: dict[str, int] = {}


def sentences(page: Path) -> str:
    """All of a page but code blocks, headings and the tables that `make definitions` makes."""
    lines, code, made = [], False, False
    for line in page.read_text("utf-8").splitlines():
        if line.lstrip().startswith("```"):
            code = not code
        elif line.startswith("<!-- made by"):
            made = True
        elif line and not code and not line.startswith(("#", "|")):
            made = False
        if not (code or line.startswith("#") or (made and line.startswith("|"))):
            lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_say_who_acts(page: Path) -> None:
    found = VAGUE.findall(sentences(page))
    assert len(found) == VAGUE_LEFT.get(page.relative_to(ROOT).as_posix(), 0), found
