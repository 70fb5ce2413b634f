"""How each system's program is started, and what it needs first: a compiled jar, a virtual environment.

Called by ``run.py``. What is prepared is kept in the cache directory and made again only when its source changes.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUIX_REQUIREMENT = "quixstreams==3.28.1"

_KAFKA_STREAMS = Path(__file__).parent / "systems" / "kafka_streams"
_JVM_OPTIONS = ["-Xmx2g", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def prepare(system: str, cache: Path) -> list[str]:
    """The command that starts a system's program; the job, in JSON, is to be its last argument."""
    if system == "kafka-streams":
        return _prepare_kafka_streams(cache)
    if system == "quix":
        return _prepare_quix(cache)
    return [sys.executable, "-m", "benchmarks.systems.streamsapp_app"]


def environment() -> dict[str, str]:
    """Lets the programs import ``benchmarks`` and, where it is not installed, ``streamsapp`` from this tree."""
    return {"PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"}


def _prepare_kafka_streams(cache: Path) -> list[str]:
    sources = sorted(path for path in _KAFKA_STREAMS.rglob("*") if path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    home = cache / f"kafka-streams-{digest}"
    if not (home / "ready").exists():
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(_KAFKA_STREAMS, home)
        goals = ["compile", "dependency:copy-dependencies", f"-DoutputDirectory={home / 'libs'}"]
        _run(["mvn", "-q", "-B", "-f", str(home / "pom.xml"), *goals])
        (home / "ready").touch()
    return ["java", *_JVM_OPTIONS, "-cp", f"{home / 'target' / 'classes'}:{home / 'libs'}/*", "Bench"]


def _prepare_quix(cache: Path) -> list[str]:
    home = cache / QUIX_REQUIREMENT.replace("==", "-")
    python = str(home / "bin" / "python")
    if not (home / "ready").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        _run([python, "-m", "pip", "install", "--quiet", QUIX_REQUIREMENT])
        (home / "ready").touch()
    return [python, "-m", "benchmarks.systems.quix_app"]


def _run(command: list[str]) -> None:
    print(f"preparing: {' '.join(command)}", file=sys.stderr)
    subprocess.run(command, check=True)
