"""The instance's HTTP port: ``/healthz``, ``/readyz``, ``/metrics`` and ``/status``.

Started and closed by the command line. Requests are answered on daemon threads of their own, so that neither a slow
client nor an open connection holds up processing or shutdown.
"""

from __future__ import annotations

import hmac
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from streamsapp.errors import ConfigError
from streamsapp.http.view import InstanceView
from streamsapp.metrics.prometheus import CONTENT_TYPE, Exporter

log = logging.getLogger(__name__)

_JSON = "application/json"
_SOCKET_TIMEOUT_SECONDS = 10.0

#: Open to the kubelet and to Prometheus, which carry no token.
_OPEN = frozenset({"/healthz", "/readyz", "/metrics"})


@dataclass(frozen=True)
class Answer:
    """What a route answers."""

    status: HTTPStatus
    body: bytes
    content_type: str = _JSON


Route: TypeAlias = Callable[[], Answer]


def json_answer(document: Any, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    """A JSON document."""
    return Answer(status, orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_NON_STR_KEYS))


class HttpServer:
    """Serves one instance. ``port`` 0 takes any free one; ``token_file`` is used if it exists when this is made."""

    def __init__(
        self, view: InstanceView, port: int, *, host: str = "0.0.0.0", token_file: Path | None = None  # noqa: S104
    ) -> None:  # fmt: skip
        exporter = Exporter(view.samples)
        routes: dict[str, Route] = {
            "/healthz": lambda: _probe(view.healthy()),
            "/readyz": lambda: _probe(view.ready()),
            "/metrics": lambda: Answer(HTTPStatus.OK, exporter.render(), CONTENT_TYPE),
            "/status": lambda: json_answer(view.status()),
        }
        guard = _TokenGuard(token_file if token_file is not None and token_file.exists() else None)
        try:
            self._server = _Server((host, port), _handler(routes, guard))
        except OSError as error:
            raise ConfigError(
                f"http_port: cannot listen on {host}:{port}: {error.strerror}; choose another port or stop its user"
            ) from error
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> None:
        """Serve until closed."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests that are being answered are not waited for."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""
        log.debug("a request from %s broke off: %s", client_address, sys.exception())


class _TokenGuard:
    """Compares bearer tokens. The file is read each time: a mounted secret is rotated in place."""

    def __init__(self, token_file: Path | None) -> None:
        self._token_file = token_file

    def admits(self, authorization: str | None) -> bool:
        if self._token_file is None:
            return True
        try:
            expected = self._token_file.read_bytes().strip()
        except OSError:
            return False
        scheme, _, given = (authorization or "").partition(" ")
        same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), expected)
        return bool(expected) and scheme.lower() == "bearer" and same


def _probe(verdict: tuple[bool, str]) -> Answer:
    good, reason = verdict
    status = HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE
    return json_answer({"ok": good, "reason": reason}, status)


def _handler(routes: dict[str, Route], guard: _TokenGuard) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "streamsapp"
        sys_version = ""
        timeout = _SOCKET_TIMEOUT_SECONDS

        def do_GET(self) -> None:
            self._send(self._answer(self.path.partition("?")[0]))

        def do_POST(self) -> None:
            # Its body is not read, so the connection cannot be used again.
            self.close_connection = True
            if self.path.partition("?")[0] in routes:
                error = {"error": f"{self.command} is not allowed here; use GET"}
                self._send(json_answer(error, HTTPStatus.METHOD_NOT_ALLOWED), Allow="GET, HEAD")
            else:
                self._send(self._not_found())

        do_HEAD = do_GET  # noqa: N815 - names given by http.server
        do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

        def _answer(self, path: str) -> Answer:
            if path not in _OPEN and not guard.admits(self.headers.get("Authorization")):
                return json_answer({"error": "send 'Authorization: Bearer <token>'"}, HTTPStatus.UNAUTHORIZED)
            if path not in routes:
                return self._not_found()
            try:
                return routes[path]()
            except Exception:
                log.exception("%s %s failed", self.command, path)
                return json_answer({"error": "failed; the log says why"}, HTTPStatus.INTERNAL_SERVER_ERROR)

        @staticmethod
        def _not_found() -> Answer:
            return json_answer({"error": "not found", "paths": sorted(routes)}, HTTPStatus.NOT_FOUND)

        def _send(self, answer: Answer, **headers: str) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in headers.items():
                self.send_header(name, value)
            if answer.status is HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

    return Handler
