"""The words of the set-up of a development machine when it cannot go on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import set_up
from terminal import step

ROOT = Path(__file__).resolve().parents[3]


def test_names_the_one_command_where_packages_cannot_be_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(set_up.SetupError, match=r"type this once, then try again:\n    brew install java"):
        set_up.refresh_package_lists(instead="brew install java")


def test_names_the_one_command_to_a_user_who_is_not_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apt-get").write_text("#!/bin/sh\n", encoding="utf-8")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(set_up.SetupError, match="sudo apt-get install -y maven"):
        set_up.refresh_package_lists(instead="sudo apt-get install -y maven")


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(set_up.SetupError, match=r"sh -c .*\nno space left"):
        set_up.run(["sh", "-c", "echo no space left; exit 3"])


def test_parts_are_set_up_before_anything_is_installed() -> None:
    """Each beside the others: all modules they import are in this tree or in the standard library."""
    code = "import set_up, versitygw; from cluster import binaries; from streamsapp.local import jars, java"
    path = os.pathsep.join(str(ROOT / name) for name in ("tools", "runtime"))
    command = [sys.executable, "-S", "-c", code]
    answer = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr


def test_each_of_several_steps_at_a_time_has_a_line_with_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    with step("downloading"):
        with step("compiling"):
            pass
        begun, compiled = capsys.readouterr().out.splitlines()
    assert begun.split() == ["downloading"]
    assert re.fullmatch(r"  compiling +\d+\.\d s", compiled)
    assert re.fullmatch(r"  downloading +\d+\.\d s\n", capsys.readouterr().out)
