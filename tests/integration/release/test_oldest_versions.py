"""The library works with the oldest versions that it asks for."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: Tests of the parts that use the packages: databases, serializers, the clients of Kafka and S3.
TESTED = ("config", "kafka", "remote", "state", "tasks")
RUNS_TESTS = ("hypothesis", "kafka-python==3.0.12", "pydantic", "pytest", "pytest-timeout", "pytest-xdist", "trustme")

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]


def environment(folder: Path, *packages: str) -> str:
    """The Python of an environment with this library, its extra ``s3`` and these packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"{ROOT}[s3]", *packages], check=True)
    return python


def test_unit_tests_pass_with_the_oldest_versions(tmp_path: Path) -> None:
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["s3"]]
    oldest = [re.sub(r">=([\d.]+).*", r"==\1", line) for line in asked]
    python = environment(tmp_path / "venv", *oldest, *RUNS_TESTS)
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2", "-m", "not long"]
    folders = [f"tests/unit/{name}" for name in TESTED]
    done = subprocess.run([*command, *folders], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
