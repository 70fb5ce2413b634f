"""Answers ``/healthz``, ``/readyz`` and ``/metrics`` of the operator. Called on threads of the HTTP server."""

from __future__ import annotations

from http import HTTPStatus
from typing import Protocol

from prometheus_client import CONTENT_TYPE_LATEST

from streamsapp.web.request_routing import HttpResponse, Route, Routes, probe
from streamsapp_operator.loop import Key
from streamsapp_operator.metrics import OperatorMetrics
from streamsapp_operator.steady_clock import SteadyClock
from streamsapp_operator.watch_health import WatchAge

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
            return False, f"a watcher has missed for {behind:.0f} s what a list shows"
        if oldest is not None and stuck > HUNG_SECONDS:
            return False, f"the loop of {oldest[0]} has made no step for {stuck:.0f} s"
        # A new start would not help, and the console must stay reachable.
        return True, f"works, but {self._figures.left_alone_text}" if self._figures.left_alone_text else "works"

    def metrics(self) -> bytes:
        self.healthy()  # brings its figures up to date
        return self._figures.render()


def probe_routes(health: OperatorHealth) -> Routes:
    """The routes of the probes and of the metrics, which every client may ask."""
    return {
        "/healthz": Route(lambda _: probe(health.healthy()), open=True),
        # One that stands by is ready too: a new operator must be, for the old one to go.
        "/readyz": Route(lambda _: probe((True, "answers")), open=True),
        "/metrics": Route(lambda _: HttpResponse(HTTPStatus.OK, health.metrics(), CONTENT_TYPE_LATEST), open=True),
    }
