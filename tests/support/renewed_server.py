"""An HTTPS server whose authority and certificate are renewed while it runs."""

from __future__ import annotations

import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import trustme


class RenewedServer:
    """Serves with a handler; ``authority`` is the file of the authority whose certificate it has."""

    def __init__(self, folder: Path, handler: type[BaseHTTPRequestHandler]) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority = folder / "ca.pem"
        self.renew()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.socket = self._context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"https://localhost:{self._server.server_port}"

    def renew(self) -> None:
        """Another authority, and a certificate of it."""
        authority = trustme.CA()
        authority.issue_cert("localhost").configure_cert(self._context)
        authority.cert_pem.write_to_path(str(self.authority))

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
