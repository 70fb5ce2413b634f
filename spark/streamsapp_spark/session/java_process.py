"""Checks that there is a Java that Spark can use, and starts Spark's Java process beside the driver's own work.

Called on the driver's main thread; the process is started, and its output read, on threads of their own. That output
goes to the error output: the standard output is for the command's results.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from streamsapp.errors import ManifestError, StreamsError
from streamsapp_spark.session.class_archive import ClassArchive

_OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?([0-9]+)')
_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt): .+$", re.MULTILINE)
#: The end of a line by which Spark only says that a worker raised an error, which follows with a trace of its own.
_WRAPPED = "An exception was thrown from the Python worker:"
_ANSWER_SECONDS = 30.0
#: Lines of Java's output that are kept until the session is there.
_KEPT = 200
_END_SECONDS = 5.0


def check_java() -> None:
    """Raises ``ManifestError`` if there is no Java, or the Java is too old for Spark; takes a tenth of a second."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return  # the Java process is there already
    java, looked = _java()
    if java is None:
        raise ManifestError(
            [f"Spark needs Java {_OLDEST} or newer, and {looked}: install one, or set JAVA_HOME to where it is"]
        )
    try:
        command = [java, "-version"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ManifestError([f"Spark needs Java {_OLDEST} or newer, and {java} does not run: {error}"]) from error
    version = _VERSION.search(answer.stderr + answer.stdout)
    if version is not None and int(version[1]) < _OLDEST:
        raise ManifestError(
            [f"Spark needs Java {_OLDEST} or newer, and {java} is Java {version[1]}: set JAVA_HOME to a newer one"]
        )


def java_path() -> Path | None:
    """Returns the Java that Spark starts, if there is one."""
    java, _ = _java()
    return None if java is None else Path(java)


def _java() -> tuple[str | None, str]:
    """Returns Java where Spark looks for it, and the place."""
    home = os.environ.get("JAVA_HOME")
    if home:
        return shutil.which("java", path=str(Path(home, "bin"))), f"JAVA_HOME, {home}, has no bin/java"
    return shutil.which("java"), "there is no `java` on PATH and JAVA_HOME is not set"


class JavaProcess:
    """Holds the process. It is started while the driver finds out what there is to do, and ends with the driver. The
    driver does not exit before the process has started, used or not."""

    def __init__(self, conf: SparkConf, archive: ClassArchive) -> None:
        """Takes over the lock of the archive."""
        self.conf = conf
        self._archive = archive
        self._gateway: Future[Any] = Future()
        #: Output before the session is there: Spark's greetings, or why there is none. Guarded by the lock.
        self._kept: deque[str] | None = deque(maxlen=_KEPT)
        self._lock = threading.Lock()
        threading.Thread(target=self._start, name="java").start()

    def gateway(self) -> Any:
        """Returns the connection to the process; raises ``StreamsError`` with the process's own words if it has
        ended."""
        return self._gateway.result()

    def show_output(self) -> None:
        """Shows the output of the process from here on; user code in workers prints there, too."""
        with self._lock:
            self._kept = None

    def ran(self) -> None:
        """A query ran in the process: what it records is worth keeping. Any thread."""
        self._archive.keep()

    def _start(self) -> None:
        read, write = os.pipe()
        inherited = [] if self._archive.lock is None else [self._archive.lock]
        reader = threading.Thread(target=self._read, args=(read,), name="java-output", daemon=True)
        reader.start()
        try:
            files = {"stdout": write, "stderr": write, "pass_fds": inherited}
            gateway = launch_gateway(self.conf, files)  # type: ignore[no-untyped-call]
        except Exception as error:
            os.close(write)
            reader.join(_END_SECONDS)
            cause = StreamsError(f"Spark's Java process does not start: {cause_in(self._text() or str(error))}")
            cause.__cause__ = error
            self._gateway.set_exception(cause)
        else:
            os.close(write)
            self._gateway.set_result(gateway)
        finally:
            for descriptor in inherited:
                os.close(descriptor)

    def _text(self) -> str:
        with self._lock:
            return "".join(self._kept or ())

    def _read(self, descriptor: int) -> None:
        with os.fdopen(descriptor, errors="replace") as lines:
            for line in lines:
                with self._lock:
                    if self._kept is not None:
                        self._kept.append(line)
                        continue
                sys.stderr.write(line)


def reason(error: Exception) -> str:
    """The line of what Spark raised that says why."""
    return cause_in(str(error) or type(error).__name__)


def cause_in(text: str) -> str:
    """Returns the line of Java's or Spark's output that says why: the error of a Python worker if there is one."""
    _, _, traced = text.partition(_TRACEBACK)
    for raised in _PYTHON_ERROR.finditer(traced):
        if not raised[0].rstrip().endswith(_WRAPPED):
            return raised[0].strip()
    lines = [line.strip(" :\t") for line in text.splitlines() if line.strip(" :\t")]
    named = [line for line in lines if "Exception: " in line or "Error: " in line]
    return named[0] if named else "; ".join(lines[:2]) or "it does not say why"
