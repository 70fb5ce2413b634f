"""Follows a rollout to its end: ``restart --wait`` and ``rollout status``. Runs on the main thread."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from streamsapp_operator.model.resource_status import to_document
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plugin.documents import StreamsAppSummary, read_app
from streamsapp_operator.plugin.errors import FAILED, PluginError
from streamsapp_operator.plugin.progress import Follower
from streamsapp_operator.plugin.session import CommandSession, warn
from streamsapp_operator.plugin.status import unattended
from streamsapp_operator.plugin.style import Tone

_LOOK_SECONDS = 0.5
#: An operator that is well has taken it up by then.
_TAKEN_UP_SECONDS = 30.0


def add_timeout(parser: argparse.ArgumentParser, help: str) -> None:
    """Adds the option that ends following."""
    parser.add_argument("--timeout", type=_seconds, metavar="SECONDS", help=help)


class RolloutWait:
    """Follows the rollout that begins after ``since``; with an empty status, the one that is there."""

    def __init__(
        self, app: StreamsAppSummary, since: AppStatus, session: CommandSession, timeout: float | None, *, quiet: bool
    ) -> None:
        self._app = app
        self._session = session
        self._timeout = timeout
        #: JSON is the only output, at the end.
        self._quiet = quiet
        self._follower = Follower(since, session.style)
        self._began = session.clock.monotonic()
        self._warned = False

    @property
    def _spent(self) -> float:
        return self._session.clock.monotonic() - self._began

    def run(self) -> int:
        while True:
            app = self._look()
            if self._follower.outcome is not None:
                return self._end(app)
            if self._timeout is not None and self._spent > self._timeout:
                self._tell([])
                raise PluginError(
                    f"not done after {self._timeout:g} s, and goes on: "
                    f"kubectl streamsapp status {app.name} -n {app.namespace}"
                )
            self._warn_if_forgotten(app)
            self._session.wait(_LOOK_SECONDS)

    def _look(self) -> StreamsAppSummary:
        app = read_app(self._session.cluster.app(self._app.name))
        self._tell(list(self._follower.update(app.status, self._session.now())))
        if not self._quiet and self._follower.outcome is None:
            self._session.overwrite(self._session.style.paint(self._follower.now_line(self._session.now()), Tone.DIM))
        return app

    def _end(self, app: StreamsAppSummary) -> int:
        if self._quiet:
            self._session.print_json(to_document(app.status)["rollout"])
        else:
            self._tell([self._follower.verdict(self._spent)])
        return 0 if self._follower.outcome == "Complete" else FAILED

    def _tell(self, lines: Sequence[str]) -> None:
        if not self._quiet:
            self._session.overwrite("")
            self._session.print(lines)

    def _warn_if_forgotten(self, app: StreamsAppSummary) -> None:
        if self._follower.begun or self._warned or self._spent < _TAKEN_UP_SECONDS:
            return
        self._warned = True
        self._tell([])
        if app.attended:
            warn("no operator has taken it up yet: is one running? It begins when one comes back")
        else:
            for line in unattended(app, self._session.cluster.operators()):
                warn(line)


def _seconds(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("expected seconds, more than 0")
    return value
