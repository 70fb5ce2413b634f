"""Brings promtool, which checks and tries alerts as Prometheus does, into the user's cache. Called by tests.

It is taken out of Debian's package, which is not installed: that would start a server.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from streamsapp.cache_folder import cache_dir


def promtool() -> Path | None:
    """The program: the one on PATH, or the one of Debian's package; ``None`` where there is neither."""
    if found := shutil.which("promtool"):
        return Path(found)
    target = cache_dir() / "promtool"
    if not target.exists() and shutil.which("apt-get") is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix="promtool-") as scratch:
            _take_out_of_package(Path(scratch), target)
    return target if target.exists() else None


def _take_out_of_package(scratch: Path, target: Path) -> None:
    """Fetches 19 MB; leaves nothing where the package lists do not have it, or nobody answers."""
    for command in (["apt-get", "download", "prometheus"], ["dpkg-deb", "-x", "prometheus.deb", "."]):
        for package in scratch.glob("prometheus_*.deb"):
            package.rename(scratch / "prometheus.deb")
        try:
            subprocess.run(command, cwd=scratch, capture_output=True, timeout=300, check=True)
        except subprocess.SubprocessError:
            return
    (scratch / "usr" / "bin" / "promtool").rename(target)
