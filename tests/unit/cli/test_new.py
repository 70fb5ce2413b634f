"""``streamsapp new``: projects that work as they are written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from streamsapp.cli.main import main
from streamsapp.cli.new import TEMPLATES, requirement

COMMANDS = ("README.md", "app.yaml", "requirements.txt", "test_topology.py", ".gitignore")


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "topology", raising=False)


@pytest.mark.parametrize(
    "template", ["joins", *(pytest.param(each, marks=pytest.mark.long) for each in TEMPLATES if each != "joins")]
)
def test_a_project_passes_its_own_test(template: str, tmp_path: Path) -> None:
    assert main(["new", "mine", "--template", template]) == 0
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(
        command, cwd=tmp_path / "mine", env=environment, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
    assert "1 passed" in run.stdout


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_project_is_valid_and_names_its_application(
    template: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["new", f"my-{template}", "--template", template]) == 0
    folder = tmp_path / f"my-{template}"
    assert set(COMMANDS) <= {each.name for each in folder.iterdir()}
    written = "".join(each.read_text() for each in folder.iterdir())
    assert ("__NAME__" in written, "__STREAMSAPP__" in written) == (False, False)
    capsys.readouterr()
    assert main(["validate", "-f", str(folder / "app.yaml")]) == 0
    assert f": OK: my-{template}, " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("direct_url", "line"),
    [
        (None, "streamsapp==1.2.3"),
        ('{"url": "file:///a%20b/x.whl", "archive_info": {}}', "streamsapp @ file:///a%20b/x.whl"),
        ('{"url": "https://host/x.whl", "archive_info": {}}', "streamsapp @ https://host/x.whl"),
        ('{"url": "file:///a%20b/clone", "dir_info": {}}', "streamsapp @ file:///a%20b/clone"),
        ('{"url": "file:///a%20b/clone", "dir_info": {"editable": true}}', "-e /a b/clone"),
    ],
)
def test_a_project_asks_for_the_library_where_it_was_installed_from(direct_url: str | None, line: str) -> None:
    assert requirement("1.2.3", direct_url) == line


@pytest.mark.parametrize("name", ["My_App", "a" * 64, "-a"])
def test_a_name_that_no_application_may_have_is_refused_and_nothing_is_written(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["new", "--", name]) == 2
    assert capsys.readouterr().err.startswith(f"{name}: ")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_left_as_it_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert main(["new", "mine"]) == 2
    assert capsys.readouterr().err == "mine: is there already; choose another name, or remove it\n"
    assert list((tmp_path / "mine").iterdir()) == []


def test_programs_are_told_what_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "mine", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["folder"], told["template"]) == ("mine", "word-count")
    assert set(COMMANDS) < set(told["files"])
