"""``kubectl streamsapp restart NAME [--wait]``: asks for a rolling restart, and follows it to its end. Runs on the main
thread."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from streamsapp_operator import orders
from streamsapp_operator.children.names import RESTARTED_AT
from streamsapp_operator.model.status import to_document
from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import StreamsAppSummary, read_app
from streamsapp_operator.plugin.errors import FAILED, WRONG_INPUT, PluginError
from streamsapp_operator.plugin.progress import Follower
from streamsapp_operator.plugin.session import CommandSession, warn
from streamsapp_operator.plugin.status import forsaken, unattended
from streamsapp_operator.plugin.style import Tone

_LOOK_SECONDS = 0.5
#: An operator that is well has taken it up by then.
_TAKEN_UP_SECONDS = 30.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "restart",
        "restart all pods, one at a time, each only when that is safe",
        "Exit code with --wait: 0 every pod was restarted, 1 rolled back, given up or refused.",
        run,
    )
    parser.add_argument("--pod", metavar="POD", help="this pod alone, which keeps its revision")
    parser.add_argument("--wait", action="store_true", help="follow it to its end")
    parser.add_argument(
        "--timeout",
        type=_seconds,
        metavar="SECONDS",
        help="with --wait: stop following after so long; it goes on all the same",
    )


def run(options: argparse.Namespace, session: CommandSession) -> int:
    before = read_app(session.cluster.app(options.name))
    if before.replicas == 0 and not before.autoscaled:
        raise PluginError(
            f"{before.name} is suspended (replicas is 0): there is nothing to restart; scale it up instead"
        )
    if options.pod is not None:
        return _restart_pod(options, session)
    changes = orders.restart(session.now())
    session.cluster.annotate(before.name, changes)
    if options.output == "text":
        session.print([f"{session.style.title(before.name)}: restart asked for in namespace {before.namespace}"])
    nobody = forsaken(before, session.cluster.operators()) if before.attended else None
    if nobody is not None:
        warn(f"{nobody} It begins when one runs again")
    if not options.wait:
        if options.output == "json":
            at = changes[RESTARTED_AT]
            session.print_json({"name": before.name, "namespace": before.namespace, "restartedAt": at})
        else:
            session.print([f"  follow it: kubectl streamsapp status {before.name} -n {before.namespace} --watch"])
        return 0
    return _Wait(before, session, options.timeout, quiet=options.output == "json").run()


def _restart_pod(options: argparse.Namespace, session: CommandSession) -> int:
    """Restarts one pod by its uid: one that was replaced meanwhile is not replaced again."""
    if options.wait:
        raise PluginError(
            "--pod: is not followed by --wait; see it with kubectl streamsapp status --watch", WRONG_INPUT
        )
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in session.cluster.pods(options.name)}
    if options.pod not in pods:
        there = f"there are: {', '.join(pods)}" if pods else "there is none"
        raise PluginError(f"--pod: {options.name} has no pod {options.pod!r}; {there}", WRONG_INPUT)
    session.cluster.annotate(options.name, orders.restart_pod(pods[options.pod]))
    if options.output == "json":
        session.print_json({"name": options.name, "pod": options.pod, "uid": pods[options.pod]})
    else:
        session.print([f"{session.style.title(options.name)}: {options.pod} is restarted as soon as that is safe"])
    return 0


class _Wait:
    """Follows the restart that was asked for just now."""

    def __init__(
        self, before: StreamsAppSummary, session: CommandSession, timeout: float | None, *, quiet: bool
    ) -> None:
        self._app = before
        self._session = session
        self._timeout = timeout
        #: JSON is the only output, at the end.
        self._quiet = quiet
        self._follower = Follower(before.status, session.style)
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
