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
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from streamsapp.cache_folder import cache_dir
from streamsapp.local.java import find_java, find_maven

HERE = Path(__file__).parent
#: Programs are small and many: a quick start counts more than peak speed. State is kept in memory if it can be.
#: Now and then a random program makes a hundred megabytes of text.
_JVM_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx3g"]
if Path("/dev/shm").is_dir():  # noqa: S108 - Java makes a directory of its own there
    _JVM_OPTIONS.append("-Djava.io.tmpdir=/dev/shm")


class OracleError(Exception):
    """The oracle cannot be built or does not answer."""


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise OracleError(f"{command[0]} is missing: the oracle needs a whole JDK, not only Java's runtime") from error
    if done.returncode != 0:
        raise OracleError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _stage(name: str, inputs: list[Path], make: Callable[[Path], list[str]]) -> Path:
    """The directory that the command ``make(directory)`` fills; made anew only when an input changes.

    Processes may race: each fills a directory of its own, and the first to finish gives its one the name.
    """
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in inputs)).hexdigest()
    done = cache_dir() / f"oracle-{name}-{digest[:12]}"
    if not done.is_dir():
        unfinished = done.with_name(f"{done.name}.{os.getpid()}")
        unfinished.mkdir(parents=True, exist_ok=True)
        _run(make(unfinished))
        try:
            unfinished.rename(done)
        except OSError:
            shutil.rmtree(unfinished)
    return done


def class_path(java: Path = HERE / "java", pom: Path = HERE / "pom.xml") -> str:
    """Fetch the jars and compile the Java programs of a directory where that is not done yet."""
    copy = [str(find_maven()), "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    libraries = _stage("libraries", [pom], lambda into: [*copy, f"-DoutputDirectory={into}"])
    sources = sorted(java.glob("*.java"))
    compiler = [str(find_java().with_name("javac")), "-cp", f"{libraries}/*"]
    classes = _stage("classes", [pom, *sources], lambda into: [*compiler, "-d", str(into), *map(str, sources)])
    return f"{classes}:{libraries}/*"


class Oracle:
    """A running Kafka Streams that answers requests; README.md lists them."""

    def __init__(self) -> None:
        command = [str(find_java()), *_JVM_OPTIONS, "-cp", class_path(), "Oracle"]
        with ExitStack() as undo:
            self._log = undo.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, encoding="utf-8"
            )
            undo.pop_all()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request."""
        try:
            self._requests.write(json.dumps(request) + "\n")
            self._requests.flush()
        except BrokenPipeError as error:
            raise self._died() from error
        line = self._answers.readline()
        if not line:
            raise self._died()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the Java process."""
        self._requests.close()
        self._process.wait(timeout=30)
        self._answers.close()
        self._log.close()

    def _died(self) -> OracleError:
        self._log.seek(0)
        return OracleError(f"the oracle died; it last said:\n{self._log.read()[-4000:].decode(errors='replace')}")

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
