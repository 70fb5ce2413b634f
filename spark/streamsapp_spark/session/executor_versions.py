"""The versions of Python and of packages that the driver and Spark's Python workers have to share: they read what the
other one pickled or wrote.

The driver's are sent along with every job; each worker compares them with its own before it does anything. Where
workers do not even start, because the executor's release lacks what the driver's has them started from, the driver asks
the executor's Python itself.
"""

from __future__ import annotations

import logging
import sys
from functools import lru_cache
from importlib import metadata
from typing import TypeAlias

import msgspec
from py4j.protocol import Py4JError
from pyspark import SparkContext

from streamsapp.errors import ConfigError

log = logging.getLogger(__name__)

#: Pairs of a name and a version.
Versions: TypeAlias = tuple[tuple[str, str], ...]

_SHARED = ("streamsapp", "pyspark", "confluent-kafka", "rocksdict")

#: Prints its host, and its versions of the packages that it is given, in any Python that there may be.
_ASKS = """
import json, socket, sys
from importlib import metadata
def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
sys.stdin.read()
found = [["Python", "%d.%d" % sys.version_info[:2]]] + [[name, version(name)] for name in sys.argv[1:]]
print(json.dumps([socket.gethostname(), found]))
"""


@lru_cache(maxsize=1)
def versions() -> Versions:
    """Returns those of this process: of Python as far as bytecode and pickles depend on it, and of the packages."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (("Python", python), *((name, _version(name)) for name in _SHARED))


def refuse_other_versions(of_driver: Versions) -> None:
    """Raises ``ConfigError`` if this process is not what the driver is."""
    _refuse("the executor", versions(), of_driver)


def refuse_other_executors(spark: SparkContext) -> None:
    """Raises ``ConfigError`` with the host and the versions if the Python of an executor is not what the driver is. On
    the driver, after executors have failed: they need nothing of ours to answer. Nothing is raised if none does."""
    command = [spark.pythonExec, "-c", _ASKS, *_SHARED]
    partitions = max(1, spark.defaultParallelism)
    try:
        # In Java: a worker in Python would not start there.
        asked = spark._jsc.parallelize([""] * partitions, partitions).pipe(command).collect()
        found = {msgspec.json.decode(line, type=tuple[str, Versions]) for line in asked}
    except (Py4JError, msgspec.MsgspecError) as error:
        log.debug("executors do not tell their versions: %s", error)
        return
    for host, there in sorted(found):
        _refuse(f"the executor on {host}", there, versions())


def _refuse(executor: str, executors: Versions, of_driver: Versions) -> None:
    there = dict(executors)
    found = [(name, there.get(name, "not known"), own) for name, own in of_driver]  # its release may compare more
    differing = [f"{name} {other} instead of {own}" for name, other, own in found if other != own]
    if differing:
        raise ConfigError(
            f"{executor} has {', '.join(differing)}: "
            "start executors and driver from the same image, or install the driver's versions"
        )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
