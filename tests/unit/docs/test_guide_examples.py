"""The guide is a program: its Python blocks run as they stand, top to bottom."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from streamsapp import StreamsRuntime, Topology, UncaughtExceptionResponse
from streamsapp.manifest import load
from streamsapp.manifest.entrypoint import load_topology

DOCS = Path(__file__).resolve().parents[3] / "docs"
GUIDE = DOCS / "guide.md"


def blocks(language: str) -> list[tuple[int, str]]:
    """Line number and text of every block in a language."""
    page = GUIDE.read_text("utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [(page.count("\n", 0, match.start()) + 2, match.group(1)) for match in found]


@pytest.fixture(scope="module")
def guide() -> dict[str, Any]:
    """The names that the guide's blocks define; a block that fails is shown with its line on the page."""
    program = ModuleType("guide")
    for line, text in blocks("python"):
        exec(compile("\n" * (line - 1) + text, str(GUIDE), "exec"), program.__dict__)  # noqa: S102 - our own page
    return program.__dict__


def test_every_block_of_the_guide_runs(guide: dict[str, Any]) -> None:
    assert isinstance(guide["word_count"](), Topology)
    assert isinstance(guide["runtime"], StreamsRuntime)


def test_the_guides_exception_handler_retries_only_what_may_pass(guide: dict[str, Any]) -> None:
    handler: Callable[[Exception], UncaughtExceptionResponse] = guide["on_uncaught"]
    passing, lasting = RuntimeError("record 7"), RuntimeError("record 8")
    passing.__cause__, lasting.__cause__ = ConnectionResetError(), ValueError()

    assert handler(passing) is UncaughtExceptionResponse.REPLACE_THREAD
    assert handler(lasting) is UncaughtExceptionResponse.SHUTDOWN_CLIENT


def test_the_guides_manifest_finds_the_guides_topology(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    ((_, manifest),) = blocks("yaml")
    (tmp_path / "app.yaml").write_text(manifest, encoding="utf-8")
    (tmp_path / "app.py").write_text(blocks("python")[0][1], encoding="utf-8")

    topology = load_topology(load(tmp_path / "app.yaml"), tmp_path)

    assert "topics: [lines]" in str(topology.describe())


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8"))

    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_the_source_map_names_every_room_of_the_runtime() -> None:
    named = set(re.findall(r"`(\w+)/`", (DOCS / "architecture.md").read_text("utf-8")))
    rooms = {path.parent.name for path in (DOCS.parent / "runtime" / "streamsapp").glob("*/__init__.py")}

    assert rooms <= named


@pytest.mark.parametrize("page", ["architecture.md", "decisions"])
def test_files_that_are_named_exist(page: str) -> None:
    pages = [DOCS / page] if page.endswith(".md") else sorted((DOCS / page).glob("*.md"))
    runtime = DOCS.parent / "runtime" / "streamsapp"
    named = {name for each in pages for name in re.findall(r"`([a-z_]+/[a-z_]+\.py)`", each.read_text("utf-8"))}

    assert named
    assert [name for name in sorted(named) if not (runtime / name).is_file()] == []
