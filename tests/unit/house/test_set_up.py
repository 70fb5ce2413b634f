"""What the set-up of a development machine tells when it cannot go on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import set_up


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
