"""Brings the schema registry that tests run against into the user's cache, once per version; starts it.

Called by tests. Apicurio Registry speaks Confluent's API; Maven fetches it, as it does the broker, so that a mirror
configured for it works here too. It keeps schemas in memory.
"""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from pathlib import Path
from subprocess import Popen

from streamsapp.cache_folder import cache_dir
from streamsapp.errors import StreamsError
from streamsapp.local.java import find_java, find_maven

VERSION = "2.6.13.Final"
_ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:zip:all"
_COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
#: Confluent's API, at the server's port.
PATH = "/apis/ccompat/v7"


def folder() -> Path:
    """The unpacked server; fetched the first time it is asked for: 140 MB."""
    target = cache_dir() / f"apicurio-registry-{VERSION}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="apicurio-") as scratch:
        command = [str(find_maven()), "-q", "-B", _COPY_GOAL, f"-Dartifact={_ARTIFACT}", f"-DoutputDirectory={scratch}"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise StreamsError(
                f"Maven could not fetch {_ARTIFACT}; try again. It said:\n{answer.stdout}{answer.stderr}"
            )
        with zipfile.ZipFile(next(Path(scratch).glob("*.zip"))) as archive:
            archive.extractall(Path(scratch) / "unpacked")
        try:
            (Path(scratch) / "unpacked").rename(target)
        except OSError:
            if not target.is_dir():  # not another process that was faster
                raise
    return target


def start(port: int, log: Path) -> Popen[bytes]:
    """The server on the loopback's port; it answers after some seconds."""
    jar = next(folder().glob("*-runner.jar"))
    command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m"]
    command += [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1", "-jar", str(jar)]
    with log.open("wb") as out:
        return Popen(command, cwd=jar.parent, stdout=out, stderr=out)
