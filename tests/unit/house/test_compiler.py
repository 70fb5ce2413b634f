"""The set-up finds a compiler and Python's headers, or brings them, or says what to do."""

from __future__ import annotations

import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import compiler

PYTHON = Path(sys.executable)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all programs of a machine that has none."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    for name in ("CC", "CFLAGS"):
        monkeypatch.delenv(name, raising=False)
    return programs


def program(folder: Path, name: str, script: str = "") -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("name", ["cc", "gcc", "clang"])
def test_a_compiler_of_the_machine_is_taken(name: str, machine: Path, tmp_path: Path) -> None:
    program(machine, name)

    assert not compiler.is_missing()
    assert compiler.settings(PYTHON, tmp_path)["CC"] == name


def test_the_one_that_python_was_compiled_with_comes_before_others(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(machine, "cc")
    program(machine, "x86_64-linux-gnu-gcc")
    monkeypatch.setattr(sysconfig, "get_config_var", {"CC": "x86_64-linux-gnu-gcc -pthread"}.get)

    assert compiler.settings(PYTHON, tmp_path)["CC"] == "x86_64-linux-gnu-gcc -pthread"


def test_the_users_own_comes_first(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(machine, "cc")
    program(machine, "their-compiler")
    monkeypatch.setenv("CC", "their-compiler -m64")

    assert compiler.settings(PYTHON, tmp_path)["CC"] == "their-compiler -m64"


def test_where_there_is_none_that_of_pypi_is_taken_for_any_processor_of_the_kind(machine: Path, tmp_path: Path) -> None:
    assert compiler.is_missing()
    found = compiler.settings(Path("/with space/python"), tmp_path)
    assert shlex.split(found["CC"]) == ["/with space/python", "-m", "ziglang", "cc", "-mcpu=baseline"]
    assert found["LDSHARED"].startswith(found["CC"])
    assert found["ZIG_GLOBAL_CACHE_DIR"] == found["ZIG_LOCAL_CACHE_DIR"] == str(tmp_path / "zig")


def without_headers(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = sysconfig.get_path
    there = {"include": str(folder / "include" / "python3.99")}
    monkeypatch.setattr(sysconfig, "get_path", lambda name: there.get(name) or usual(name))


#: It stands for the archive of the distribution, as tests of every save have no network.
ARCHIVE = (
    'case "$*" in *download*) echo archive >headers.deb;; esac',
    '/bin/mkdir -p "$3/usr/include/python3.99" && : >"$3/usr/include/python3.99/Python.h"',
)


def test_headers_that_are_missing_come_from_the_distribution_once(
    machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_headers(tmp_path, monkeypatch)
    for name, script in zip(("apt-get", "dpkg-deb"), ARCHIVE, strict=True):
        program(machine, name, script)
    program(machine, "cc")

    found = compiler.settings(PYTHON, tmp_path)
    first, *_ = shlex.split(found["CFLAGS"])
    assert Path(first.removeprefix("-I"), "Python.h").is_file()
    (machine / "apt-get").unlink()
    assert compiler.settings(PYTHON, tmp_path) == found


@pytest.mark.parametrize(
    ("apt", "reason"),
    [(None, "No such file or directory: 'apt-get'"), ("echo 'E: no such package' >&2; exit 100", "E: no such package")],
    ids=["another distribution", "not in its archive"],
)
def test_headers_that_cannot_be_had_are_asked_for(
    apt: str | None, reason: str, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_headers(tmp_path, monkeypatch)
    program(machine, "cc")
    if apt is not None:
        program(machine, "apt-get", apt)

    with pytest.raises(compiler.NoHeadersError) as refused:
        compiler.settings(PYTHON, tmp_path)
    package = f"libpython{sys.version_info.major}.{sys.version_info.minor}-dev"
    assert reason in str(refused.value)
    assert str(refused.value).endswith(f"    sudo apt-get install -y {package}")
    assert list((tmp_path / "python-headers").iterdir()) == []


def test_a_python_that_it_is_not_for_is_refused_when_it_is_built() -> None:
    program = (
        "import sysconfig; from pathlib import Path; import hatch_build\n"
        "sysconfig.get_config_var = {'Py_GIL_DISABLED': 1}.get; hatch_build.compile_module(Path(), Path())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=compiler.ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("streamsapp is for CPython with its lock, and this is 3.")
