"""Brings a program that a test runs, such as Prometheus' promtool, into the user's cache. Called by tests.

It is taken out of Debian's package, which is not installed: that might start a server.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from streamsapp.cache_folder import cache_dir


def promtool() -> Path | None:
    """Checks and tries alerts as Prometheus does; 19 MB."""
    return debian_program("promtool", "prometheus")


def lua() -> Path | None:
    """Runs the language of Argo CD's scripts, in the version that Argo CD has; 0.2 MB."""
    return debian_program("lua5.1", "lua5.1")


def debian_program(name: str, package: str) -> Path | None:
    """Returns the program: the one on PATH, or the one of Debian's package; ``None`` where there is neither."""
    if found := shutil.which(name):
        return Path(found)
    target = cache_dir() / name
    if not target.exists() and shutil.which("apt-get") is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{name}-") as scratch:
            _take_out_of_package(Path(scratch), package, target)
    return target if target.exists() else None


def _take_out_of_package(scratch: Path, package: str, target: Path) -> None:
    """Leaves nothing where the package lists do not have it, or no server answers."""
    for command in (["apt-get", "download", package], ["dpkg-deb", "-x", "package.deb", "."]):
        for found in scratch.glob(f"{package}_*.deb"):
            found.rename(scratch / "package.deb")
        try:
            subprocess.run(command, cwd=scratch, capture_output=True, timeout=300, check=True)
        except subprocess.SubprocessError:
            return
    (scratch / "usr" / "bin" / target.name).rename(target)
