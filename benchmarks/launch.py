"""Starts each system's program, after making the parts it needs: compiled classes, a virtual environment.

Called by ``run.py``. A prepared part is kept in the cache directory and made again only when its source changes.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from streamsapp.local.jars import kafka_jars
from streamsapp.local.java import find_java

ROOT = Path(__file__).resolve().parent.parent
QUIX_REQUIREMENT = "quixstreams==3.28.1"
FAUST_REQUIREMENT = "faust-streaming==0.15.3"
#: The newest Spark whose own connector to Kafka resolves whole: that of 4.3 is not published. Programs written by hand
#: need the connector, ``engine: spark`` does not. The others are what this Spark needs beside it.
PYSPARK_REQUIREMENTS = ("pyspark==4.0.0", "pyarrow==26.0.1", "pandas==2.2.3", "protobuf==5.29.6", "orjson")

_KAFKA_STREAMS = Path(__file__).parent / "systems" / "kafka_streams"
#: Programs that run in this environment.
_PYTHON = {
    "streamsapp": "streamsapp_app",
    "raw-download": "raw_download",
    "engine-spark": "spark_engine_app",
}
_JVM_OPTIONS = ["-Xmx2g", "-XX:+UseG1GC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


def prepare(system: str, cache: Path) -> list[str]:
    """The command that starts a system's program; the job, in JSON, is to be its last argument."""
    if system == "kafka-streams":
        return _prepare_kafka_streams(cache)
    if system == "quix":
        return _prepare_python(cache, "quix_app", QUIX_REQUIREMENT)
    if system == "faust":
        return _prepare_python(cache, "faust_calls", FAUST_REQUIREMENT)
    if system == "pyspark":
        return _prepare_python(cache, "spark_app", *PYSPARK_REQUIREMENTS)
    return [sys.executable, "-m", f"benchmarks.systems.{_PYTHON[system]}"]


def environment() -> dict[str, str]:
    """Lets the programs import ``benchmarks`` and, where it is not installed, ``streamsapp`` from this tree."""
    return {"PYTHONPATH": f"{ROOT}:{ROOT / 'runtime'}"}


def _prepare_kafka_streams(cache: Path) -> list[str]:
    from streams_jars import streams_jars  # late: programs import this module too, and have no tests to import from

    java, folders = str(find_java()), (kafka_jars(), streams_jars())
    sources = sorted(_KAFKA_STREAMS.glob("*.java"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    classes = cache / f"{folders[1].name}-{digest}"
    if not (classes / "Bench.class").exists():
        compiler = [java, "-m", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none"]
        class_path = ":".join(str(jar) for folder in folders for jar in sorted(folder.glob("*.jar")))
        _run([*compiler, "-cp", class_path, "-d", str(classes), *map(str, sources)])
    return [java, *_JVM_OPTIONS, "-cp", ":".join([str(classes), *(f"{folder}/*" for folder in folders)]), "Bench"]


def _prepare_python(cache: Path, program: str, *requirements: str) -> list[str]:
    """An environment of the program's own."""
    home = cache / requirements[0].replace("==", "-")
    python = str(home / "bin" / "python")
    if not (home / "ready").exists():
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        _run([python, "-m", "pip", "install", "--quiet", *requirements])
        (home / "ready").touch()
    return [python, "-m", f"benchmarks.systems.{program}"]


def _run(command: list[str]) -> None:
    print(f"preparing: {command[0]} ... {command[-1]}", file=sys.stderr)
    subprocess.run(command, check=True)
