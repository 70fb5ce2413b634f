"""The authority of an object store that is renewed in its file."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import SSLError

from renewed_server import RenewedServer
from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.remote.s3_client import make_client


class Store(BaseHTTPRequestHandler):
    """Has every object, and hangs up after each answer, so that each request makes a connection."""

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *_: object) -> None:
        """No test reads it."""


def test_new_connections_believe_the_authority_in_the_file_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    server = RenewedServer(tmp_path, Store)
    try:
        config = RemoteStateConfig(url="s3://bucket/prefix", endpoint=server.url, ca_file=server.authority)
        client: Any = make_client(config, 1)
        client.head_object(Bucket="bucket", Key="k")
        server.renew()
        client.head_object(Bucket="bucket", Key="k")

        other = tmp_path / "other.pem"
        server.authority.rename(other)
        server.renew()
        server.authority.write_bytes(other.read_bytes())
        with pytest.raises(SSLError):
            client.head_object(Bucket="bucket", Key="k")
    finally:
        server.close()
