"""``kubectl streamsapp snapshots NAME``: shows what remote state has of each task, as the pods that write it know it.
Runs on the main thread."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import read_app, seconds_since
from streamsapp_operator.plugin.session import CommandSession, Document, warn
from streamsapp_operator.plugin.status import fetch
from streamsapp_operator.plugin.tasks_view import TaskOnPod, held_tasks, snapshots_table


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    add_command(
        commands,
        "snapshots",
        "the newest snapshot of each task",
        "BEHIND: records that a restore from it replays. RESTORE: what that is predicted to take on an empty disk.\n"
        "`streamsapp snapshots list|verify -f app.yaml` reads the object store itself.",
        run,
    )


def run(options: argparse.Namespace, session: CommandSession) -> int:
    document, _, pods = fetch(options.name, session)
    app, held = read_app(document), held_tasks(pods)
    for pod in pods:
        if pod.answer.fault:
            warn(f"{pod.name}: {pod.answer.fault}")
    if options.output == "json":
        session.print_json(list(_as_data(held)))
    elif not app.has_remote_state:
        session.print([f"{app.name} has no remote state (spec.remoteState), so there are no snapshots"])
    else:
        session.print(list(snapshots_table(held, session.style)) or [f"{app.name}: no pod reports a task with stores"])
    return 0


def _as_data(held: Sequence[TaskOnPod]) -> Iterator[Document]:
    for each in held:
        if each.task.role != "active":
            continue
        for store in each.task.stores:
            saved = store.snapshot
            yield {
                "task": each.task.id,
                "store": store.name,
                "pod": each.pod.name,
                "epoch": None if saved is None else saved.epoch,
                "offset": None if saved is None else saved.offset,
                "lag": store.snapshot_lag,
                "ageSeconds": None if saved is None else seconds_since(saved.fresh_at, each.at),
                "bytes": None if saved is None else saved.bytes,
                "predictedRestoreSeconds": None if each.task.restore is None else each.task.restore.predicted_seconds,
            }
