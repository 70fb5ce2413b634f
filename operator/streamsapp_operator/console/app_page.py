"""The page of one application: facts, tables and what its viewer may do. Pure: a look in, a document out."""

from __future__ import annotations

from typing import Any

from streamsapp_operator.annotation_requests import approve
from streamsapp_operator.children.names import PAUSED
from streamsapp_operator.console.look import Look
from streamsapp_operator.console.matrix import away, matrix, snapshots
from streamsapp_operator.console.rollouts import hand_overs, history, rollout, timeline
from streamsapp_operator.console.tables import PageCell, PageRow, PageTable, mood
from streamsapp_operator.kube.kinds import Object, annotation
from streamsapp_operator.model.observed_state import PodSeen, ReportedRole
from streamsapp_operator.model.status import Blocker
from streamsapp_operator.plugin.documents import AppPod, read_time, seconds_since
from streamsapp_operator.plugin.status_view import condition_tone, facts, health
from streamsapp_operator.plugin.style import Style, Tone
from streamsapp_operator.plugin.text import UNKNOWN, age, count, gap, plural

#: Events that are shown, the last ones.
EVENTS = 100


def app_page(look: Look) -> dict[str, Any]:
    """Returns everything that the page shows."""
    app = look.app
    tables = [
        _blockers(look), matrix(look), rollout(look), hand_overs(look), _pods(look), snapshots(look), history(look),
        _conditions(look),
        _events(look),
    ]  # fmt: skip
    return {
        "namespace": app.namespace,
        "name": app.name,
        "state": {"value": app.status.phase if app.attended else "not attended to", "class": mood(health(app))},
        "facts": [list(each) for each in _facts(look)],
        "notes": list(look.notes),
        "tables": [each.document() for each in tables],
        "timeline": timeline(look),
        "requests": _requests(look),
        "pods": [{"name": pod.name, "uid": pod.uid} for pod in look.seen],
        "console": f"kubectl streamsapp console {app.name} -n {app.namespace}",
    }


def _facts(look: Look) -> list[tuple[str, str]]:
    app = look.app
    found = facts(app, look.app_pods, look.now, Style())
    if look.pods is not None:
        return found
    return [("pods", f"{app.status.ready_replicas} of {app.replicas} ready, says the operator"), *found[1:]]


def _requests(look: Look) -> list[str]:
    """Returns what the viewer may order now."""
    if not look.may_change:
        return []
    paused = annotation(look.document, PAUSED) is not None
    waits = approve(look.document, look.app.status.rollout) is not None
    return ["restart", "restartPod", *([] if paused else ["pause"]), *(["approve"] if waits else [])]


def _blockers(look: Look) -> PageTable:
    restart = look.app.status.restart
    columns = ["Pod", "Task", "Store", "#Lag", "#Seen", "Reason"]
    more = f"{plural(restart.more_blockers, 'reason')} more." if restart.more_blockers else ""
    note = "Any one pod may be taken away now." if restart.safe else more
    rows = [PageRow(f"{number}", _blocker(each)) for number, each in enumerate(restart.blockers)]
    return PageTable("blockers", "What blocks a restart", columns, rows, note if look.app.attended else "")


def _blocker(each: Blocker) -> list[PageCell | str]:
    return [
        each.pod,
        each.task or "",
        each.store or "",
        "" if each.lag is None else count(each.lag),
        "" if each.age_seconds is None else age(each.age_seconds),
        PageCell(each.reason, Tone.WARN),
    ]


def _pods(look: Look) -> PageTable:
    columns = [
        "Pod", "Ready", "State", "#Active", "#Standby", "Revision", "#Restarts", "#Age", "Node", "#Last gap",
        "If it is taken away now",
    ]  # fmt: skip
    seen = {pod.name: pod for pod in (*look.seen, *(() if look.driver is None else [look.driver]))}
    last = {each.pod: each.observed_seconds for each in look.app.status.gaps}
    rows = [
        PageRow(pod.name, _pod(look, pod, seen.get(pod.name), last.get(pod.name)))
        for pod in sorted(look.app_pods, key=lambda it: it.name)
    ]
    return PageTable("pods", "Pods", columns, rows, "" if rows else "There are none that you may see.")


def _pod(look: Look, pod: AppPod, seen: PodSeen | None, last_gap: float | None) -> list[PageCell | str]:
    report = None if seen is None else seen.report
    active = None if report is None else sum(task.role is ReportedRole.ACTIVE for task in report.tasks)
    state = pod.phase if pod.phase != "Running" else UNKNOWN if report is None else report.state
    return [
        pod.name,
        PageCell("yes", Tone.GOOD) if pod.ready else PageCell("no", Tone.BAD),
        PageCell(state, Tone.PLAIN if state == "RUNNING" else Tone.WARN, (seen.unreachable or "") if seen else ""),
        count(active),
        count(None if report is None or active is None else len(report.tasks) - active),
        pod.revision,
        PageCell(f"{pod.restarts}", Tone.WARN if pod.restarts else Tone.PLAIN),
        age(seconds_since(pod.created, look.now)),
        pod.node,
        "" if last_gap is None else gap(last_gap),
        "" if seen is None or seen is look.driver else away(look, seen),
    ]


def _conditions(look: Look) -> PageTable:
    rows = [
        PageRow(
            each.type,
            [
                each.type,
                PageCell(each.status, condition_tone(each, look.app)),
                f"{age(seconds_since(read_time(each.last_transition_time), look.now))} ago",
                f"{each.reason}: {each.message}" if each.message else each.reason,
            ],
        )
        for each in look.app.status.conditions
    ]
    return PageTable("conditions", "Conditions", ["Condition", "Status", "#Since", "Message"], rows)


def _events(look: Look) -> PageTable:
    found = sorted(look.events, key=_moment, reverse=True)
    rows = [PageRow(each["metadata"]["name"], _event(look, each)) for each in found[:EVENTS]]
    return PageTable(
        "events", "Events", ["#When", "Reason", "Message", "#Times"], rows, "" if rows else "There are none."
    )


def _event(look: Look, each: Object) -> list[PageCell | str]:
    tone = Tone.WARN if each.get("type") == "Warning" else Tone.PLAIN
    return [
        f"{age(seconds_since(read_time(_moment(each)), look.now))} ago",
        PageCell(str(each.get("reason") or ""), tone),
        str(each.get("message") or ""),
        count(each.get("count") or 1),
    ]


def _moment(event: Object) -> str:
    """Returns when an event was last reported: components write it in one field or another."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"]["creationTimestamp"])
