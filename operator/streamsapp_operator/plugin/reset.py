"""``kubectl streamsapp reset NAME``: makes an application start over, once none of its pods is left. Runs on the main
thread; the work is done by ``streamsapp reset`` in a pod beside the application."""

from __future__ import annotations

import argparse
import sys

from streamsapp_operator.plugin.arguments import add_command, add_forwarded, forwarded_arguments
from streamsapp_operator.plugin.command_pods import command_pod_of
from streamsapp_operator.plugin.documents import read_app
from streamsapp_operator.plugin.errors import FAILED, WRONG_INPUT, PluginError
from streamsapp_operator.plugin.session import CommandSession, Document, warn

_WHERE = {
    "--to-earliest": "read input topics from their start (default)",
    "--to-latest": "skip all records that are in the input topics",
    "--to-offset": "read every partition from this offset",
    "--to-datetime": "read from the first record of this time on (ISO 8601)",
    "--shift-by": "move so many records forward, or back if negative",
}
_OPTIONS = _WHERE | {"--internal-topics": "delete these topics as well (A,B)"}
_DETAILS = (
    "It deletes the application's snapshots and internal topics, and sets the offsets of its input topics. No pod of\n"
    "it may be left: `kubectl streamsapp scale NAME 0` first. A pod beside the application runs `streamsapp reset`."
)


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(commands, "reset", "make an application start over", _DETAILS, run)
    parser.add_argument("--dry-run", action="store_true", help="print the plan, change nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_forwarded(parser, _OPTIONS, flags=("--to-earliest", "--to-latest"), exclusive=_WHERE)


def run(options: argparse.Namespace, session: CommandSession) -> int:
    app = session.cluster.app(options.name)
    _refuse_while_it_runs(app, session)
    asks = not options.yes and not options.dry_run
    if asks and not sys.stdin.isatty():
        raise PluginError(
            "there is no terminal to ask at: look at the plan with --dry-run, then pass --yes", WRONG_INPUT
        )
    arguments = [*forwarded_arguments(options, _OPTIONS), "--output", options.output]
    with command_pod_of(session, app, "reset") as pod:
        if asks or options.dry_run:
            code = pod.run("reset", [*arguments, "--dry-run"])
            if code or options.dry_run:
                return code
            if not _agreed(options.name):
                return FAILED
        return pod.run("reset", arguments)


def _refuse_while_it_runs(app: Document, session: CommandSession) -> None:
    summary, pods = read_app(app), session.cluster.pods(app["metadata"]["name"])
    runs = summary.status.schedule
    if pods:
        said = f"its pods are there ({', '.join(pod['metadata']['name'] for pod in pods)})"
    elif summary.replicas:
        said = f"it is to have {summary.replicas} pods"
    elif runs is not None and runs.result == "Running":
        ends = f"kubectl delete job --selector=streamsapp.dev/run={summary.name}"
        said = f"a scheduled run of it is under way, which `{ends}` would end"
    else:
        return
    by_plugin, by_kubectl = f"streamsapp scale {summary.name} 0", f"scale streamsapps/{summary.name} --replicas=0"
    command = f"kubectl {by_kubectl if summary.autoscaled else by_plugin}"
    remedy = f"scale it to 0 first, and wait until nothing of it runs: {command}"
    raise PluginError(f"{summary.name} is not stopped: {said}; {remedy}", WRONG_INPUT)


def _agreed(name: str) -> bool:
    warn(f"{name}: carry this out? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
