"""Tasks and pods: which pod is active, which could take over, and what happens if a pod is taken away, in words.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streamsapp_operator.console.look import Look
from streamsapp_operator.console.tables import PageCell, PageRow, PageTable
from streamsapp_operator.gap_prediction import predicted_from
from streamsapp_operator.model.observed_state import PodReport, PodSeen, ReportedRole, StoreReport, TaskReport
from streamsapp_operator.model.status import Blocker
from streamsapp_operator.plugin.style import Tone
from streamsapp_operator.plugin.text import UNKNOWN, age, count, gap, plural, seconds
from streamsapp_operator.takeover import RUNNING, Replica, Takeover, known_lag, observation_age

_OnPod = tuple[PodSeen, PodReport, TaskReport]


def matrix(look: Look) -> PageTable:
    """Returns a row per task and a column per pod; the last column says how a task would go on without its pod."""
    rows = [_row(look, held) for held in _by_task(look).values()]
    names = [pod.name for pod in look.seen]
    note = "" if look.heard else "No pod told of its tasks."
    return PageTable("matrix", "Tasks", ["Task", *names, "If its pod goes away"], rows, note)


def _by_task(look: Look) -> dict[str, list[_OnPod]]:
    held: dict[str, list[_OnPod]] = {}
    for pod in look.seen:
        for task in pod.report.tasks if pod.report is not None else ():
            assert pod.report is not None
            held.setdefault(task.id, []).append((pod, pod.report, task))
    return dict(sorted(held.items(), key=lambda each: _order(each[0])))


def _order(task: str) -> tuple[int, ...]:
    return tuple(int(part) for part in task.split("_") if part.isdigit())


def _row(look: Look, held: Sequence[_OnPod]) -> PageRow:
    active = next(((pod, task) for pod, _, task in held if task.role is ReportedRole.ACTIVE), None)
    on = {pod.name: (pod, report, task) for pod, report, task in held}
    task_id = held[0][2].id
    cells = [_cell(look, on[pod.name], active) if pod.name in on else PageCell("") for pod in look.seen]
    return PageRow(task_id, [task_id, *cells, _goes_on(look, held, active)])


def _cell(look: Look, place: _OnPod, active: tuple[PodSeen, TaskReport] | None) -> PageCell:
    pod, report, task = place
    if task.role is ReportedRole.ACTIVE:
        if task.state.upper() != RUNNING:
            return PageCell(f"active · {task.state}", Tone.WARN)
        return PageCell(f"active{_lag(task)}", Tone.GOOD)
    role, why = task.role.value, ""
    if active is not None:
        found = look.gate.covers.by_replica(active[1], active[0], Replica(pod, report, task))
        why = found.reason if isinstance(found, Blocker) else ""
    if not task.stores:
        return PageCell(role, Tone.WARN if why else Tone.PLAIN, why)
    return PageCell(f"{role} · {_behind(look, report, task)}", Tone.WARN if why or active is None else Tone.GOOD, why)


def _lag(task: TaskReport) -> str:
    """Returns what waits in front of a task, if anything does."""
    return f" · {count(task.input_lag)} records wait" if task.input_lag else ""


def _behind(look: Look, report: PodReport, task: TaskReport) -> str:
    """Returns how far a replica is behind, and how long ago it saw that."""
    lags = [known_lag(store) for store in task.stores]
    ages = [observation_age(store, report, look.gate.covers.observed) for store in task.stores]
    worst = None if any(each is None for each in lags) else max(each for each in lags if each is not None)
    oldest = None if any(each is None for each in ages) else max(each for each in ages if each is not None)
    return f"{count(worst)} behind, seen {age(oldest)} ago"


def _goes_on(look: Look, held: Sequence[_OnPod], active: tuple[PodSeen, TaskReport] | None) -> PageCell:
    if active is None:
        return PageCell("no pod runs it now", Tone.BAD)
    pod, task = active
    if not task.stores:
        return PageCell("it has no state: any pod goes on at once", Tone.GOOD)
    cover = _covers(look, pod)[task.id]
    if isinstance(cover, Blocker):
        return PageCell(cover.reason, Tone.WARN)
    after = gap(cover.gap.seconds)
    heirs = [it.name for it, report, each in held if each is not task and _fits(look, active, (it, report, each))]
    if heirs:
        return PageCell(f"{' or '.join(heirs)} goes on after about {after}", Tone.GOOD)
    return PageCell(f"any pod restores its snapshot, and goes on after about {after}", Tone.GOOD)


def _fits(look: Look, active: tuple[PodSeen, TaskReport], place: _OnPod) -> bool:
    return isinstance(look.gate.covers.by_replica(active[1], active[0], Replica(*place)), Takeover)


def _covers(look: Look, pod: PodSeen) -> dict[str, Takeover | Blocker]:
    """Returns where each active task with stores of a pod goes on; a task reported twice counts as its last report."""
    tasks = pod.report.tasks if pod.report is not None else ()
    stateful = [task for task in tasks if task.role is ReportedRole.ACTIVE and task.stores]
    return dict(zip([task.id for task in stateful], look.gate.covers.of(pod), strict=True))


def away(look: Look, pod: PodSeen) -> PageCell:
    """Says what happens if this pod is taken away now."""
    if not look.heard:
        return PageCell(UNKNOWN, Tone.DIM)
    blockers = look.gate.blockers_of(pod)
    if blockers:
        more = f" (and {plural(len(blockers) - 1, 'reason')} more)" if len(blockers) > 1 else ""
        task = f"{blockers[0].task}: " if blockers[0].task else ""
        return PageCell(f"not safe: {task}{blockers[0].reason}{more}", Tone.WARN)
    expected = look.gate.predicted(pod)
    if expected is None or expected.kind == "none":
        return PageCell("safe: nothing of it has to be taken over", Tone.GOOD)
    return PageCell(
        f"safe: its tasks run again after about {gap(expected.seconds)}", Tone.GOOD, predicted_from(expected)
    )


def snapshots(look: Look) -> PageTable:
    """Returns a row per active task and store: what remote state has of it."""
    columns = ["Task", "Store", "On pod", "#Age", "#Records to replay", "#Restore takes"]
    if not look.app.has_remote_state:
        note = "The application has no remote state (spec.remoteState), so there are no snapshots."
        return PageTable("snapshots", "Snapshots", columns, note=note)
    rows = [
        PageRow(f"{task.id} {store.name}", [task.id, store.name, pod.name, *_snapshot(look, report, task, store)])
        for held in _by_task(look).values()
        for pod, report, task in held
        if task.role is ReportedRole.ACTIVE
        for store in task.stores
    ]
    return PageTable("snapshots", "Snapshots", columns, rows, "" if rows else "No pod told of a task with stores.")


def _snapshot(look: Look, report: PodReport, task: TaskReport, store: StoreReport) -> Iterator[PageCell | str]:
    if store.snapshot_offset is None:
        yield from (PageCell("none", Tone.WARN), "", "")
        return
    taken = store.snapshot_at
    end = store.end_offset if store.end_offset is not None else store.position
    yield age(None if taken is None else max(0.0, look.at + report.clock_offset - taken))
    yield count(None if end is None else max(0, end - store.snapshot_offset))
    yield seconds(task.predicted_restore_seconds)
