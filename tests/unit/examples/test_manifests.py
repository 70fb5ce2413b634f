"""The manifests of the examples say what the files beside them say."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsapp.manifest import load
from streamsapp.manifest.entrypoint import load_topology

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
NAMES = ["wordcount", "wordcount-snapshots", "bootstrap-wordcount", "wordcount-spark"]
WORD_COUNT = (EXAMPLES / "wordcount" / "wordcount.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_code_in_the_manifest_is_the_file_that_people_read(name: str) -> None:
    assert load(EXAMPLES / name / "streamsapp.yaml").spec.code.files == {"wordcount.py": WORD_COUNT}


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_needs_nothing_but_itself_to_load_its_topology(name: str, tmp_path: Path) -> None:
    app = load(EXAMPLES / name / "streamsapp.yaml")

    assert app.spec.image is None
    assert "Sub-topology: 0" in str(load_topology(app, tmp_path).describe())
