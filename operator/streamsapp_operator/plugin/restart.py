"""``kubectl streamsapp restart NAME [--wait]``: asks for a rolling restart, and follows it to its end. Runs on the main
thread."""

from __future__ import annotations

import argparse

from streamsapp_operator import annotation_requests
from streamsapp_operator.children.names import RESTARTED_AT
from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import read_app
from streamsapp_operator.plugin.errors import WRONG_INPUT, PluginError
from streamsapp_operator.plugin.following import RolloutWait, add_timeout
from streamsapp_operator.plugin.session import CommandSession, warn
from streamsapp_operator.plugin.status import forsaken


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
    add_timeout(parser, "with --wait: stop following after so long; it goes on all the same")


def run(options: argparse.Namespace, session: CommandSession) -> int:
    before = read_app(session.cluster.app(options.name))
    if before.replicas == 0 and not before.autoscaled:
        raise PluginError(
            f"{before.name} is suspended (replicas is 0): there is nothing to restart; scale it up instead"
        )
    if options.pod is not None:
        return _restart_pod(options, session)
    changes = annotation_requests.restart(session.now())
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
    quiet = options.output == "json"
    return RolloutWait(before, before.status, session, options.timeout, quiet=quiet).run()


def _restart_pod(options: argparse.Namespace, session: CommandSession) -> int:
    """Restarts one pod by its uid: a pod that was replaced meanwhile is not replaced again."""
    if options.wait:
        raise PluginError(
            "--pod: is not followed by --wait; see it with kubectl streamsapp status --watch", WRONG_INPUT
        )
    pods = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in session.cluster.pods(options.name)}
    if options.pod not in pods:
        there = f"there are: {', '.join(pods)}" if pods else "there is none"
        raise PluginError(f"--pod: {options.name} has no pod {options.pod!r}; {there}", WRONG_INPUT)
    session.cluster.annotate(options.name, annotation_requests.restart_pod(pods[options.pod]))
    if options.output == "json":
        session.print_json({"name": options.name, "pod": options.pod, "uid": pods[options.pod]})
    else:
        session.print([f"{session.style.title(options.name)}: {options.pod} is restarted as soon as that is safe"])
    return 0
