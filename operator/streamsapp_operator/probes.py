"""Serves the operator's HTTP port: ``/healthz``, ``/readyz``, ``/metrics``.

Made and closed by ``__main__``; each request is answered on a daemon thread of its own.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

from prometheus_client import CONTENT_TYPE_LATEST

from streamsapp.errors import ConfigError
from streamsapp_operator.loop import Key
from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.steady_clock import SteadyClock
from streamsapp_operator.watch_health import WatchAge

log = logging.getLogger(__name__)

#: A watcher that owes something for longer, or a loop that does not get on, is hung; seconds.
HUNG_SECONDS = 60.0


class Beats(Protocol):
    """The loops, as far as their health goes."""

    def oldest(self) -> tuple[Key, float] | None:
        """Returns the loop that has not got on for the longest time, and since when."""
        ...


class OperatorHealth:
    """Says whether the operator does its work."""

    def __init__(self, clock: SteadyClock, figures: OperatorMetrics) -> None:
        self._clock = clock
        self._figures = figures
        #: From when this operator leads.
        self.working: tuple[WatchAge, Beats] | None = None

    def healthy(self) -> tuple[bool, str]:
        """Says whether the operator is healthy. If not, a new start helps: a watcher is silent, or a loop hangs."""
        if self.working is None:
            return True, "stands by"
        age, loops = self.working
        now = self._clock.now()
        behind, oldest = age.behind(now), loops.oldest()
        stuck = 0.0 if oldest is None else now - oldest[1]
        self._figures.watch_behind.set(behind)
        self._figures.loop_age.set(stuck)
        if behind > HUNG_SECONDS:
            return False, f"a watcher has not told for {behind:.0f} s what a list shows"
        if oldest is not None and stuck > HUNG_SECONDS:
            return False, f"the loop of {oldest[0]} has not got on for {stuck:.0f} s"
        return True, "works"

    def metrics(self) -> bytes:
        self.healthy()  # brings its figures up to date
        return self._figures.render()


class ProbeServer:
    """Serves the probes; it listens from the moment it is made."""

    def __init__(self, port: int, health: OperatorHealth) -> None:
        answers: Mapping[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {
            "/healthz": lambda: _verdict(health.healthy()),
            # One that stands by is ready too: a new operator must be, for the old one to go.
            "/readyz": lambda: _verdict((True, "answers")),
            "/metrics": lambda: (HTTPStatus.OK, CONTENT_TYPE_LATEST, health.metrics()),
        }
        try:
            self._server = _Server(("0.0.0.0", port), _handler(answers))  # noqa: S104 - the kubelet is outside
        except OSError as error:
            raise ConfigError(f"--http-port: cannot listen on {port}: {error.strerror}; choose another one") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="http", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False


def _verdict(verdict: tuple[bool, str]) -> tuple[HTTPStatus, str, bytes]:
    good, reason = verdict
    body = json.dumps({"ok": good, "reason": reason}).encode()
    return (HTTPStatus.OK if good else HTTPStatus.SERVICE_UNAVAILABLE), "application/json", body


def _handler(answers: Mapping[str, Callable[[], tuple[HTTPStatus, str, bytes]]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            answer = answers.get(self.path.partition("?")[0])
            if answer is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            status, content_type, body = answer()
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            log.debug(format, *args)

    return Handler
