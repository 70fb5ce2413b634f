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
from pathlib import Path
from types import TracebackType
from typing import IO, Any

HERE = Path(__file__).parent
KAFKA_VERSION = "4.3.1"


class OracleError(Exception):
    """The oracle cannot be built or does not answer."""


def cache_directory() -> Path:
    """Where jars and classes are kept, outside of the tree."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "streamsapp" / f"oracle-{KAFKA_VERSION}"


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise OracleError(f"{command[0]} is missing: the oracle needs a JDK (17 or newer) and Maven") from error
    if done.returncode != 0:
        raise OracleError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _stage(target: Path, make: list[str], inputs: list[Path]) -> Path:
    """Run ``make + [directory]`` unless it ran before for the same inputs; processes may race, the last one wins."""
    digest = hashlib.sha256()
    for path in inputs:
        digest.update(path.read_bytes())
    done = target.with_name(f"{target.name}-{digest.hexdigest()[:12]}")
    if not done.is_dir():
        unfinished = done.with_name(f"{done.name}.{os.getpid()}")
        _run([*make, str(unfinished)])
        try:
            unfinished.rename(done)
        except OSError:
            shutil.rmtree(unfinished)
    return done


def class_path() -> str:
    """Fetch the jars and compile the oracle where that is not done yet."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    pom = HERE / "pom.xml"
    # Maven wants its directory as part of an option, so a shell joins the two.
    copy = f"exec mvn -q -B -f '{pom}' dependency:copy-dependencies -DoutputDirectory=\"$0\""
    libraries = _stage(cache / "libs", ["sh", "-c", copy], [pom])
    sources = sorted((HERE / "java").glob("*.java"))
    compiler = ["javac", "-cp", f"{libraries}/*", *map(str, sources), "-d"]
    classes = _stage(cache / "classes", compiler, [pom, *sources])
    return f"{classes}:{libraries}/*"


class Oracle:
    """A running Kafka Streams that answers requests; README.md lists them."""

    def __init__(self) -> None:
        log: IO[str] = (cache_directory() / "oracle.log").open("w") if cache_directory().is_dir() else sys.stderr
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m", "-cp", class_path(), "Oracle"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        )

    def ask(self, **request: Any) -> dict[str, Any]:
        """The answer to one request."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise OracleError(f"the oracle died; {cache_directory() / 'oracle.log'} says why")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the Java process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)

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
