"""Makes the lists of jars that broker and programs in Java need: SHA-256, size and path in a repository of each file.

Run by ``make jars``, after a version below was changed; Maven finds what an artifact needs, and checks every file. All
others fetch what the lists name and need no Maven.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from streamsapp.local.downloads import Artifact, artifacts_of
from streamsapp.local.jars import KAFKA_VERSION

ROOT = Path(__file__).resolve().parent.parent
_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:list"
_POM = Template("""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>dev.streamsapp</groupId>
  <artifactId>jars</artifactId>
  <version>1</version>
  <dependencies>$dependencies</dependencies>
</project>
""")


@dataclass(frozen=True)
class JarList:
    """A list, and the artifacts that it is of; files of the list ``beside`` are left out."""

    file: str
    artifacts: tuple[str, ...]
    beside: str | None = None


_BROKER = f"runtime/streamsapp/local/kafka-{KAFKA_VERSION}.jars"
LISTS = (
    JarList(_BROKER, (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")),
    JarList(
        f"tests/oracle/kafka-streams-{KAFKA_VERSION}.jars",
        (f"org.apache.kafka:kafka-streams-test-utils:{KAFKA_VERSION}",),
        beside=_BROKER,
    ),
    JarList(
        "tests/integration/serdes/registered.jars",
        (
            "io.apicurio:apicurio-registry-serdes-avro-serde:2.6.13.Final",
            f"org.apache.kafka:kafka-clients:{KAFKA_VERSION}",
        ),
    ),
)


def main() -> int:
    for each in LISTS:
        there = set() if each.beside is None else {jar.name for jar in artifacts_of((ROOT / each.beside).read_text())}
        found = [jar for jar in _resolved(each.artifacts) if jar.name not in there]
        lines = [f"{jar.sha256} {jar.size} {jar.path}\n" for jar in sorted(found, key=lambda jar: jar.path)]
        title = f"# SHA-256, size and path of what these need: {' '.join(each.artifacts)}\n"
        (ROOT / each.file).write_text(title + "".join(lines), encoding="ascii")
        print(f"{each.file}: {len(lines)} files, {sum(jar.size for jar in found) >> 20} MiB")
    return 0


def _resolved(artifacts: Sequence[str]) -> list[Artifact]:
    """Returns the files of artifacts and of all that they need at run time."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pom.xml").write_text(
            _POM.substitute(dependencies="".join(map(_dependency, artifacts))), encoding="utf-8"
        )
        command = ["mvn", "-q", "-B", "--strict-checksums", f"-Dmaven.repo.local={folder / 'repository'}", _GOAL]
        command += ["-f", str(folder / "pom.xml"), "-DincludeScope=runtime", "-DoutputAbsoluteArtifactFilename=true"]
        subprocess.run([*command, f"-DoutputFile={folder / 'list'}"], check=True)
        files = re.findall(rf"{re.escape(name)}/\S+?\.jar", (folder / "list").read_text("utf-8"))
        return [_artifact(Path(file), folder / "repository") for file in files]


def _dependency(artifact: str) -> str:
    group, name, version = artifact.split(":")
    named = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    return f"<dependency>{named}</dependency>"


def _artifact(file: Path, repository: Path) -> Artifact:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Artifact(file.relative_to(repository).as_posix(), digest, file.stat().st_size)


if __name__ == "__main__":
    sys.exit(main())
