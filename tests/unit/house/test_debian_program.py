"""``tools/debian_program.py``: without the package, for any reason, tests are left out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import debian_program


@pytest.mark.parametrize(
    "error", [subprocess.TimeoutExpired("apt-get", 300), subprocess.CalledProcessError(100, "apt-get")]
)
def test_a_package_that_cannot_be_fetched_leaves_no_program_and_nothing_half_done(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(debian_program, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr("shutil.which", {"apt-get": "/usr/bin/apt-get"}.get)
    monkeypatch.setattr("subprocess.run", fails)
    assert debian_program.promtool() is None
    assert list(tmp_path.iterdir()) == []
