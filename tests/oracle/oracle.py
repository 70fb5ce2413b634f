"""Kafka Streams itself, as an oracle: builds the Java program of this folder and asks it one JSON line at a time.

Used by the tests of this folder, and by hand: ``python tests/oracle/oracle.py < requests.jsonl``. Not thread-safe.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import jdk
from streams_jars import streams_jars
from streamsapp.cache_folder import cache_dir
from streamsapp.local.jars import kafka_jars
from streamsapp.local.java import find_java

HERE = Path(__file__).parent
#: Programs are small and many: a quick start counts more than peak speed. Without memory the process ends, and says so
#: where no answers are read. State is kept in memory if it can be.
_JVM_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"]
_JVM_OPTIONS += ["-XX:+DisplayVMOutputToStderr", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"]
if Path("/dev/shm").is_dir():  # noqa: S108 - Java makes a directory of its own there
    _JVM_OPTIONS.append("-Djava.io.tmpdir=/dev/shm")


class OracleError(Exception):
    """The oracle cannot be built or does not answer."""


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OracleError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _stage(jars: str, sources: list[Path], make: Callable[[Path], list[str]]) -> Path:
    """The directory that the command ``make(directory)`` fills; made anew only when a source changes, or the jars.

    Processes may race: each fills a directory of its own, and the first to finish gives its one the name.
    """
    digest = hashlib.sha256(jars.encode() + b"".join(path.read_bytes() for path in sources)).hexdigest()
    done = cache_dir() / f"oracle-classes-{digest[:12]}"
    if not done.is_dir():
        unfinished = done.with_name(f"{done.name}.{os.getpid()}")
        unfinished.mkdir(parents=True, exist_ok=True)
        _run(make(unfinished))
        try:
            unfinished.rename(done)
        except OSError:
            shutil.rmtree(unfinished)
    return done


def class_path(java: Path = HERE / "java", libraries: Sequence[Path] = ()) -> str:
    """Fetch the jars and compile the Java programs of a directory where that is not done yet. ``libraries``: folders of
    jars, those of Kafka Streams unless given."""
    jars = ":".join(f"{folder}/*" for folder in libraries or (kafka_jars(), streams_jars()))
    sources = sorted(java.glob("*.java"))
    compiler = [str(jdk.program("javac")), "-cp", jars]
    classes = _stage(jars, sources, lambda into: [*compiler, "-d", str(into), *map(str, sources)])
    return f"{classes}:{jars}"


class _Process:
    """One Java process, from its start to its end."""

    def __init__(self, heap: str) -> None:
        command = [str(find_java()), *_JVM_OPTIONS, f"-Xmx{heap}", "-cp", class_path(), "Oracle"]
        with ExitStack() as undo:
            self._log = undo.enter_context(tempfile.TemporaryFile())
            self._java = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8"
            )
            undo.pop_all()
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._requests, self._answers = self._java.stdin, self._java.stdout

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to one request; ``None`` if the process died before it was whole."""
        try:
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
        except BrokenPipeError:
            return None
        line = self._answers.readline()
        if not line.endswith("\n"):
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> str:
        """End the process; returns what it last said."""
        with suppress(BrokenPipeError):  # the rest of a request that it did not live to read
            self._requests.close()
        try:
            self._java.wait(timeout=30)
        except subprocess.TimeoutExpired:  # it has answered everything: how long its end takes is no test's matter
            self._java.kill()
            self._java.wait()
        self._answers.close()
        with self._log as log:
            log.seek(0)
            return log.read()[-4000:].decode(errors="replace")


class Oracle:
    """A running Kafka Streams that answers requests; README.md lists them.

    Now and then a random program makes a hundred megabytes of text: the heap has room for that. A program that kills
    the process nevertheless is its test's failure alone: the next request starts another process.
    """

    def __init__(self, heap: str = "3g") -> None:
        self._heap = heap
        self._process: _Process | None = None

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request."""
        process = self._process = self._process or _Process(self._heap)
        answer = process.ask(request)
        if answer is None:
            self._process = None
            raise OracleError(f"the oracle died of this request; it last said:\n{process.close()}")
        return answer

    def close(self) -> None:
        """End the Java process."""
        if self._process is not None:
            self._process.close()

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def main() -> None:
    """Answer the requests of standard input; descriptions are printed as text, everything else as JSON."""
    with Oracle() as oracle:
        for line in sys.stdin:
            answer = oracle.ask(**json.loads(line))
            if isinstance(answer.get("describe"), str):
                print(answer.pop("describe"))
            if answer:
                print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
