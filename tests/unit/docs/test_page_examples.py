"""Every page is a program: its Python blocks run as they stand, top to bottom. Blocks marked ``py`` are the code of
other systems, beside which ours stands."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import MagicMock, create_autospec

import pyspark.sql
import pytest
import yaml

import streamsapp_spark
from release import project_version
from streamsapp.manifest import decode
from streamsapp.manifest.mounts import CODE_DIR

DOCS = Path(__file__).resolve().parents[3] / "docs"
#: Tests of their own run the blocks of these, and look at what they define. Those of the last two need Spark.
ELSEWHERE = {"guide.md", "serdes.md", "declared.md", "spark.md", "pyspark.md"}


def blocks(page: Path, language: str = "python") -> list[tuple[int, str]]:
    """Line number and text of every block of a language."""
    text = page.read_text("utf-8")
    found = re.finditer(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [(text.count("\n", 0, match.start()) + 2, match.group(1)) for match in found]


PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.name not in ELSEWHERE and blocks(page)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_every_block_of_a_page_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = ModuleType("page")
    monkeypatch.setitem(sys.modules, program.__name__, program)  # annotations of dataclasses are looked up there
    for line, text in blocks(page):
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), program.__dict__)  # noqa: S102 - our own page


def test_pyspark_programs_have_topologies_that_build_and_the_functions_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    specs = {name: create_autospec(getattr(streamsapp_spark, name)) for name in streamsapp_spark.__all__}
    for name, spec in specs.items():
        monkeypatch.setattr(streamsapp_spark, name, spec, raising=False)
    monkeypatch.setattr(pyspark.sql, "SparkSession", MagicMock())  # it would start Java
    program: dict[str, object] = {}
    for line, text in blocks(DOCS / "pyspark.md"):
        exec(compile("\n" * (line - 1) + text, "pyspark.md", "exec"), program)  # noqa: S102 - our own page

    assert all(spec.called for spec in specs.values())
    ((topology, inputs), _) = specs["run_topology"].call_args
    read = {topic for each in topology.sub_topologies() for source in each.sources for topic in source.topics}
    assert inputs.keys() == read - {
        topic.name for each in topology.sub_topologies() for topic in each.repartition_sources
    }


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_blocks_say_what_they_are_in(page: Path) -> None:
    named = set(re.findall(r"^```(.*)$", page.read_text("utf-8"), re.MULTILINE))
    assert named <= {"", "python", "py", "java", "yaml", "sh", "dockerfile", "mermaid", "promql", "sql"}


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (page.name, text)
        for page in sorted(DOCS.glob("*.md"))
        for _, text in blocks(page, "yaml")
        if page.name != "declared.md"
    ],
)
def test_manifests_and_their_parts_are_valid(page: str, text: str) -> None:
    part = yaml.safe_load(text)
    spec = {"topology": {"entrypoint": "app:topology"}} | part.get("spec", {} if "kind" in part else part)
    document = {
        "apiVersion": "streamsapp.dev/v1alpha1",
        "kind": "StreamsApp",
        "metadata": {"name": "app"},
        "spec": spec,
    }
    decode(document)  # raises with every fault


@pytest.mark.parametrize("page", sorted(DOCS.glob("migration/*.md")), ids=lambda page: page.stem)
def test_a_guide_for_migration_shows_both_sides(page: Path) -> None:
    text = page.read_text("utf-8")
    assert re.search(r"^```(py|java)$", text, re.MULTILINE)
    assert "TopologyTestDriver(" in "".join(block for _, block in blocks(page))


def test_the_tutorial_shows_the_topology_that_a_new_project_has() -> None:
    template = DOCS.parent / "runtime" / "streamsapp" / "cli" / "templates" / "word-count" / "topology.py"
    assert blocks(DOCS / "tutorial.md")[0][1] == template.read_text("utf-8")


def test_the_image_of_ones_own_is_one_of_this_version_with_code_where_pods_look_for_it() -> None:
    ((_, block),) = blocks(DOCS / "index.md", "dockerfile")
    base, root, _, code, user = block.splitlines()
    runtime = (DOCS.parent / "images" / "runtime.Dockerfile").read_text("utf-8").splitlines()

    assert base.endswith(f"/streamsapp-runtime:{project_version()}")
    assert (root, user) == ("USER 0", runtime[-1])
    assert code == f"COPY *.py {CODE_DIR}/"
