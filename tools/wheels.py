"""Builds the wheels of a release from its source archive: one for each Python and each processor.

Called by ``release.py``. As a program, for ``make wheel``, it builds the one of this tree for this Python. A Python
builds its own, with its own headers, in an environment of its own; PyPI's compiler makes them for both processors, with
no newer part of C's library than ``GLIBC``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import compiler
from streamsapp.cache_folder import cache_dir

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROCESSORS = ("x86_64", "aarch64")
#: Debian 10, Ubuntu 20.04 and RHEL 8 have at least this.
GLIBC = "2.28"
_PLACES = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_config_var('MULTIARCH'))"
_HAS_HEADERS = (
    "import sys, sysconfig; from pathlib import Path; "
    "sys.exit(f'{sys.version_info[0]}.{sys.version_info[1]}' != sys.argv[1] "
    "or not Path(sysconfig.get_path('include'), 'Python.h').exists())"
)


def main() -> int:
    out = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **compiler.settings(Path(sys.executable), cache_dir())}
        options = ["--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", folder]
        _pip(sys.executable, "wheel", *options, str(ROOT), environment=environment)
        [made] = Path(folder).iterdir()
        out.mkdir(exist_ok=True)
        for older in out.glob("streamsapp-*.whl"):
            older.unlink()
        wheel = shutil.move(made, out)
    print(f"in an environment of your own, type:  pip install '{wheel}[local]'")
    return 0


def build_wheels(source: Path, out: Path, versions: Sequence[str], environment: Mapping[str, str]) -> None:
    """Writes the wheels of those ``versions`` of Python that are found, and prints which are not."""
    _pip(sys.executable, "install", "--require-hashes", "-r", str(compiler.LOCK))
    with tempfile.TemporaryDirectory() as folder:
        for version in versions:
            if python := _interpreter(version):
                builder = _environment_of(python, Path(folder, version))
                include = _headers_by_processor(python, Path(folder, f"include-{version}"))
                for processor in PROCESSORS:
                    settings = {**_cross_settings(version, processor), "CFLAGS": f"-I{include}"}
                    _build(builder, source, out, processor, {**environment, **settings})
            else:
                print(f"no wheels for Python {version}: no python{version} with its headers is on PATH", flush=True)


def _interpreter(version: str) -> str | None:
    for command in (sys.executable, f"python{version}"):
        with suppress(OSError):
            if subprocess.run([command, "-c", _HAS_HEADERS, version], capture_output=True, check=False).returncode == 0:
                return command
    return None


def _environment_of(python: str, folder: Path) -> str:
    """Returns the interpreter of a new environment with what builds wheels."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    builder = str(folder / "bin" / "python")
    _pip(builder, "install", "--require-hashes", "-r", str(ROOT / "images" / "build.lock"))
    return builder


def _headers_by_processor(python: str, folder: Path) -> Path:
    """Returns a folder with the headers that Debian's Python has for its own processor, for each of them: what they
    say about sizes is the same. Another Python has none of that kind."""
    said = subprocess.run([python, "-c", _PLACES], capture_output=True, text=True, check=True).stdout.split()
    include = Path(said[0])
    for processor in PROCESSORS:
        place = folder / f"{processor}-linux-gnu"
        place.mkdir(parents=True)
        (place / include.name).symlink_to(include.parent / said[1] / include.name)
    return folder


def _cross_settings(version: str, processor: str) -> dict[str, str]:
    """Returns the variables by which CPython and setuptools build for another machine."""
    return {
        **compiler.zig(Path(sys.executable), cache_dir(), "-target", f"{processor}-linux-gnu.{GLIBC}"),
        "_PYTHON_HOST_PLATFORM": f"linux-{processor}",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{version.replace('.', '')}-{processor}-linux-gnu.so",
    }


def _build(builder: str, source: Path, out: Path, processor: str, environment: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--no-deps", "--no-build-isolation", "--no-cache-dir", "--wheel-dir", folder]
        _pip(builder, "wheel", *options, str(source), environment=environment)
        [made] = Path(folder).iterdir()
        platform = f"manylinux_{GLIBC.replace('.', '_')}_{processor}"
        tags = [builder, "-m", "wheel", "tags", "--remove", "--platform-tag", platform, str(made)]
        subprocess.run(tags, env=environment, check=True, stdout=subprocess.DEVNULL)
        [tagged] = Path(folder).iterdir()
        shutil.move(tagged, out)


def _pip(python: str, command: str, *options: str, environment: Mapping[str, str] | None = None) -> None:
    quietly = [python, "-m", "pip", command, "--quiet", "--disable-pip-version-check"]
    subprocess.run([*quietly, *options], env=environment, check=True)


if __name__ == "__main__":
    sys.exit(main())
