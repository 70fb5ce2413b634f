"""The versions of Python and of packages that the driver and Spark's Python workers have to share: they read what the
other one pickled or wrote.

The driver's are sent along with every job; each worker compares them with its own before it does anything.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib import metadata
from typing import TypeAlias

from streamsapp.errors import ConfigError

#: Pairs of a name and a version.
Versions: TypeAlias = tuple[tuple[str, str], ...]

_SHARED = ("streamsapp", "pyspark", "confluent-kafka", "rocksdict")


@lru_cache(maxsize=1)
def versions() -> Versions:
    """Returns those of this process: of Python as far as bytecode and pickles depend on it, and of the packages."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (("Python", python), *((name, _version(name)) for name in _SHARED))


def refuse_other_versions(of_driver: Versions) -> None:
    """Raises ``ConfigError`` if this process is not what the driver is."""
    here = dict(versions())
    found = [(name, here.get(name, "not known"), there) for name, there in of_driver]  # its release may compare more
    differing = [f"{name} {own} instead of {there}" for name, own, there in found if own != there]
    if differing:
        raise ConfigError(
            f"the executor has {', '.join(differing)}: "
            "start executors and driver from the same image, or install the driver's versions"
        )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
