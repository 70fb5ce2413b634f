"""The commands a contributor types: each sets up its parts, runs its tests, and reports tests that it cannot run."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

import complete_python
from isolated_home import users_environment
from streamsapp.cache_folder import CACHE_VARIABLE, cache_dir

ROOT = Path(__file__).resolve().parents[3]


def collected(*options: str) -> list[str]:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/unit/state/test_cells.py", *options]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [line for line in answer.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("unit", " development"),
        ("check", " development"),
        ("demo", " broker"),
        ("demo-bootstrap", " development jdk object-store"),
        ("demo-spark", " development jdk object-store"),
        ("docs", " docs"),
    ],
)
def test_nothing_is_set_up_that_a_target_does_not_need(target: str, parts: str) -> None:
    answer = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=True)
    [setup] = [line for line in answer.stdout.splitlines() if "tools/set_up.py" in line]
    assert setup.rpartition("tools/set_up.py")[2] == parts


def test_no_process_of_a_target_compiles_what_another_has_compiled() -> None:
    command = ["make", "--silent", "--eval", "environment: ; @env", "environment"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert "PATH=" in answer.stdout
    assert "PYTHONDONTWRITEBYTECODE" not in answer.stdout


def test_the_python_of_an_active_environment_is_taken(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.symlink_to(sys.executable)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON" and "MAKE" not in name}
    environment |= {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "VIRTUAL_ENV": str(tmp_path)}
    command = ["make", "--silent", "--eval", "found: ; @echo $(PYTHON)", "found"]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(python)


def test_a_python_without_headers_does_not_compile_and_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert complete_python.is_complete()
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path / "none"))
    assert not complete_python.is_complete()


def test_tests_see_nothing_of_the_users_folders() -> None:
    users = users_environment()
    ours = Path.home().parent
    assert Path(tempfile.gettempdir()).parent == ours
    assert all(Path(os.environ[name]).is_relative_to(ours) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME"))
    assert not Path(users["HOME"]).is_relative_to(ours)
    assert not cache_dir().is_relative_to(ours), "downloads are not made again"


def test_every_test_is_in_one_part() -> None:
    whole = collected()
    parts = [collected("--part", f"{number}/3") for number in (1, 2, 3)]
    assert sorted(test for part in parts for test in part) == sorted(whole)
    assert all(part for part in parts)


def test_a_seed_brings_other_seeds_and_more_of_them() -> None:
    usual, others = set(collected("-m", "seeds")), set(collected("-m", "seeds", "--seed", "7"))
    assert usual
    assert not usual & others
    assert len(others) == 5 * len(usual)


def test_without_root_the_other_tests_run_and_one_line_for_each_reason_tells_which_do_not(tmp_path: Path) -> None:
    nobody = ["unshare", "--user"] if os.geteuid() == 0 else []
    if subprocess.run([*nobody, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("the kernel makes no user here who is not root")
    tests = ("tests/cluster/node", "tests/integration/supervisor/test_read_only.py", "tests/unit/state/test_cells.py")
    # A cache of its own: in the usual one tests of the cluster wait for each other.
    environment = {**os.environ, CACHE_VARIABLE: str(tmp_path)}
    command = [*nobody, sys.executable, "-m", "pytest", "-q", *tests]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout
    told = re.findall(r"^not run here: \d+ tests?: ([\w ]+)", answer.stdout, re.MULTILINE)
    assert told == ["a Kubernetes node is brought up by root", "only root may mount file systems"]
    assert re.search(r"\d+ passed, \d+ skipped", answer.stdout)


def test_continuous_integration_runs_the_tests_and_a_part_of_the_long_ones_that_changes(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text("utf-8"), encoding="utf-8")
    (tmp_path / "Makefile").write_text(
        "test:\n\t@echo tested\nfuzz:\n\t@echo fuzzed $(MINUTES)\ntest-long:\n\t@echo long $(PART) $(SEED) $(LOAD)\n"
    )
    (tmp_path / "dpkg").write_text("#!/bin/sh\n", encoding="utf-8")  # all is installed
    (tmp_path / "dpkg").chmod(0o755)
    parts = []
    # A make that runs within another one prints the folders that it enters.
    outside_of_make = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    for hour in (500_000, 500_001, 500_047, 500_048):
        (tmp_path / "date").write_text(f"#!/bin/sh\necho {3600 * hour + 1}\n", encoding="utf-8")
        (tmp_path / "date").chmod(0o755)
        environment = {**outside_of_make, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
        command = ["sh", str(tmp_path / ".ci" / "run")]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        tested, fuzzed, repeats, long = answer.stdout.splitlines()
        assert (tested, fuzzed) == ("tested", "fuzzed 1")
        part, seed, load = long.removeprefix("long ").split()
        assert repeats == f"make test-long LOAD={load} PART={part} SEED={seed}"
        parts.append(part)
    assert parts == ["33/48", "34/48", "32/48", "33/48"]
    assert ".ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")


def test_the_tests_of_a_group_run_in_one_process() -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadscope", "-v", "tests/unit/cluster"]
    answer = subprocess.run(command, cwd=ROOT, env=users_environment(), capture_output=True, text=True, check=True)
    ran = {
        (line.split("::")[0].split()[-1], line.split("]")[0]) for line in answer.stdout.splitlines() if "PASSED" in line
    }
    files = [file for file, _ in ran]
    assert len(files) == len(set(files)) > 1
