"""The library works with the oldest versions that it asks for."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: Tests of the parts that use the packages: databases, serializers, the clients of Kafka and S3.
TESTED = ("config", "kafka", "remote", "state", "tasks")
RUNS_TESTS = (
    "hypothesis",
    "kafka-python==3.0.12",
    "pg8000",
    "pydantic",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "trustme",
)

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
IN_DATABASE = "test_a_batch_whose_driver_was_killed_in_its_transaction_is_there_once_and_nothing_uncommitted"

#: Of Spark's part: what runs without Java, and one test of each way in.
ON_SPARK = (
    "tests/unit/spark",
    "tests/integration/spark/test_engine.py",
    "tests/integration/spark/test_bootstrap.py",
    "tests/integration/spark/test_audit.py",
    "tests/integration/spark/test_read.py",
    "tests/integration/spark/test_run_topology.py",
    "tests/integration/spark/test_delta.py",
    "tests/integration/spark/test_sinks.py",
    f"tests/integration/spark/test_database_sinks.py::{IN_DATABASE}",
)


def environment(folder: Path, *packages: str, extras: str = "s3") -> str:
    """The Python of an environment with this library, these extras and packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, f"{ROOT}[{extras}]", *packages], check=True)
    return python


def test_unit_tests_pass_with_the_oldest_versions(tmp_path: Path) -> None:
    asked = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["s3"]]
    python = environment(tmp_path / "venv", *oldest(asked), *RUNS_TESTS)
    passes(python, "-n", "2", "-m", "not long", *(f"tests/unit/{name}" for name in TESTED))


def test_the_spark_part_works_with_its_oldest_versions(tmp_path: Path) -> None:
    """Tables of Delta Lake and Iceberg are tried here alone as long as these have no release for the newest."""
    extras = ("s3", "spark", "registry")
    asked = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    python = environment(tmp_path / "venv", *oldest(asked), *RUNS_TESTS, extras=",".join(extras))
    version = [python, "-c", "import pyspark; print(pyspark.__version__)"]
    assert subprocess.run(version, capture_output=True, text=True, check=True).stdout.strip() == "4.0.0"
    passes(python, *ON_SPARK)


def oldest(asked: Iterable[str]) -> list[str]:
    return [re.sub(r">=([\d.]+).*", r"==\1", line) for line in asked]


def passes(python: str, *what: str) -> None:
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *what]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
