"""The S3 server that snapshots go to, and what is in it.

Started by ``run.py`` where a case needs it; used by ``execution.py`` outside the measured time.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import boto3
from botocore.config import Config
from tools import versitygw

from streamsapp.config import RemoteStateConfig
from streamsapp.local.broker import free_port
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.object_store_factory import open_store

_BUCKET = "bench"
_KEYS = ("bench", "bench-secret")
_START_SECONDS = 20.0


class ObjectStore:
    """The objects of a running server; ``settings`` are those of ``RemoteStateConfig``."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        self._objects = open_store(
            RemoteStateConfig(
                url=settings["url"],
                endpoint=settings["endpoint"],
                credentials_dir=Path(settings["credentials_dir"]),
            )
        )

    def keys(self, application: str) -> set[str]:
        """All objects of an application."""
        return {info.key for info in self._objects.list(f"{application}/")}

    def keep(self, application: str, keys: set[str]) -> None:
        """Remove every object of an application but these."""
        self._objects.delete(self.keys(application) - keys)

    def wait(self, server: Popen[bytes]) -> None:
        """Return once the bucket is there."""
        client = boto3.client(
            "s3",
            endpoint_url=self.settings["endpoint"],
            aws_access_key_id=_KEYS[0],
            aws_secret_access_key=_KEYS[1],
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 20}),
        )
        deadline = time.monotonic() + _START_SECONDS
        client.create_bucket(Bucket=_BUCKET)
        while server.poll() is None and time.monotonic() < deadline:
            try:
                return self._objects.probe()
            except ObjectStoreError:
                time.sleep(0.05)
        raise RuntimeError("the S3 server did not start")


@contextmanager
def object_store(cache: Path) -> Iterator[ObjectStore]:
    """A server of our own that leaves nothing behind."""
    home = cache / "object-store"
    shutil.rmtree(home, ignore_errors=True)
    (home / "objects").mkdir(parents=True)
    (home / "credentials").mkdir()
    for name, text in zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), _KEYS, strict=True):
        (home / "credentials" / name).write_text(text)
    port = free_port()
    server = versitygw.start(home / "objects", port, _KEYS, home / "server.log")
    try:
        store = ObjectStore(
            {
                "url": f"s3://{_BUCKET}",
                "endpoint": f"http://127.0.0.1:{port}",
                "credentials_dir": str(home / "credentials"),
            }
        )
        store.wait(server)
        yield store
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(home, ignore_errors=True)
