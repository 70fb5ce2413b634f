"""``kubectl streamsapp pause NAME`` and ``approve NAME``: hold a rollout, and let it go on. Runs on the main thread."""

from __future__ import annotations

import argparse

from streamsapp_operator import annotation_requests
from streamsapp_operator.children.names import APPROVED
from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import read_app
from streamsapp_operator.plugin.errors import PluginError
from streamsapp_operator.plugin.session import CommandSession


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_command(
        commands,
        "pause",
        "hold the rollout, and those to come: no pod is taken for one",
        "A step that is under way ends. `kubectl streamsapp approve NAME` lets it go on.",
        pause,
    )
    add_command(
        commands,
        "approve",
        "let a rollout go on that is paused, or waits with a part of the pods",
        "It ends a pause, and lets the revision go on past spec.rollout.partition and past its preview. It opens "
        "no maintenance window.",
        approve,
    )


def pause(options: argparse.Namespace, session: CommandSession) -> int:
    said = "paused: no pod is taken for a rollout; approve lets it go on"
    return _annotate(session, options, annotation_requests.pause(), said)


def approve(options: argparse.Namespace, session: CommandSession) -> int:
    document = session.cluster.app(options.name)
    changes = annotation_requests.approve(document, read_app(document).status.rollout)
    if changes is None:
        raise PluginError(f"{options.name}: no rollout waits and none is paused, so there is nothing to approve")
    approved = changes.get(APPROVED)
    said = "goes on" if approved is None else f"revision {approved} is approved for all pods"
    return _annotate(session, options, changes, said)


def _annotate(
    session: CommandSession, options: argparse.Namespace, changes: annotation_requests.Annotations, said: str
) -> int:
    found = session.cluster.annotate(options.name, changes)
    if options.output == "json":
        metadata = found["metadata"]
        session.print_json({"name": metadata["name"], "namespace": metadata["namespace"], "annotations": dict(changes)})
    else:
        session.print([f"{session.style.title(options.name)}: {said}"])
    return 0
