"""``kubectl streamsapp rollout status|history|undo NAME``: what ``kubectl rollout`` does for a Deployment. Runs on the
main thread."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from streamsapp_operator import annotation_requests
from streamsapp_operator.model.resource_status import to_document
from streamsapp_operator.model.status import AppStatus, RolloutRecord, RolloutStatus
from streamsapp_operator.plan.rollout_history import is_undoable, undo_target
from streamsapp_operator.plugin.arguments import add_command
from streamsapp_operator.plugin.documents import StreamsAppSummary, read_app, seconds_since
from streamsapp_operator.plugin.errors import FAILED, WRONG_INPUT, PluginError
from streamsapp_operator.plugin.following import RolloutWait, add_timeout
from streamsapp_operator.plugin.session import CommandSession, Document
from streamsapp_operator.plugin.status_view import rollout_tone
from streamsapp_operator.plugin.table import Column, Row, TableCell, render
from streamsapp_operator.plugin.text import age, brief, clean, gap, seconds
from streamsapp_operator.spec_reader import requests_of

_LOOK_SECONDS = 0.5
_COLUMNS = [
    Column("REVISION"), Column("PHASE"), Column("BEGAN"), Column("TOOK"), Column("PODS", right=True),
    Column("LONGEST-GAP", right=True), Column("UNDO"), Column("WHY"),
]  # fmt: skip


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = add_command(
        commands,
        "rollout",
        "follow the rollout, list the last ones, or go back to an earlier revision",
        "status: follows the rollout that is under way to its end; 0 complete, 1 rolled back, given up or refused.\n"
        "history: the last rollouts, the newest first.\n"
        "undo: rolls the last good revision before this one out, pod by pod, until the spec changes.",
        run,
        actions=("status", "history", "undo"),
    )
    parser.add_argument("--no-watch", action="store_true", help="status: print the state and end")
    parser.add_argument("--to-revision", metavar="REVISION", help="undo: one of those that history marks with 'yes'")
    add_timeout(parser, "status: stop following after so long; the rollout goes on")


def run(options: argparse.Namespace, session: CommandSession) -> int:
    commands = {"status": _status, "history": _history, "undo": _undo}
    return commands[options.action](options, session)


def _status(options: argparse.Namespace, session: CommandSession) -> int:
    app = _observed(options, session)
    rollout = app.status.rollout
    if rollout is None:
        raise PluginError(f"{app.name}: no rollout has begun; see: kubectl streamsapp status {app.name}")
    if options.no_watch:
        if options.output == "json":
            session.print_json(to_document(app.status)["rollout"])
        else:
            session.print([f"{session.style.title(app.name)}: {_in_words(rollout)}"])
        return FAILED if rollout.phase in {"RolledBack", "TimedOut", "Refused"} else 0
    return RolloutWait(app, AppStatus(), session, options.timeout, quiet=options.output == "json").run()


def _observed(options: argparse.Namespace, session: CommandSession) -> StreamsAppSummary:
    """Waits until an operator has seen the spec, and an undo of it: the status before is about an earlier one."""
    began = session.clock.monotonic()
    while True:
        document = session.cluster.app(options.name)
        app = read_app(document)
        if options.no_watch or _is_observed(document, app):
            return app
        if options.timeout is not None and session.clock.monotonic() - began > options.timeout:
            raise PluginError(
                f"{app.name}: no operator has seen the last change of the spec within {options.timeout:g} s"
            )
        session.wait(_LOOK_SECONDS)


def _is_observed(document: Document, app: StreamsAppSummary) -> bool:
    undone, rollout = requests_of(document).undone_to, app.status.rollout
    refused = any(it.type == "Stalled" and it.reason == "InvalidSpec" for it in app.status.conditions)
    taken_up = undone is None or refused or (rollout is not None and rollout.revision == undone)
    return taken_up and app.status.observed_generation >= app.generation


def _in_words(rollout: RolloutStatus) -> str:
    reach = f"{rollout.phase}: {rollout.updated} of {rollout.total} pods have revision {clean(rollout.revision)}"
    return f"{reach}; {brief(clean(rollout.message))}" if rollout.message else reach


def _history(options: argparse.Namespace, session: CommandSession) -> int:
    app = read_app(session.cluster.app(options.name))
    if options.output == "json":
        session.print_json(to_document(app.status)["history"])
        return 0
    rows = [_row(record, app.status, session) for record in app.status.history]
    session.print(list(render(_COLUMNS, rows, session.style)) or [f"{app.name}: no rollout has begun"])
    return 0


def _row(record: RolloutRecord, status: AppStatus, session: CommandSession) -> Row:
    now = session.now()
    began = "" if record.started_at is None else f"{age(seconds_since(record.started_at, now))} ago"
    took = "" if record.ended_at is None else seconds(seconds_since(record.started_at, record.ended_at))
    gaps = [step.observed_seconds for step in record.steps if step.observed_seconds is not None]
    tone = rollout_tone(RolloutStatus(revision=record.revision, phase=record.phase))
    return [
        record.revision, TableCell(record.phase, tone), began, took, str(len(record.steps) or ""),
        gap(max(gaps)) if gaps else "", "yes" if is_undoable(status, record.revision) else "",
        brief(clean(record.failure or "")),
    ]  # fmt: skip


def _undo(options: argparse.Namespace, session: CommandSession) -> int:
    document = session.cluster.app(options.name)
    app = read_app(document)
    target = options.to_revision or undo_target(app.status)
    if target is None:
        raise PluginError(
            f"{app.name}: there is no good revision before this one; see: kubectl streamsapp rollout history"
        )
    if not is_undoable(app.status, target):
        kept = ", ".join(_undoable(app.status)) or "none"
        raise PluginError(
            f"--to-revision: {app.name} has no revision {target!r} to go back to; kept is {kept}", WRONG_INPUT
        )
    changes = annotation_requests.undo(document, target)
    session.cluster.annotate(app.name, changes)
    if options.output == "json":
        session.print_json({"name": app.name, "namespace": app.namespace, "revision": target})
        return 0
    session.print([
        f"{session.style.title(app.name)}: revision {target} is rolled out in place of the spec's, until that changes",
        f"  follow it: kubectl streamsapp rollout status {app.name} -n {app.namespace}",
    ])  # fmt: skip
    return 0


def _undoable(status: AppStatus) -> Iterator[str]:
    seen: Sequence[str] = list(dict.fromkeys(record.revision for record in status.history))
    return (revision for revision in seen if is_undoable(status, revision))
