"""Compiles the native data path when it is first asked for, and keeps it for the next process.

Called by whoever makes the first Kafka client of a process, on its thread. A library is compiled for one source, one
Python and one librdkafka, under a name that says which; once it is there it is never written again, as others may have
it loaded.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

import confluent_kafka

from streamsapp.cache_folder import cache_dir

#: The release of confluent-kafka with which the native data path was tried; the one that this project depends on.
TRIED_WITH = "2.16.1"

#: How long the compiler may take, in seconds: it needs ten at most, and the application waits for it.
COMPILER_TIMEOUT = 120.0

SOURCES = Path(__file__).parent
_FLAGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-DPY_SSIZE_T_CLEAN",
    "-O2",
    "-flto=auto",
    "-DNDEBUG",
    "-Wall",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
)


class UnavailableError(Exception):
    """The native data path cannot be had here; says why."""


class MissingError(UnavailableError):
    """It needs another platform, a compiler or Python's headers: nothing has gone wrong."""


def library(flags: Sequence[str] = ()) -> Path:
    """The compiled library. Raises ``UnavailableError``. ``flags``: further ones for the compiler."""
    _check_platform()
    try:
        target = _private(cache_dir() / "native") / f"records-{_key()}.so"
        if not target.is_file():
            _compile(target, flags)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        raise UnavailableError(f"it cannot be compiled: {error}") from error
    return target


def _check_platform() -> None:
    if sys.platform != "linux" or sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise MissingError("it is for CPython with its lock, on Linux")
    if (found := version("confluent-kafka")) != TRIED_WITH:
        raise UnavailableError(f"confluent-kafka is {found}, and it was tried with {TRIED_WITH}")


def _private(folder: Path) -> Path:
    """The folder, where nobody else may put a library."""
    if ";" in str(folder):
        raise UnavailableError(f"librdkafka loads nothing from {folder}, whose name has a semicolon")
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    found = folder.stat()
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise UnavailableError(
            f"others may write to {folder}; make it yours alone, or name another by STREAMSAPP_CACHE"
        )
    return folder


def _key() -> str:
    made_for = (sysconfig.get_config_var("SOABI"), *confluent_kafka.libversion())
    sources = (path.read_bytes() for path in sorted(SOURCES.rglob("*.[ch]")))
    return sha256(b"\0".join([repr(made_for).encode(), *sources])).hexdigest()[:20]


def _compile(target: Path, flags: Sequence[str]) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingError("there is no C compiler (cc)")
    headers = sysconfig.get_path("include")
    if not Path(headers, "Python.h").is_file():
        raise MissingError(f"Python's headers are not installed ({headers}/Python.h)")
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder, target.name)
        sources = [str(path) for path in sorted(SOURCES.rglob("*.c"))]
        _run([compiler, *_FLAGS, *flags, f"-I{SOURCES}", f"-I{headers}", "-o", str(made), *sources, "-ldl"])
        with made.open("rb") as file:
            os.fsync(file.fileno())  # the name is for good, and so is what it stands for
        with suppress(FileExistsError):  # another process was faster
            os.link(made, target)


def _run(command: list[str]) -> None:
    """Run the compiler, whose own processes end with it."""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        try:
            _, said = process.communicate(timeout=COMPILER_TIMEOUT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise UnavailableError(f"the compiler took more than {COMPILER_TIMEOUT:.0f} s") from None
    if process.returncode:
        reason = " ".join(said.decode(errors="replace").split())[:300] or f"with {process.returncode}"
        raise UnavailableError(f"the compiler failed: {reason}")
