"""Decides whether the user holds a rollout back: by a pause, a maintenance window, a preview, a part of the pods that
keeps the last good revision until the new one is approved. Pure.

A step that is under way ends; none begins. Going back to the last good revision is held by a pause alone: it mends.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from streamsapp.manifest.model import MaintenanceWindow
from streamsapp_operator.model.observed_state import PodSeen
from streamsapp_operator.model.status import RolloutStatus
from streamsapp_operator.plan import preview
from streamsapp_operator.plan.plan_input import PlanInput

#: As ``Weekday`` names them, by ``datetime.weekday``.
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
PAUSED = "it is paused (annotation streamsapp.dev/paused); `kubectl streamsapp approve` lets it go on"
SECRET_CHANGED = "the Secret of spec.kafka.secretRef has changed: pods that have read the old one restart one by one"  # noqa: S105
_WINDOW = "it waits for one of spec.rollout.maintenanceWindows"


def hold(inputs: PlanInput, rollout: RolloutStatus, target: str) -> str | None:
    """Returns why no pod may be taken now; ``None`` if nothing is against it."""
    if inputs.app.requests.paused:
        return PAUSED
    if target == rollout.revision and (told := preview.why_held(inputs, rollout)) is not None:
        return told
    return _WINDOW if _is_between_windows(inputs, rollout, target) else None


def waits_for_approval(inputs: PlanInput, rollout: RolloutStatus) -> bool:
    """Says whether a rollout that is paused goes on only once a user says so. A maintenance window opens by itself, and
    a preview that runs ends by itself."""
    if rollout.phase != "Paused":
        return False
    if inputs.app.requests.paused or preview.needs_approval(inputs, rollout):
        return True
    return preview.why_held(inputs, rollout) is None and not _is_between_windows(inputs, rollout, rollout.revision)


def _is_between_windows(inputs: PlanInput, rollout: RolloutStatus, target: str) -> bool:
    windows = inputs.settings.rollout.maintenance_windows
    return target == rollout.revision and bool(windows) and not is_open(windows, inputs.now)


def kept(inputs: PlanInput, rollout: RolloutStatus, target: str) -> str | None:
    """Reports that some pods are kept at the last good revision, if there are such: a pod that is away is to come back
    with it."""
    number, revisions = _partition(inputs, rollout, target), {pod.ordinal: pod.revision for pod in inputs.pods}
    replicas = inputs.observed.children.replicas or 0
    if all(revisions.get(ordinal) == target for ordinal in range(min(number, replicas))):
        return None
    return (
        f"pods with a number below {number} (spec.rollout.partition) keep revision {inputs.status.last_good_revision}; "
        "`kubectl streamsapp approve` lets it go on"
    )


def is_due(inputs: PlanInput, rollout: RolloutStatus, pod: PodSeen, target: str) -> bool:
    """Says whether a pod is to be replaced on the way to ``target``."""
    asked = pod.revision != target or is_asked_for(inputs, pod)
    return asked and pod.ordinal >= _partition(inputs, rollout, target)


def is_asked_for(inputs: PlanInput, pod: PodSeen) -> bool:
    """Says whether this pod is to be replaced whatever its revision is: the user asks for it, or it runs with a login
    that is no longer the one in its Secret."""
    return pod.uid == inputs.app.requests.restart_pod or has_old_secret(inputs, pod)


def has_old_secret(inputs: PlanInput, pod: PodSeen) -> bool:
    """Says whether a pod reports that the Secret it has mounted is another than it has read, and is to be restarted for
    that. The pod itself remembers: a pod that is made anew reads the Secret anew, so none is restarted twice for one
    change, and none for a Secret that is as before again."""
    report = pod.report
    if report is None or not inputs.settings.restart_on_change or not inputs.gate.covers.is_fresh(report):
        return False
    return report.kafka_secret_changed


def is_open(windows: Sequence[MaintenanceWindow], now: float) -> bool:
    """Says whether one of the maintenance windows is open."""
    return any(_is_open(window, now) for window in windows)


def _is_open(window: MaintenanceWindow, now: float) -> bool:
    """Says whether a window is open. One that began yesterday may last until today. A zone that is not known any more
    is never open."""
    try:
        zone = ZoneInfo(window.time_zone)
    except (KeyError, ValueError, OSError):
        return False
    today = datetime.fromtimestamp(now, zone).date()
    for day in (today, today - timedelta(days=1)):
        if not window.days or _DAYS[day.weekday()] in window.days:
            begin, end = _opens(window, day, zone)
            if begin <= now < end:
                return True
    return False


def _opens(window: MaintenanceWindow, day: date, zone: ZoneInfo) -> tuple[float, float]:
    """Returns when the window of a day opens and closes: as readers of crontabs expect, once, also on the days on which
    clocks change. Both are the first moment at which the zone's clock shows that time, or is set past it. A window all
    of whose time is left out opens when clocks are set forward, for as long as on other days."""
    start = datetime.combine(day, time.fromisoformat(window.start))
    end = datetime.combine(day, time.fromisoformat(window.end))
    if end <= start:
        end += timedelta(days=1)
    begins, ends = _first_moment(start, zone), _first_moment(end, zone)
    return begins, ends if ends > begins else begins + (end - start).total_seconds()


def _first_moment(shown: datetime, zone: ZoneInfo) -> float:
    """Returns the first moment at which the clocks of a zone show this time, or a later one."""
    found = shown.replace(tzinfo=zone).timestamp()
    if datetime.fromtimestamp(found, zone).replace(tzinfo=None) == shown:
        return found
    # The time is left out: read by the earlier of both offsets it is after the change, by the later one before it.
    before, after = int(shown.replace(tzinfo=zone, fold=1).timestamp()), int(found)
    offset = datetime.fromtimestamp(before, zone).utcoffset()
    while after - before > 1:
        middle = (before + after) // 2
        same = datetime.fromtimestamp(middle, zone).utcoffset() == offset
        before, after = (middle, after) if same else (before, middle)
    return float(after)


def _partition(inputs: PlanInput, rollout: RolloutStatus, target: str) -> int:
    """Returns the number below which pods keep the last good revision."""
    good, approved = inputs.status.last_good_revision, inputs.app.requests.approved
    if good in {None, rollout.revision} or target != rollout.revision or approved == rollout.revision:
        return 0
    return inputs.settings.rollout.partition
