"""The HTTP port of an instance, or of the supervisor of several.

Made and closed by the command line. Requests are answered on daemon threads of their own, so that neither a slow
client nor an open connection holds up processing or shutdown.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from streamsapp.errors import ConfigError
from streamsapp.http.messages import Answer, Request, Route, Routes, find_route, json_answer
from streamsapp.query.tokens import TokenFile

log = logging.getLogger(__name__)

_SOCKET_TIMEOUT_SECONDS = 10.0
#: How long closing waits for the answer to a drain, which is what may have led to closing; seconds.
_LAST_ANSWERS = 2.0


class HttpServer:
    """Listens from the moment it is made, answers once started. ``port`` 0 takes any free one; ``token_file`` guards it
    where the folder of that file is mounted."""

    def __init__(
        self, port: int, *, host: str = "0.0.0.0", token_file: Path | None = None  # noqa: S104
    ) -> None:  # fmt: skip
        self.host = host
        self._guard = _TokenGuard(None if token_file is None else TokenFile(token_file))
        self._posts = _Pending()
        try:
            self._server = _Server((host, port), BaseHTTPRequestHandler)
        except OSError as error:
            raise ConfigError(
                f"http_port: cannot listen on {host}:{port}: {error.strerror}; choose another port or stop its user"
            ) from error
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self, routes: Routes) -> None:
        """Serve until closed."""
        self._server.RequestHandlerClass = _handler(routes, self._guard, self._posts)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests that are being answered are not waited for, but what was asked to be done."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._posts.wait(_LAST_ANSWERS)

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""
        log.debug("a request from %s broke off: %s", client_address, sys.exception())


class _Pending:
    """Counts what is being answered."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0

    @contextmanager
    def one(self) -> Iterator[None]:
        with self._changed:
            self._count += 1
        try:
            yield
        finally:
            with self._changed:
                self._count -= 1
                self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._count, timeout)


class _TokenGuard:
    """Compares bearer tokens."""

    def __init__(self, file: TokenFile | None) -> None:
        self._file = file

    def admits(self, authorization: str | None) -> bool:
        if self._file is None or not self._file.mounted:
            return True
        scheme, _, given = (authorization or "").partition(" ")
        # Headers come as bytes, which http.server reads as Latin-1.
        return scheme.lower() == "bearer" and self._file.admits(given.strip().encode("latin-1"))


def _handler(routes: Routes, guard: _TokenGuard, posts: _Pending) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "streamsapp"
        sys_version = ""
        timeout = _SOCKET_TIMEOUT_SECONDS

        def do_GET(self) -> None:
            self._send(self._answer(Request(self.command, self.path)))

        def do_POST(self) -> None:
            # Its body is not read, so the connection cannot be used again.
            self.close_connection = True
            with posts.one():
                self.do_GET()

        do_HEAD = do_GET  # noqa: N815 - names given by http.server
        do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

        def _answer(self, request: Request) -> Answer:
            route = find_route(routes, request.path)
            if not (route is not None and route.open) and not guard.admits(self.headers.get("Authorization")):
                return json_answer({"error": "send 'Authorization: Bearer <token>'"}, HTTPStatus.UNAUTHORIZED)
            if route is None:
                return json_answer({"error": "not found", "paths": sorted(routes)}, HTTPStatus.NOT_FOUND)
            if not route.takes(request.method):
                return _not_allowed(request, route)
            try:
                return route.answer(request)
            except Exception:
                log.exception("%s %s failed", request.method, request.path)
                return json_answer({"error": "failed; the log says why"}, HTTPStatus.INTERNAL_SERVER_ERROR)

        def _send(self, answer: Answer) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.status is HTTPStatus.UNAUTHORIZED:
                self.send_header("WWW-Authenticate", "Bearer")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)

    return Handler


def _not_allowed(request: Request, route: Route) -> Answer:
    error = {"error": f"{request.method} is not allowed here; use {route.method}"}
    return json_answer(error, HTTPStatus.METHOD_NOT_ALLOWED, Allow=route.allowed)
