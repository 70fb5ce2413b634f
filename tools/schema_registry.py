"""Brings the schema registry that tests run against into the user's cache, once per version; starts it.

Called by tests. Apicurio Registry speaks Confluent's API, and keeps schemas in memory.
"""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from subprocess import Popen

from streamsapp.cache_folder import cache_dir
from streamsapp.local.downloads import Artifact, Downloads
from streamsapp.local.java import find_java
from streamsapp.local.repository import repository

VERSION = "2.6.13.Final"
_ARCHIVE = Artifact(
    f"io/apicurio/apicurio-registry-app/{VERSION}/apicurio-registry-app-{VERSION}-all.zip",
    "d88014c1addff1fc585e1e9510fc41276473726340f4e0997353b46342d3532b",
    142_268_239,
)
#: Confluent's API, at the server's port.
PATH = "/apis/ccompat/v7"


def folder() -> Path:
    """The unpacked server; fetched the first time it is asked for: 140 MB."""
    target = cache_dir() / f"apicurio-registry-{VERSION}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="apicurio-") as scratch:
        Downloads(repository()).bring([_ARCHIVE], Path(scratch))
        with zipfile.ZipFile(Path(scratch) / _ARCHIVE.name) as archive:
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
