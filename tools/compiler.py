"""Finds or brings a compiler and Python's headers, for the C part.

Called by ``set_up.py``, by the system's Python, before the project is installed. A compiler comes from PyPI, as Java
comes from the distribution: locked, into the environment. Headers come from the distribution that the interpreter is
of, checked by its own tools, into the cache; that needs no root.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import suppress
from pathlib import Path

from terminal import step

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements-compiler.lock"
#: In the order in which they are taken if the one that Python was compiled with is not here.
COMPILERS = ("cc", "gcc", "clang")


class NoHeadersError(Exception):
    """Python's headers are not here and cannot be brought; says why, and the remedy."""


def is_missing() -> bool:
    """Says whether the machine has no compiler, so that ``LOCK`` is needed."""
    return _named() is None


def settings(python: Path, cache: Path) -> dict[str, str]:
    """Returns the environment that setuptools compiles in. ``python`` is the interpreter that ``LOCK`` is installed
    for, if it is. Raises ``NoHeadersError``."""
    named = _named()
    found = {"CC": named} if named else zig(python, cache)
    if flags := _header_flags(cache):
        found["CFLAGS"] = f"{os.environ.get('CFLAGS', '')} {flags}"
    return found


def zig(python: Path, cache: Path, *options: str) -> dict[str, str]:
    """The same for PyPI's compiler, for any processor of the kind. The parts of C's own library that it compiles are
    kept with the downloads."""
    command = shlex.join([str(python), "-m", "ziglang", "cc", "-mcpu=baseline", *options])
    folders = {f"ZIG_{scope}_CACHE_DIR": str(cache / "zig") for scope in ("GLOBAL", "LOCAL")}
    # The command of Debian's Python to link has options that zig does not know; -s: what debuggers need is left out.
    return {"CC": command, "LDSHARED": f"{command} -shared -s", **folders}


def _named() -> str | None:
    """The user's own, that of this Python, or any."""
    for command in (os.environ.get("CC"), sysconfig.get_config_var("CC"), *COMPILERS):
        if command and shutil.which(command.split()[0]):
            return str(command)
    return None


def _header_flags(cache: Path) -> str:
    """Returns the options by which the compiler finds Python's headers; they are brought if they are not installed."""
    usual = Path(sysconfig.get_path("include"))
    if (usual / "Python.h").exists():
        return ""
    root = cache / "python-headers" / f"{sys.version.split()[0]}-{sysconfig.get_config_var('MULTIARCH')}"
    if not root.is_dir():
        with step("Python's headers"):
            _bring_headers(root)
    include = root / "usr" / "include"
    return f"-I{include / usual.name} -I{include}"  # the second one has what differs between processors


def _bring_headers(root: Path) -> None:
    """The headers of Debian's and Ubuntu's Python."""
    package = f"libpython{sys.version_info.major}.{sys.version_info.minor}-dev"
    try:
        _download(package, root)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()
        raise NoHeadersError(
            f"Python's headers are needed to compile, and {sysconfig.get_path('include')}/Python.h is not there "
            f"({reason}); type this once, or what your system has in its place, then try again:\n"
            f"    sudo apt-get install -y {package}"
        ) from error


def _download(package: str, root: Path) -> None:
    """With lists of packages of its own, as those of the system are root's and may be missing or old."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=root.parent) as name:
        folder = Path(name)
        (folder / "lists" / "partial").mkdir(parents=True)
        apt = ["apt-get", "-qq", f"-oDir::State::lists={folder / 'lists'}", f"-oDir::Cache={folder}"]
        _run([*apt, "update"], folder)
        _run([*apt, "download", package], folder)
        [archive] = folder.glob("*.deb")
        _run(["dpkg-deb", "--extract", archive.name, "unpacked"], folder)
        with suppress(OSError):  # another clone was faster
            (folder / "unpacked").rename(root)


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
