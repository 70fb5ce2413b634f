"""Brings Apache Kafka's jars from Maven Central into the user's cache, once per version.

Called by the embedded broker and by tests that run Java, on the caller's thread. Maven is used, so that a
mirror or proxy configured for it works here too; it checks every file against the repository's checksum.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from string import Template

from streamsapp.cache_folder import cache_dir
from streamsapp.errors import StreamsError
from streamsapp.local.java import find_maven

#: The newest version whose artifacts are complete on Maven Central; also the version behaviour is compared against.
KAFKA_VERSION = "4.3.1"

#: The broker, Kafka Streams with its test driver (to compare against), and the logger the broker writes with.
_POM = Template("""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.streamsapp</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka_2.13</artifactId>
      <version>$version</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId>
      <artifactId>kafka-streams-test-utils</artifactId>
      <version>$version</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId>
      <artifactId>slf4j-simple</artifactId>
      <version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
""")

_COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


def is_fetched() -> bool:
    """Says whether :func:`kafka_jars` answers at once."""
    return _target().is_dir()


def kafka_jars() -> Path:
    """The directory of Kafka's jars; fetched the first time it is asked for."""
    target = _target()
    if target.is_dir():
        return target
    maven = find_maven()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="kafka-") as scratch:
        fetched = Path(scratch) / "jars"
        _fetch(maven, Path(scratch) / "pom.xml", fetched)
        _publish(fetched, target)
    return target


def _target() -> Path:
    return cache_dir() / f"kafka-{KAFKA_VERSION}"


def _fetch(maven: Path, pom: Path, into: Path) -> None:
    pom.write_text(_POM.substitute(version=KAFKA_VERSION), encoding="utf-8")
    command = [str(maven), "-q", "-B", "--strict-checksums", "-f", str(pom), _COPY_GOAL]
    command += [f"-DoutputDirectory={into}", "-DincludeScope=runtime"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise StreamsError(
            f"Maven could not fetch Apache Kafka {KAFKA_VERSION}; try again, or give Maven a mirror in "
            f"~/.m2/settings.xml. It said:\n{answer.stdout}{answer.stderr}"
        )


def _publish(fetched: Path, target: Path) -> None:
    """Renames the complete directory into place, so that nobody ever sees half of it."""
    try:
        fetched.rename(target)
    except OSError:
        if not target.is_dir():  # not another process that was faster: its jars are the same
            raise
