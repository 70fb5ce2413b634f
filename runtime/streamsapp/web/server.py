"""The HTTP port of an instance, of the supervisor of several, or of the operator.

Made and closed by the code that runs the process. Requests are answered on daemon threads of their own, so that neither
a slow client nor an open connection holds up processing or shutdown.
"""

from __future__ import annotations

import errno
import logging
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import Any

from streamsapp.clock import Clock, SystemClock
from streamsapp.errors import ConfigError
from streamsapp.web.allocator import give_back_memory
from streamsapp.web.authorization import Authorization
from streamsapp.web.connections import MOST, Connections, HeadTooLargeError, read_head
from streamsapp.web.endpoint import endpoint_of
from streamsapp.web.request_routing import HttpRequest, HttpResponse, Route, Routes, find_route, json_response
from streamsapp.web.tokens import TokenFile

log = logging.getLogger(__name__)

_CLOCK = SystemClock()
#: IPv6's, and IPv4's with it: the kubelet and Prometheus come from outside the pod.
ALL_INTERFACES = "::"
#: A host without IPv6 says one of these.
_NO_IPV6 = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
#: Bytes of an answer that are sent at once.
_BLOCK = 64 << 10
#: An answer that took so much memory to make that the allocator is asked to give it back, in bytes.
_LARGE = 1 << 20
_TARGET = re.compile(r"/[!-~]*")
_HEADER = re.compile(r"[ -~]*")
#: The time that closing waits for the answer to a drain, which is what may have led to closing; seconds.
_LAST_ANSWERS = 2.0


class HttpServer:
    """Listens from the moment it is made, answers once started. ``port`` 0 takes any free one; ``token_file`` guards it
    where the folder of that file is mounted."""

    def __init__(
        self,
        port: int,
        *,
        host: str = ALL_INTERFACES,
        token_file: Path | None = None,
        clock: Clock = _CLOCK,
    ) -> None:
        self._guard = Authorization(None if token_file is None else TokenFile(token_file), clock)
        self._posts = _Pending()
        try:
            self._server = _listening(host, port)
        except (OSError, OverflowError) as error:
            why = error.strerror if isinstance(error, OSError) else "ports are 0 to 65535"
            raise ConfigError(
                f"http_port: cannot listen on {endpoint_of(host, port)}: {why}; choose another port or stop its user"
            ) from error
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """``host:port`` on which it listens."""
        return endpoint_of(str(self._server.server_address[0]), self.port)

    def start(self, routes: Routes, endpoint: str = "") -> None:
        """Serve until closed; ``endpoint`` is the ``host:port`` that the group's other members ask by."""
        self._guard.endpoint = endpoint
        service = _Service(routes, self._guard, self._posts, self._server.connections)
        self._server.RequestHandlerClass = _handler(service)
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests that are being answered are not waited for, but what was asked to be done."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()
        self._posts.wait(_LAST_ANSWERS)

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)


def _listening(host: str, port: int) -> _Server:
    """All interfaces are those of IPv4 alone on a host that has no IPv6."""
    try:
        return _Server((host, port), BaseHTTPRequestHandler)
    except OSError as error:
        if host != ALL_INTERFACES or error.errno not in _NO_IPV6:
            raise
        return _Server(("0.0.0.0", port), BaseHTTPRequestHandler)  # noqa: S104


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # Connections wait in it while this thread is held up: socketserver's five are fewer than may be inside.
    request_queue_size = MOST

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.connections = Connections()
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            # Both families, whatever the host's default is: the kubelet and other pods may come by either.
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.connections.admit(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        self.connections.leave(request)
        super().shutdown_request(request)

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


class _Service:
    """The state that all connections of a port share."""

    def __init__(self, routes: Routes, guard: Authorization, posts: _Pending, connections: Connections) -> None:
        self._routes = routes
        self._guard = guard
        self.posts = posts
        self.connections = connections

    def answer(self, request: HttpRequest, headers: Message) -> HttpResponse:
        """Answers any request."""
        if not _TARGET.fullmatch(request.target):
            error = {"error": "the path has to begin with / and to be percent-encoded"}
            return json_response(error, HTTPStatus.BAD_REQUEST)
        route = find_route(self._routes, request.path)
        if not (route is not None and route.open) and not self._guard.admits(request.method, request.target, headers):
            return _refusal(self._guard)
        if route is None:
            return json_response({"error": "not found", "paths": sorted(self._routes)}, HTTPStatus.NOT_FOUND)
        if not route.takes(request.method):
            return _not_allowed(request, route)
        try:
            return _checked(route.answer(request))
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return json_response({"error": "failed; the log says why"}, HTTPStatus.INTERNAL_SERVER_ERROR)


def _handler(service: _Service) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        server_version = "streamsapp"
        sys_version = ""

        def setup(self) -> None:
            super().setup()
            self._received = b""

        def handle_one_request(self) -> None:
            self.requestline = self.request_version = self.command = ""
            try:
                head, self._received = read_head(self.connection, self._received)
            except HeadTooLargeError:
                self.close_connection = True
                self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
                return
            except TimeoutError:
                head = b""
            self.rfile = BytesIO(head)
            super().handle_one_request()

        def do_GET(self) -> None:
            if _has_body(self.headers):
                # It is not read, so what follows on the connection is no request.
                self.close_connection = True
            request = HttpRequest(self.command, self.path, self.headers.get("Authorization", ""))
            with service.connections.busy(self.connection):
                answer = service.answer(request, self.headers)
            self._send(answer)

        def do_POST(self) -> None:
            self.close_connection = True
            with service.posts.one():
                self.do_GET()

        do_HEAD = do_GET  # noqa: N815 - names given by http.server
        do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

        def _send(self, answer: HttpResponse) -> None:
            # However the answer ended, nothing holds its stream any more.
            with nullcontext() if answer.stream is None else closing(answer.stream):
                self._write(answer)
            if len(answer.body) > _LARGE:
                give_back_memory()

        def _write(self, answer: HttpResponse) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.content_type)
            if answer.stream is None:
                self.send_header("Content-Length", str(len(answer.body)))
            else:
                self.close_connection = True
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                body = memoryview(answer.body)
                for begin in range(0, len(body), _BLOCK):  # a client has its time for each
                    self.wfile.write(body[begin : begin + _BLOCK])
                for piece in answer.stream or ():
                    self.wfile.write(piece)

    return Handler


def _has_body(headers: Message) -> bool:
    lengths = headers.get_all("Content-Length", [])
    return "Transfer-Encoding" in headers or any(length.strip() != "0" for length in lengths)


def _checked(answer: HttpResponse) -> HttpResponse:
    """Raises ``ValueError`` for headers that would end before their end: parts of them may come from others."""
    for name, value in answer.headers.items():
        if not _HEADER.fullmatch(value):
            raise ValueError(f"the header {name} has characters that no header may have: {value!r}")
    return answer


def _refusal(guard: Authorization) -> HttpResponse:
    if guard.closed:
        error = {"error": "send 'Authorization: Bearer <token>'"}
        return json_response(error, HTTPStatus.UNAUTHORIZED, **{"WWW-Authenticate": "Bearer"})
    remedy = "ask without Origin, by an address, by localhost, or by the name that application_server has"
    return json_response({"error": f"this port has no token and answers no other site; {remedy}"}, HTTPStatus.FORBIDDEN)


def _not_allowed(request: HttpRequest, route: Route) -> HttpResponse:
    error = {"error": f"{request.method} is not allowed here; use {route.method}"}
    return json_response(error, HTTPStatus.METHOD_NOT_ALLOWED, Allow=route.allowed)
