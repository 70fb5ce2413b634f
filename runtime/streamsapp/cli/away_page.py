"""The page of an application that is not there: ``local --watch`` serves it at the application's port until it is back.

Begun and ended on the thread that looks after the application, or on the main thread; it answers on threads of the HTTP
server. It reports the last failure, with the record that it happened at.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from streamsapp.errors import ConfigError
from streamsapp.http.console_routes import console_routes
from streamsapp.manifest.mounts import HTTP_TOKEN_FILE
from streamsapp.supervisor.last_failure import LastFailure
from streamsapp.web import HttpServer
from streamsapp.web.request_routing import HttpRequest, HttpResponse, Route, Routes, json_response, probe

log = logging.getLogger(__name__)


class AwayPage:
    """Answers at a port while no other process does."""

    def __init__(self, application_id: str, host: str, port: int) -> None:
        self._application_id = application_id
        self._host, self._port = host, port
        self._lock = threading.Lock()
        self._server: HttpServer | None = None
        self._failure: LastFailure | None = None
        #: Ends the streams of pages, which ask again then, and get the application's own.
        self._over = threading.Event()

    def begin(self, failure: LastFailure | None) -> None:
        """The application has ended; it may have said why."""
        with self._lock:
            self._failure = failure
            if self._server is not None:
                return
            try:
                self._server = HttpServer(self._port, host=self._host, token_file=HTTP_TOKEN_FILE)
            except ConfigError as error:
                log.info("no page is served while the application is away: %s", error)
                return
            self._over = threading.Event()
            self._server.start(self._routes(self._over))

    def end(self) -> None:
        """The application is about to start, and needs the port."""
        with self._lock:
            server, self._server = self._server, None
            self._over.set()
        if server is not None:
            server.close()

    def _routes(self, over: threading.Event) -> Routes:
        away = Route(lambda _: probe((False, self._reason)), open=True)
        pages = console_routes(lambda tapped: [], failures=self._failures, over=over)
        return {**pages, "/healthz": away, "/readyz": away, "/status": Route(self._status)}

    def _failures(self) -> list[dict[str, Any]]:
        return [] if self._failure is None else [self._failure.as_data()]

    @property
    def _reason(self) -> str:
        return "the application is not running" + ("" if self._failure is None else f": {self._failure.message}")

    def _status(self, request: HttpRequest) -> HttpResponse:
        return json_response(
            {
                "applicationId": self._application_id,
                "state": "ERROR" if self._failure is not None else "NOT_RUNNING",
                "ready": False,
                "tasks": [],
                "failures": self._failures(),
            }
        )
