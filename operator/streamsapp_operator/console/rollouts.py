"""The rollout as it happens, and those before it: predicted against observed. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from streamsapp_operator.console.look import Look
from streamsapp_operator.console.tables import PageCell, PageRow, PageTable
from streamsapp_operator.gap_prediction import predicted_from
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import RolloutRecord, RolloutStatus, RolloutStep
from streamsapp_operator.plugin.documents import seconds_since
from streamsapp_operator.plugin.status_view import rollout_tone
from streamsapp_operator.plugin.style import Tone
from streamsapp_operator.plugin.text import UNKNOWN, age, gap, plural, seconds

#: An observed gap that is longer than was predicted by more than this part, and by so many seconds, is shown by its
#: colour.
_SLACK, _SLACK_SECONDS = 0.3, 0.05
#: Hand-overs that are shown, the last ones.
HAND_OVERS = 50


def rollout(look: Look) -> PageTable:
    """Returns a row per pod of the rollout that is under way, or was last."""
    found = look.app.status.rollout
    columns = ["Pod", "State", "#Predicted gap", "#Observed gap", "Predicted from"]
    if found is None:
        return PageTable("rollout", "Rollout", columns, note="There was none yet.")
    steps = {step.pod: step for step in _steps(look)}
    rows = [PageRow(pod.name, _pod(look, found, pod, steps.get(pod.name))) for pod in look.seen]
    words = found.message or found.failure or ""
    told = f"{found.phase}: {found.updated} of {plural(found.total, 'pod')} on revision {found.revision}"
    return PageTable("rollout", "Rollout", columns, rows, f"{told}. {words}" if words else f"{told}.")


def _steps(look: Look) -> tuple[RolloutStep, ...]:
    history, found = look.app.status.history, look.app.status.rollout
    same = bool(history) and found is not None and history[0].revision == found.revision
    return history[0].steps if same else ()


def _pod(look: Look, found: RolloutStatus, pod: PodSeen, step: RolloutStep | None) -> list[PageCell | str]:
    if found.current == pod.name:
        observed = "" if found.observed_seconds is None else gap(found.observed_seconds)
        state = PageCell("is being restarted", Tone.WARN)
        return [pod.name, state, gap(found.predicted_seconds), observed, found.predicted_from or ""]
    if pod.revision != found.revision:
        expected = look.gate.predicted(pod) if look.heard else None
        state = PageCell(f"has revision {pod.revision or UNKNOWN}", Tone.DIM)
        if expected is None:
            return [pod.name, state, UNKNOWN, "", ""]
        return [pod.name, state, gap(expected.seconds), "", predicted_from(expected)]
    state = (
        PageCell("has the revision", Tone.GOOD) if pod.ready else PageCell("has the revision, is not ready", Tone.WARN)
    )
    if step is None:
        return [pod.name, state, "", "", ""]
    return [pod.name, state, gap(step.predicted_seconds), _observed(step), step.predicted_from or ""]


def _observed(step: RolloutStep) -> PageCell:
    predicted, observed = step.predicted_seconds, step.observed_seconds
    longer = predicted is not None and (observed or 0.0) > predicted * (1 + _SLACK) + _SLACK_SECONDS
    return PageCell(gap(observed), Tone.WARN if longer else Tone.GOOD if observed is not None else Tone.DIM)


def hand_overs(look: Look) -> PageTable:
    """Returns a row per hand-over that pods report, the newest first."""
    columns = ["Task", "To", "#When", "#Gap", "#Assigned", "#Restored", "#Read", "Kind"]
    found = [
        (look.at + pod.report.clock_offset - each.at, pod, each)
        for pod in look.seen
        if pod.report is not None
        for each in pod.report.hand_overs or ()
    ]
    rows = [
        PageRow(
            f"{each.task} {pod.name} {each.at}",
            [
                each.task,
                pod.name,
                f"{age(max(0.0, ago))} ago",
                gap(each.gap_seconds),
                *("" if step is None else gap(step) for step in (each.assigned, each.restored, each.read)),
                each.kind,
            ],
        )
        for ago, pod, each in sorted(found, key=lambda it: it[0])[:HAND_OVERS]
    ]
    return PageTable("handovers", "Hand-overs", columns, rows, "" if rows else "No pod reports one.")


def history(look: Look) -> PageTable:
    """Returns a row per rollout that the status remembers, the newest first."""
    columns = [
        "Began", "Revision", "Ended as", "#Took", "#Pods restarted", "#Longest gap predicted", "#Observed", "Why",
    ]  # fmt: skip
    rows = [PageRow(f"{each.revision} {each.started_at}", _record(each, look.now)) for each in look.app.status.history]
    return PageTable("history", "History of rollouts", columns, rows, "" if rows else "There was none yet.")


def _record(each: RolloutRecord, now: datetime) -> list[PageCell | str]:
    took = seconds_since(each.started_at, each.ended_at)
    return [
        "" if each.started_at is None else f"{age(seconds_since(each.started_at, now))} ago",
        each.revision,
        PageCell(each.phase, rollout_tone(each)),
        "" if took is None else seconds(took),
        f"{len(each.steps)}",
        _longest([step.predicted_seconds for step in each.steps]),
        _longest([step.observed_seconds for step in each.steps]),
        each.failure or "",
    ]


def timeline(look: Look) -> list[dict[str, Any]]:
    """Returns the rollouts that the status remembers as pods by time, the newest first: of each restart when it began,
    and for how many seconds its worst task was predicted to stand still, and did. Times are milliseconds since 1970,
    ``None`` where they are not known."""
    return [_drawn(each, look) for each in look.app.status.history]


def _drawn(record: RolloutRecord, look: Look) -> dict[str, Any]:
    found = look.app.status.rollout
    steps = list(record.steps)
    newest = found is not None and look.app.status.history[0] is record and found.revision == record.revision
    known = {(step.pod, step.started_at) for step in steps}
    if newest and found is not None and found.current and (found.current, found.step_started_at) not in known:
        steps.append(
            RolloutStep(
                pod=found.current,
                started_at=found.step_started_at,
                predicted_seconds=found.predicted_seconds,
                observed_seconds=None,
            )
        )
    return {
        "revision": record.revision,
        "phase": record.phase,
        "startedMs": _ms(record.started_at),
        "endedMs": _ms(record.ended_at),
        "steps": [
            {
                "pod": step.pod,
                "startedMs": _ms(step.started_at),
                "predicted": step.predicted_seconds,
                "observed": step.observed_seconds,
            }
            for step in steps
        ],
    }


def _ms(at: datetime | None) -> int | None:
    return None if at is None else int(1000 * at.timestamp())


def _longest(found: list[float | None]) -> str:
    known = [each for each in found if each is not None]
    return gap(max(known)) if known else ""
