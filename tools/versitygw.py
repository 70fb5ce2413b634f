"""Builds the S3 server that tests and benchmarks run against into the user's cache, once per version; starts it.

Called by the set-up, by tests and by benchmarks. Versity S3 Gateway keeps objects in a folder; it is built from the Go
module proxy, so that a mirror configured for Go works here too, and Go checks every module against its checksum
database.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import Popen

from streamsapp.cache_folder import cache_dir
from streamsapp.errors import StreamsError

VERSION = "1.8.0"
#: The settings with which Go builds here. The compiler collects its garbage seldom: it needs a gigabyte or two more,
#: and less time.
GO = {"GOTOOLCHAIN": "auto", "CGO_ENABLED": "0", "GOGC": "400"}
_MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"


def is_built() -> bool:
    """Says whether :func:`executable` answers at once."""
    return _target().is_file()


def is_buildable() -> bool:
    """Says whether there is a Go that fetches the newer one that a module asks for, as it does since 1.21."""
    if shutil.which("go") is None:
        return False
    answer = subprocess.run(["go", "version"], capture_output=True, text=True, check=False)
    found = re.search(r"go1\.(\d+)", answer.stdout)
    return found is not None and int(found[1]) >= 21


def executable() -> Path:
    """The server; built the first time it is asked for, which takes one to three minutes."""
    target = _target()
    if target.is_file():
        return target
    if not is_buildable():
        raise StreamsError("Go 1.21 or newer is needed to build the S3 server of the tests: install it, put it on PATH")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="versitygw-") as scratch:
        environment = {**os.environ, **GO, "GOBIN": scratch}
        command = ["go", "install", "-trimpath", "-ldflags=-s -w", _MODULE]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise StreamsError(f"Go could not build {_MODULE}; try again, or set GOPROXY. It said:\n{answer.stderr}")
        (Path(scratch) / "versitygw").replace(target)  # the same of another process that was faster
    return target


def start(objects: Path, port: int, keys: tuple[str, str], log: Path, options: Sequence[str] = ()) -> Popen[bytes]:
    """A server that keeps its objects in a folder and takes one pair of access key and secret key. It answers soon."""
    command = [str(executable()), "--quiet", "--keep-alive", "--port", f"127.0.0.1:{port}"]
    environment = {**os.environ, "ROOT_ACCESS_KEY": keys[0], "ROOT_SECRET_KEY": keys[1]}
    with log.open("ab") as output:
        return Popen([*command, *options, "posix", str(objects)], env=environment, stdout=output, stderr=output)


def _target() -> Path:
    return cache_dir() / f"versitygw-{VERSION}"
