"""The first application of the README is what a newcomer types: it must work as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

from streamsapp import Serdes
from streamsapp.manifest import load
from streamsapp.manifest.entrypoint import load_topology
from streamsapp.testing import TopologyTestDriver

README = Path(__file__).resolve().parents[3] / "README.md"


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    assert found, f"README.md shows no {language}"
    return found.group(1)


def test_the_first_application_counts_visits(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(block("python"), encoding="utf-8")
    (tmp_path / "hello.yaml").write_text(block("yaml"), encoding="utf-8")
    topology = load_topology(load(tmp_path / "hello.yaml"), tmp_path)

    with TopologyTestDriver(topology) as driver:
        visits = driver.create_input_topic("visits", Serdes.string(), Serdes.string())
        totals = driver.create_output_topic("totals", Serdes.string(), Serdes.long())
        visits.pipe_input("jane", "/")
        visits.pipe_input("jane", "/about")

        assert [(record.key, record.value) for record in totals.read_records()] == [("jane", 1), ("jane", 2)]


def test_what_the_readme_links_to_is_there() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", README.read_text("utf-8"))
    assert len(targets) > 20
    assert [target for target in targets if not (README.parent / target).exists()] == []
