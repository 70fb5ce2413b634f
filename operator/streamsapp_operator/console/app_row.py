"""One application as a row among all of them. Pure: the object in, a row out."""

from __future__ import annotations

from urllib.parse import quote

from streamsapp_operator.console.tables import PageCell, PageRow
from streamsapp_operator.kube.kinds import Object
from streamsapp_operator.model.status import AppStatus
from streamsapp_operator.plugin.documents import StreamsAppSummary, read_app
from streamsapp_operator.plugin.status_view import condition_tone, health, rollout_tone
from streamsapp_operator.plugin.style import Tone
from streamsapp_operator.plugin.text import count

COLUMNS = (
    "Application", "Namespace", "State", "#Pods ready", "#Input lag", "#Worst standby", "Restart", "Rollout",
    "Snapshots", "Engine",
)  # fmt: skip


def key_of(document: Object) -> str:
    """Returns what an application is known by among all."""
    return f"{document['metadata'].get('namespace', '')}/{document['metadata']['name']}"


def app_row(document: Object) -> PageRow:
    """Returns the row of an application."""
    app = read_app(document)
    status = app.status
    page = f"#app/{quote(app.namespace, safe='')}/{quote(app.name, safe='')}"
    first: list[PageCell | str] = [
        PageCell(app.name, href=page),
        app.namespace,
        PageCell(status.phase if app.attended else "not attended to", health(app)),
    ]
    if not app.attended:
        return PageRow(key_of(document), [*first, *[""] * (len(COLUMNS) - len(first))])
    return PageRow(
        key_of(document),
        [
            *first,
            _pods(app),
            count(status.input_lag),
            count(status.standby_lag) if status.tasks.standby else "no standbys",
            _restart(status),
            _rollout(status),
            _snapshots(app),
            status.engine,
        ],
    )


def _pods(app: StreamsAppSummary) -> PageCell:
    status = app.status
    wanted = status.replicas if app.autoscaled else app.replicas
    good = status.ready_replicas >= wanted
    return PageCell(f"{status.ready_replicas} of {wanted}", Tone.PLAIN if good else Tone.WARN)


def _restart(status: AppStatus) -> PageCell:
    if status.restart.safe:
        return PageCell("safe", Tone.GOOD)
    blockers = status.restart.blockers
    return PageCell("not safe", Tone.WARN, blockers[0].reason if blockers else "the operator has not said why yet")


def _rollout(status: AppStatus) -> PageCell:
    rollout = status.rollout
    if rollout is None:
        return PageCell("")
    moves = rollout.total and rollout.phase != "Complete"
    told = f"{rollout.phase} · {rollout.updated} of {rollout.total}" if moves else rollout.phase
    if rollout.phase == "Complete" and rollout.updated < rollout.total:
        told = f"{rollout.phase} · {rollout.updated} of {rollout.total} ready"
    return PageCell(told, rollout_tone(rollout), rollout.message or rollout.failure or "")


def _snapshots(app: StreamsAppSummary) -> PageCell:
    found = next((each for each in app.status.conditions if each.type == "SnapshotsFresh"), None)
    if found is None or not app.has_remote_state:
        return PageCell("none" if app.attended else "", Tone.DIM, "spec.remoteState is not set")
    return PageCell(found.reason, condition_tone(found, app), found.message)
