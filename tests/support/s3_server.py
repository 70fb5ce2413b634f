"""A real S3 server as a process of its own, which tests may stop, kill and start again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from threading import RLock
from typing import Any

import boto3
import trustme
from botocore.config import Config
from botocore.exceptions import BotoCoreError

import versitygw
from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.local.broker import free_port

BUCKET = "streams"


class S3Server:
    """Keeps its objects in a folder, so that they outlive it; speaks TLS with an authority of its own if asked to."""

    def __init__(self, directory: Path, *, tls: bool = False, port: int | None = None) -> None:
        self.directory = directory
        self.objects = directory / "objects"
        #: As a mounted secret has them.
        self.credentials = directory / "credentials"
        self.ca_file: Path | None = None
        self.port = free_port() if port is None else port
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = RLock()
        self._closed = False
        self.objects.mkdir(parents=True)
        self.credentials.mkdir()
        self._options = self._certificate() if tls else []
        self.rotate("first", "first-secret")

    def __enter__(self) -> S3Server:
        self.start()
        self.client().create_bucket(Bucket=BUCKET)
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._closed = True
            self.stop()

    def rotate(self, access_key: str, secret_key: str) -> None:
        """Other credentials: in the secret at once, in the server when it starts next."""
        (self.credentials / "AWS_ACCESS_KEY_ID").write_text(access_key)
        (self.credentials / "AWS_SECRET_ACCESS_KEY").write_text(f"{secret_key}\n")
        self._keys = (access_key, secret_key)

    def start(self) -> None:
        """Returns when it answers. Does nothing after the end: a thread of a test that failed may come too late."""
        with self._lock:
            if not self._closed:
                self._start()

    def _start(self) -> None:
        log = self.directory / "server.log"
        self._process = versitygw.start(self.objects, self.port, self._keys, log, self._options)
        deadline = time.monotonic() + 100
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the S3 server did not start: {log.read_text()}")
            time.sleep(0.01)

    def stop(self, sign: int = signal.SIGKILL) -> None:
        """At once; a server that is stopped already stays so."""
        if self._process is not None:
            self._process.send_signal(sign)
            self._process.wait(100)
            self._process = None

    def freeze(self) -> None:
        """It keeps its connections and takes new ones, and answers nothing until it is thawed or stopped."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # the signal is taken a moment later, and a request might slip in

    def thaw(self) -> None:
        """It goes on where it was; does nothing if it was stopped meanwhile."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def config(self, prefix: str = "", **settings: Any) -> RemoteStateConfig:
        """Returns the settings of an application that keeps its state here."""
        defaults: dict[str, Any] = {
            "url": f"s3://{BUCKET}/{prefix}",
            "endpoint": self.endpoint,
            "credentials_dir": self.credentials,
            "ca_file": self.ca_file,
        }
        return RemoteStateConfig(**(defaults | settings))

    def client(self) -> Any:
        """A client that shares nothing with the code under test."""
        access, secret = self._keys
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=access,
            aws_secret_access_key=secret,
            region_name="us-east-1",
            verify=None if self.ca_file is None else str(self.ca_file),
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                pass
            self.client().list_buckets()
        except (OSError, BotoCoreError):
            return False
        return True

    def _certificate(self) -> list[str]:
        authority = trustme.CA()
        issued = authority.issue_cert("127.0.0.1")
        self.ca_file = self.directory / "ca.pem"
        certificate, key = self.directory / "server.pem", self.directory / "server.key"
        authority.cert_pem.write_to_path(str(self.ca_file))
        issued.private_key_pem.write_to_path(str(key))
        for number, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(str(certificate), append=number > 0)
        return ["--cert", str(certificate), "--key", str(key)]
