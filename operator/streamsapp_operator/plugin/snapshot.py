"""``kubectl streamsapp snapshot now NAME``: has the pods snapshot their tasks at once, before maintenance for instance.
Runs on the main thread."""

from __future__ import annotations

import argparse

from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import is_ready, read_app
from streamsapp_operator.plugin.errors import FAILED, PluginError
from streamsapp_operator.plugin.session import CommandSession
from streamsapp_operator.plugin.style import Tone
from streamsapp_operator.plugin.text import clean

_SECONDS = 300.0


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "snapshot",
        "take a snapshot of every task now",
        "All ready pods at the same time. 0: every one did. `kubectl streamsapp snapshots NAME` shows them.",
        run,
        actions=("now",),
    )
    parser.add_argument(
        "--timeout", type=float, default=_SECONDS, metavar="SECONDS", help=f"for each pod; default: {_SECONDS:g}"
    )


def run(options: argparse.Namespace, session: CommandSession) -> int:
    app = read_app(session.cluster.app(options.name))
    if not app.has_remote_state:
        raise PluginError(f"{app.name} has no remote state (spec.remoteState), so there is nowhere to put a snapshot")
    if app.status.engine == "spark":
        raise PluginError(f"{app.name} runs on Spark, whose batches take their snapshots themselves")
    pods = session.cluster.pods(app.name)
    ready = [pod for pod in pods if is_ready(pod)]
    if not ready:
        raise PluginError(f"{app.name} has no pod that is ready; see: kubectl streamsapp status {app.name}")
    faults = session.cluster.take_snapshots(app.name, ready, options.timeout)
    faults |= {pod["metadata"]["name"]: "it is not ready" for pod in pods if not is_ready(pod)}
    if options.output == "json":
        session.print_json([{"pod": pod, "taken": fault is None, "fault": fault} for pod, fault in faults.items()])
    else:
        session.print(_line(session, pod, fault) for pod, fault in faults.items())
    return FAILED if any(faults.values()) else 0


def _line(session: CommandSession, pod: str, fault: str | None) -> str:
    if fault is None:
        return f"{pod}: {session.style.paint('a snapshot of every task was taken', Tone.GOOD)}"
    return f"{pod}: {session.style.paint(clean(fault), Tone.BAD)}"
