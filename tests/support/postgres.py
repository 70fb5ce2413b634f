"""A real PostgreSQL as a process of its own, of jars that Maven Central has, and Spark's driver for it.

Called by tests of tables in a database. It refuses to run as root: then it runs as another user, in a folder which that
one can reach.
"""

from __future__ import annotations

import io
import os
import platform
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pg8000.dbapi
import pytest

from streamsapp.local.broker import free_port
from streamsapp.local.downloads import Artifact
from streamsapp.local.jars import Jars

DRIVER = Jars(
    "postgresql-driver-42.7.14",
    [
        Artifact(
            "org/postgresql/postgresql/42.7.14/postgresql-42.7.14.jar",
            "73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c",
            1_221_004,
        )
    ],
)
_BINARIES = "io/zonky/test/postgres/embedded-postgres-binaries-linux-{0}/18.4.0/{1}"
_SERVERS = {
    "x86_64": (
        "amd64",
        "401d4e69baba9072d3772607710df0d47b39a7632c6b01b2a5f5d85a9514e212",
        15_175_961,
    ),
    "aarch64": (
        "arm64v8",
        "a9ec284923b9a7d2db41509bfb88c3d0eeb9f4aa5e2b29ea0aac5e8dbaf4c335",
        14_176_928,
    ),
}
#: Of tests that need it.
WITHOUT_POSTGRES = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in _SERVERS, reason="its jars are for Linux, x86-64 and ARM"
)
#: The identifier of the user `nobody` on Linux.
_OTHER_USER = 65_534
_USER = "lake"
PASSWORD = "not-in-any-log"
_START_SECONDS = 60.0


class Postgres:
    """One server; its database is called as its user."""

    def __init__(self) -> None:
        self._runs_as: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._runs_as = {"user": _OTHER_USER, "group": _OTHER_USER, "extra_groups": []}
        self._port = free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="postgres-", dir="/tmp"))
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"jdbc:postgresql://127.0.0.1:{self._port}/{_USER}"

    def __enter__(self) -> Postgres:
        folder = self._folder
        _unpack(folder / "programs")
        (folder / "password").write_text(PASSWORD)
        (folder / "data").mkdir()
        if self._runs_as:
            for path in (folder, folder / "data", folder / "password"):
                os.chown(path, _OTHER_USER, _OTHER_USER)
        self._run("initdb", "-U", _USER, "-A", "scram-sha-256", f"--pwfile={folder / 'password'}", "--no-sync").wait()
        self.start()
        self.run(f"CREATE DATABASE {_USER}", database="postgres")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self._folder)

    def start(self) -> None:
        """Returns when it answers."""
        settings = {"port": self._port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        self._process = self._run("postgres", *(f"--{name}={of}" for name, of in settings.items()))
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {(self._folder / 'log').read_text()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """At once, as in a crash: connections end, and the next start recovers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(60)

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(self._folder / "programs" / "bin" / program), "-D", str(self._folder / "data"), *arguments]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self._runs_as
            )

    def _answers(self) -> bool:
        try:
            self.run("SELECT 1", database="postgres")
        except (pg8000.dbapi.Error, OSError):
            return False
        return True

    def login(self, folder: Path, password: str = PASSWORD) -> Path:
        """Writes the login to a folder, as a mounted Secret has it."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "username").write_text(_USER)
        (folder / "password").write_text(f"{password}\n")
        return folder

    def run(self, statement: str, database: str = _USER) -> list[dict[str, Any]]:
        """Returns the rows of a statement, by their columns."""
        connection = pg8000.dbapi.connect(
            _USER, host="127.0.0.1", port=self._port, database=database, password=PASSWORD, timeout=60
        )
        try:
            connection.autocommit = True
            cursor = connection.cursor()
            cursor.execute(statement)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in (cursor.fetchall() if names else ())]
        finally:
            connection.close()


def _unpack(folder: Path) -> None:
    """The jar has one archive with all of the server."""
    kind, sha256, size = _SERVERS[platform.machine()]
    name = f"embedded-postgres-binaries-linux-{kind}-18.4.0.jar"
    jars = Jars("postgres-18.4.0", [Artifact(_BINARIES.format(kind, name), sha256, size)]).folder()
    with zipfile.ZipFile(jars / name) as jar:
        (archive,) = (each for each in jar.namelist() if each.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(jar.read(archive))) as files:
            files.extraction_filter = getattr(tarfile, "data_filter", None)  # Python's own from 3.14 on
            files.extractall(folder)  # noqa: S202 - its SHA-256 is known
