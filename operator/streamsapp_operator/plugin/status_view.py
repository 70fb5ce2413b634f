"""The lines that ``kubectl streamsapp status`` shows of an application. Pure: documents and a moment in, lines out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from math import inf

from streamsapp_operator.children.names import DRIVER, EXECUTOR
from streamsapp_operator.model.status import (
    AppStatus,
    Blocker,
    BootstrapStatus,
    Condition,
    PodGap,
    RolloutRecord,
    RolloutStatus,
    ScheduleStatus,
    SwitchStatus,
)
from streamsapp_operator.plugin.documents import AppPod, StreamsAppSummary, read_time, seconds_since
from streamsapp_operator.plugin.style import Style, Tone
from streamsapp_operator.plugin.table import Column, Row, TableCell, render
from streamsapp_operator.plugin.tasks_view import tasks_table
from streamsapp_operator.plugin.text import UNKNOWN, age, brief, clean, count, fill, gap, plural, seconds

#: Phases of a rollout that went wrong, or wait.
_BAD = {"TimedOut", "RolledBack", "Refused"}
_PENDING = {"Checking", "Bootstrapping", "Rolling", "Paused", "Blocked", "RollingBack"}

_PODS = (
    Column("POD"),
    Column("READY"),
    Column("STATE"),
    Column("ACTIVE", right=True),
    Column("STANDBY", right=True),
    Column("GENERATION", right=True),
    Column("REVISION"),
    Column("RESTARTS", right=True),
    Column("GAP", right=True),
    Column("LAST GAP", right=True),
    Column("AGE", right=True),
    Column("NODE"),
)
_BLOCKERS = (
    Column("POD"),
    Column("TASK"),
    Column("STORE"),
    Column("LAG", right=True),
    Column("SEEN", right=True),
    Column("REASON"),
)
_HAND_OVERS = (
    Column("TASK"),
    Column("TO"),
    Column("AGO", right=True),
    Column("GAP", right=True),
    Column("ASSIGNED", right=True),
    Column("RESTORED", right=True),
    Column("READ", right=True),
    Column("KIND"),
)
#: Hand-overs that are shown, the last ones.
_MOST_HAND_OVERS = 10
_CONDITIONS = (Column(""), Column("CONDITION"), Column("STATUS"), Column("SINCE", right=True), Column("MESSAGE"))


def status_lines(app: StreamsAppSummary, pods: Sequence[AppPod], now: datetime, style: Style) -> Iterator[str]:
    """Returns all lines, from what matters most to the details."""
    yield from _head(app, now, style)
    yield ""
    yield from _summary(app, pods, now, style)
    for title, lines in (
        ("WHAT BLOCKS A RESTART", _blockers(app.status, style)),
        ("CONDITIONS", _conditions(app, now, style)),
        ("PODS", _pods(app, pods, now, style)),
        ("TASKS", tasks_table(app, pods, style)),
        ("HAND-OVERS", _hand_overs(pods, style)),
    ):
        found = list(lines)
        if found:
            yield from ("", style.title(title), *found)


def _head(app: StreamsAppSummary, now: datetime, style: Style) -> Iterator[str]:
    phase = clean(app.status.phase) if app.attended else "not attended to"
    tone = health(app)
    where = style.between.join([f"namespace {app.namespace}", f"{age(seconds_since(app.created, now))} old"])
    dot, said = style.paint(style.dot, tone), style.paint(phase, tone)
    yield f"{dot} {style.title(app.name)}  {said}  {style.paint(where, Tone.DIM)}"


def health(app: StreamsAppSummary) -> Tone:
    """Returns the colour of an application as a whole."""
    states = {each.type: each.status for each in app.status.conditions}
    if not app.attended or states.get("Degraded") == "True":
        return Tone.BAD
    return Tone.GOOD if states.get("Ready") == "True" else Tone.WARN


def _summary(app: StreamsAppSummary, pods: Sequence[AppPod], now: datetime, style: Style) -> Iterator[str]:
    for name, fact in facts(app, pods, now, style):
        yield f"  {style.paint(fill(name, 9), Tone.DIM)}{fact}"


def facts(app: StreamsAppSummary, pods: Sequence[AppPod], now: datetime, style: Style) -> list[tuple[str, str]]:
    """Returns the application in a few sentences, each with its subject."""
    status = app.status
    found: list[tuple[str, str]] = [("pods", _pods_fact(app, pods, style))]
    if app.attended:
        found += [
            ("tasks", _tasks_fact(status, style)),
            ("lag", _lag_fact(app, style)),
            ("restart", _restart_fact(status, style)),
        ]
        if status.engine == "spark" and status.schedule is None:
            found.insert(1, ("query", _query_fact(status, style)))
        if status.data_paths:
            found.append(("clients", style.between.join(map(clean, status.data_paths))))
        if status.schedule is not None:
            found.append(("runs", _runs_fact(status.schedule, now, style)))
        if status.switch is not None:
            found.append(("engine", _switch_fact(status.switch, now, style)))
        if status.rollout is not None:
            found.append(("rollout", _rollout_fact(status.rollout, now, style)))
        if any(pod.answer.report is not None and pod.answer.report.kafka_secret_changed for pod in pods):
            found.append(("secret", _secret_fact(app, style)))
        if status.bootstrap is not None and status.bootstrap.phase != "Done":
            found.append(("history", _bootstrap_fact(status.bootstrap, now, style)))
        if status.scaling is not None:
            found.append(("scaling", f"{plural(status.scaling.desired, 'pod')} wanted: {clean(status.scaling.reason)}"))
    return found


def _secret_fact(app: StreamsAppSummary, style: Style) -> str:
    restarts = app.status.accepted is not None and app.status.accepted.restart_on_change
    remedy = "they restart one by one" if restarts else f"restart them: kubectl streamsapp restart {app.name}"
    said = f"the Secret of spec.kafka.secretRef has changed, and pods run with the login from before; {remedy}"
    return style.paint(said, Tone.WARN)


def _pods_fact(app: StreamsAppSummary, pods: Sequence[AppPod], style: Style) -> str:
    pods = [pod for pod in pods if pod.role != DRIVER]
    ready = sum(pod.ready for pod in pods)
    # An autoscaler's choice is in the StatefulSet only; its replicas are the number wanted a moment ago.
    wanted = max(app.status.replicas, len(pods)) if app.autoscaled else app.replicas
    if wanted == 0 and not pods:
        return "none: suspended, replicas is 0"
    if app.status.schedule is not None and not pods:
        return "none but those of runs"
    return style.paint(f"{ready} of {wanted} ready", Tone.GOOD if ready >= wanted else Tone.WARN)


def _query_fact(status: AppStatus, style: Style) -> str:
    query = status.query
    if query is None:
        return style.paint("spark: its driver does not answer", Tone.WARN)
    parts = [f"spark: {clean(query.state)}", f"batches: {count(query.batches)}"]
    if query.batch_seconds is not None:
        parts.append(f"the last took {seconds(query.batch_seconds)}")
    if query.records_per_second is not None:
        parts.append(f"{count(round(query.records_per_second))} records/s")
    return style.between.join(parts)


def _runs_fact(runs: ScheduleStatus, now: datetime, style: Style) -> str:
    if runs.last_run is None:
        parts = ["none yet"]
    else:
        tone = Tone.BAD if runs.result == "Failed" else Tone.GOOD
        parts = [f"the last {age(seconds_since(runs.last_run, now))} ago: {style.paint(runs.result or '', tone)}"]
    if runs.input_lag is not None:
        parts.append(f"it left {count(runs.input_lag)} records")
    if runs.next_run is not None:
        parts.append(f"the next at {runs.next_run:%Y-%m-%d %H:%M} UTC")
    return style.between.join(parts)


def _switch_fact(switch: SwitchStatus, now: datetime, style: Style) -> str:
    way, predicted = f"{switch.from_engine} to {switch.to_engine}", f"predicted {seconds(switch.predicted_seconds)}"
    if switch.observed_seconds is not None:
        return f"{way}, it stood still for {seconds(switch.observed_seconds)}, {predicted}"
    since = age(seconds_since(switch.started_at, now))
    return style.paint(f"{way} for {since}, {predicted}: nothing is processed until then", Tone.WARN)


def _tasks_fact(status: AppStatus, style: Style) -> str:
    tasks = status.tasks
    parts = [f"{tasks.active} active", f"{tasks.running} running"]
    if tasks.restoring:
        parts.append(style.paint(f"{tasks.restoring} restoring", Tone.WARN))
    return ", ".join([*parts, f"{tasks.standby} standby"])


def _lag_fact(app: StreamsAppSummary, style: Style) -> str:
    worst = app.status.standby_lag
    tone = Tone.PLAIN if app.status.tasks.standby == 0 or _at_most(worst, app.max_standby_lag) else Tone.BAD
    said = f"{count(worst)} of the worst standby" if app.status.tasks.standby else "no standbys"
    return style.between.join([f"{count(app.status.input_lag)} records of input", style.paint(said, tone)])


def _at_most(amount: int | None, most: int) -> bool:
    return amount is not None and amount <= most


def _restart_fact(status: AppStatus, style: Style) -> str:
    if status.restart.safe:
        return style.paint("safe: any one pod may be taken away now", Tone.GOOD)
    number = len(status.restart.blockers) + status.restart.more_blockers
    why = f"{plural(number, 'reason')} below" if number else "the operator has not said why yet"
    return style.paint(f"not safe: no pod is taken away ({why})", Tone.WARN)


def rollout_tone(rollout: RolloutStatus | RolloutRecord) -> Tone:
    """Returns the colour of a rollout; a complete one is good for as long as its pods are ready."""
    if isinstance(rollout, RolloutStatus) and rollout.phase == "Complete" and rollout.updated < rollout.total:
        return Tone.WARN
    return Tone.BAD if rollout.phase in _BAD else Tone.WARN if rollout.phase in _PENDING else Tone.GOOD


def _rollout_fact(rollout: RolloutStatus, now: datetime, style: Style) -> str:
    parts = [style.paint(rollout.phase, rollout_tone(rollout)), _reach(rollout)]
    if rollout.current is not None:
        parts.append(f"restarting {clean(rollout.current)}")
    if rollout.phase == "Paused" and rollout.message:
        parts.append(brief(clean(rollout.message)))
    elif rollout.phase == "Blocked" and rollout.blocked_since is not None:
        parts.append(f"blocked for {age(seconds_since(rollout.blocked_since, now))}")
    elif rollout.observed_seconds is not None:
        predicted = gap(rollout.predicted_seconds)
        parts.append(f"the last pod's tasks ran again after {gap(rollout.observed_seconds)}, predicted {predicted}")
    return style.between.join(parts)


def _bootstrap_fact(bootstrap: BootstrapStatus, now: datetime, style: Style) -> str:
    tone = Tone.BAD if bootstrap.phase == "Failed" else Tone.WARN
    parts = [style.paint(bootstrap.phase, tone)]
    if bootstrap.phase in ("Pending", "Running") and bootstrap.started_at is not None:
        parts.append(f"for {age(seconds_since(bootstrap.started_at, now))}")
    if bootstrap.message:
        parts.append(brief(clean(bootstrap.message)))
    return style.between.join(parts)


def _reach(rollout: RolloutStatus) -> str:
    if rollout.phase in ("RollingBack", "RolledBack", "Refused"):
        return f"revision {clean(rollout.revision)} was not taken; the conditions say why"
    if rollout.phase == "Complete" and rollout.updated < rollout.total:
        ready = f"{rollout.updated} of {plural(rollout.total, 'pod')} are ready now"
        return f"revision {clean(rollout.revision)}, and {ready}"
    return f"{rollout.updated} of {plural(rollout.total, 'pod')} on revision {clean(rollout.revision)}"


def _blockers(status: AppStatus, style: Style) -> Iterator[str]:
    yield from blockers_table(status.restart.blockers, style)
    if status.restart.more_blockers:
        yield f"  ... and {status.restart.more_blockers} more"


def blockers_table(blockers: Sequence[Blocker], style: Style) -> Iterator[str]:
    """Returns the table of the reasons why pods must not be taken away."""
    rows: list[Row] = [
        [
            each.pod,
            each.task or "",
            each.store or "",
            "" if each.lag is None else count(each.lag),
            "" if each.age_seconds is None else age(each.age_seconds),
            TableCell(each.reason, Tone.WARN),
        ]
        for each in blockers
    ]
    return render(_BLOCKERS, rows, style)


def _conditions(app: StreamsAppSummary, now: datetime, style: Style) -> Iterator[str]:
    rows: list[Row] = []
    for each in app.status.conditions:
        tone = condition_tone(each, app)
        since = age(seconds_since(read_time(each.last_transition_time), now))
        said = brief(f"{each.reason}: {each.message}" if each.message else each.reason)
        rows.append([TableCell(style.sign(tone), tone), each.type, each.status, since, said])
    return render(_CONDITIONS, rows, style)


def condition_tone(condition: Condition, app: StreamsAppSummary) -> Tone:
    """Returns the colour of a condition. Conditions of progress are neither good nor bad."""
    if condition.type == "SnapshotsFresh" and not app.has_remote_state:
        return Tone.DIM
    if condition.status == "Unknown":
        return Tone.WARN
    if condition.type in {"Progressing", "Reconciling"}:
        return Tone.WARN if condition.status == "True" else Tone.DIM
    if condition.type == "UpToDate":
        return Tone.GOOD if condition.status == "True" else Tone.WARN
    return Tone.GOOD if (condition.status == "True") != (condition.type in {"Degraded", "Stalled"}) else Tone.BAD


def _pods(app: StreamsAppSummary, pods: Sequence[AppPod], now: datetime, style: Style) -> Iterator[str]:
    """Returns a line for each pod, and the faults of pods that could not be asked."""
    generations = {pod.answer.report.generation for pod in pods if pod.answer.report is not None}
    gaps = {each.pod: each for each in app.status.gaps}
    rows = [_pod_row(app, pod, gaps.get(pod.name), now, in_step=len(generations) < 2) for pod in pods]
    yield from render(_PODS, rows, style)
    for pod in pods:
        if pod.answer.fault:
            yield style.paint(f"  {clean(pod.name)}: {clean(pod.answer.fault)}", Tone.WARN)


def _pod_row(app: StreamsAppSummary, pod: AppPod, cost: PodGap | None, now: datetime, *, in_step: bool) -> Row:
    """Returns the row of a pod. Generations are shown if they differ, restarts if there were any, gaps if the operator
    has some."""
    report, wanted = pod.answer.report, _wanted_revision(app.status)
    active = None if report is None else sum(task.role == "active" for task in report.tasks)
    silent = "EXECUTOR" if pod.role == EXECUTOR else UNKNOWN
    state = pod.phase if pod.phase != "Running" else silent if report is None else report.state
    return [
        pod.name,
        TableCell("yes", Tone.GOOD) if pod.ready else TableCell("no", Tone.BAD),
        TableCell(state, Tone.PLAIN if state in ("RUNNING", "EXECUTOR") else Tone.WARN),
        "" if state == "EXECUTOR" else count(active),
        "" if state == "EXECUTOR" else count(None if report is None or active is None else len(report.tasks) - active),
        "" if report is None or in_step else count(report.generation),
        TableCell(pod.revision, Tone.DIM if pod.revision == wanted else Tone.WARN),
        TableCell(str(pod.restarts) if pod.restarts else "", Tone.WARN),
        "" if cost is None else gap(cost.predicted_seconds),
        "" if cost is None or cost.observed_seconds is None else gap(cost.observed_seconds),
        age(seconds_since(pod.created, now)),
        pod.node,
    ]


def _hand_overs(pods: Sequence[AppPod], style: Style) -> Iterator[str]:
    """Returns a line for each of the last hand-overs that pods report, the newest first."""
    found = [
        (seconds_since(each.at, pod.answer.at), pod.name, each)
        for pod in pods
        if pod.answer.report is not None
        for each in pod.answer.report.hand_overs
    ]
    newest = sorted(found, key=lambda it: inf if it[0] is None else it[0])
    rows: list[Row] = [
        [
            each.task,
            pod,
            age(ago),
            gap(each.gap_seconds),
            *(
                "" if step is None else gap(step)
                for step in (each.steps.assigned, each.steps.restored, each.steps.read)
            ),
            each.kind,
        ]
        for ago, pod, each in newest[:_MOST_HAND_OVERS]
    ]
    return render(_HAND_OVERS, rows, style)


def _wanted_revision(status: AppStatus) -> str | None:
    """Returns the revision that all pods shall have."""
    if status.rollout is None or status.rollout.phase in ("RollingBack", "RolledBack", "Refused"):
        return status.last_good_revision
    return status.rollout.revision
