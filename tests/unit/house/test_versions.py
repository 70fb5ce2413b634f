"""The version of pyproject.toml is the only one: every repetition has the same."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from release import project_version

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: An image or a wheel of this project with a version; a version that stands for the reader's own has two parts.
OF_THE_PROJECT = re.compile(r"streamsapp(?:-operator|-runtime|-spark)?[:-](\d+\.\d+\.\d+)")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCKS = [ROOT / "requirements.lock", *sorted((ROOT / "images").glob("*.lock"))]


def test_pages_name_images_and_wheels_of_this_version() -> None:
    named = {version for page in PAGES for version in OF_THE_PROJECT.findall(page.read_text("utf-8"))}
    assert named == {project_version()}


def requirements() -> list[str]:
    extras = (line for name, lines in PROJECT["optional-dependencies"].items() if name != "dev" for line in lines)
    return sorted({*PROJECT["dependencies"], *extras})


@pytest.mark.parametrize("requirement", requirements())
def test_the_library_asks_for_ranges_that_begin_somewhere(requirement: str) -> None:
    assert re.fullmatch(r"[\w-]+>=[\d.]+(,<[\d.]+)?", requirement)


def test_a_package_has_the_same_version_in_every_lock() -> None:
    found: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, version in re.findall(r"^([\w.-]+)==([^\s;]+)", lock.read_text("utf-8"), re.MULTILINE):
            found.setdefault(name, set()).add(version)
    assert {name: versions for name, versions in found.items() if len(versions) > 1} == {}
