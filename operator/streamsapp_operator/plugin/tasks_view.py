"""Renders tasks, the pods that would take them over, and their snapshots for ``status`` and ``snapshots``. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, zip_longest

from streamsapp_operator.plugin.documents import AppPod, ReportedStore, ReportedTask, StreamsAppSummary, seconds_since
from streamsapp_operator.plugin.style import Style, Tone
from streamsapp_operator.plugin.table import Column, Row, TableCell, render
from streamsapp_operator.plugin.text import UNKNOWN, age, count, seconds, size

_TASKS = (
    Column("TASK"),
    Column("ACTIVE ON"),
    Column("STATE"),
    Column("INPUT-LAG", right=True),
    Column("STORE"),
    Column("STANDBY ON"),
    Column("MODE"),
    Column("LAG", right=True),
    Column("SEEN", right=True),
    Column("SNAPSHOT", right=True),
)
_SNAPSHOTS = (
    Column("TASK"),
    Column("STORE"),
    Column("EPOCH", right=True),
    Column("OFFSET", right=True),
    Column("BEHIND", right=True),
    Column("AGE", right=True),
    Column("BYTES", right=True),
    Column("RESTORE", right=True),
    Column("ON"),
)


@dataclass(frozen=True, slots=True)
class TaskOnPod:
    """One task on one pod."""

    task: ReportedTask
    pod: AppPod

    @property
    def at(self) -> datetime | None:
        """The time at which the pod reported it, by its own clock."""
        return self.pod.answer.at


def held_tasks(pods: Sequence[AppPod]) -> list[TaskOnPod]:
    """Returns every task of every pod that answered, by number."""
    held = [TaskOnPod(task, pod) for pod in pods if pod.answer.report is not None for task in pod.answer.report.tasks]
    return sorted(held, key=lambda each: (each.task.order, each.task.role != "active", each.pod.name))


def tasks_table(app: StreamsAppSummary, pods: Sequence[AppPod], style: Style) -> Iterator[str]:
    """Returns a block of lines per task: on the left the pod that has it, on the right its stores and the standbys."""
    rows: list[Row] = []
    # The tasks of a pod that does not answer are not known.
    nobody = "nobody" if all(pod.answer.report is not None for pod in pods) else UNKNOWN
    for _, of_task in groupby(held_tasks(pods), key=lambda each: each.task.id):
        rows += _task_rows(app, list(of_task), nobody)
    return render(_TASKS, rows, style)


def _task_rows(app: StreamsAppSummary, held: Sequence[TaskOnPod], nobody: str) -> Iterator[Row]:
    actives = [each for each in held if each.task.role == "active"]
    others = [each for each in held if each.task.role != "active"]
    left: list[list[TableCell | str]] = [
        [each.pod.name, _state(each.task), count(each.task.input_lag)] for each in actives
    ]
    right = list(_store_rows(app, actives, others, nobody))
    missing: list[TableCell | str] = [TableCell(nobody, Tone.BAD), "", ""]
    for index, (front, back) in enumerate(zip_longest(left or [missing], right)):
        name = held[0].task.id if index == 0 else ""
        yield [name, *(front or ["", "", ""]), *(back or [""] * 6)]


def _state(task: ReportedTask) -> TableCell:
    return TableCell(task.state, Tone.PLAIN if task.state == "RUNNING" else Tone.WARN)


def _store_rows(
    app: StreamsAppSummary, actives: Sequence[TaskOnPod], others: Sequence[TaskOnPod], nobody: str
) -> Iterator[list[TableCell | str]]:
    """Returns a row per store and replica; a store without a standby has one all the same."""
    names = dict.fromkeys(store.name for each in (*actives, *others) for store in each.task.stores)
    for name in names:
        saved = _snapshot_age(app, name, actives)
        followers = [(each, store) for each in others for store in each.task.stores if store.name == name]
        if not followers:
            yield [name, TableCell(nobody, Tone.WARN if not app.has_remote_state else Tone.DIM), "", "", "", saved]
        for number, (each, store) in enumerate(followers):
            first = number == 0
            yield [name if first else "", *_follower(app, each, store), saved if first else ""]


def _follower(app: StreamsAppSummary, each: TaskOnPod, store: ReportedStore) -> list[TableCell | str]:
    warming = f" ({each.task.role})" if each.task.role != "standby" else ""
    return [
        f"{each.pod.name}{warming}",
        TableCell(store.mode, Tone.PLAIN if store.mode == "updating" else Tone.WARN),
        TableCell(count(store.lag), Tone.PLAIN if _within(store.lag, app.max_standby_lag) else Tone.BAD),
        _seen(app, each, store),
    ]


def _seen(app: StreamsAppSummary, each: TaskOnPod, store: ReportedStore) -> TableCell:
    past = seconds_since(store.observed_at, each.at)
    return TableCell(age(past), Tone.PLAIN if _within(past, app.max_observation_age_seconds) else Tone.BAD)


def _within(amount: float | None, most: float) -> bool:
    return amount is not None and amount <= most


def _snapshot_age(app: StreamsAppSummary, store: str, actives: Sequence[TaskOnPod]) -> TableCell | str:
    """Returns the snapshot's age; it is empty if there is no remote state."""
    if not app.has_remote_state:
        return ""
    ages = [
        seconds_since(each.snapshot.fresh_at, held.at)
        for held in actives
        for each in held.task.stores
        if each.name == store and each.snapshot is not None
    ]
    return TableCell(age(ages[0])) if ages else TableCell("none", Tone.WARN)


def snapshots_table(held: Sequence[TaskOnPod], style: Style) -> Iterator[str]:
    """Returns a line per active task and store: the newest snapshot, and what a restore from it takes."""
    rows: list[Row] = []
    for of_task in (each for each in held if each.task.role == "active"):
        for number, store in enumerate(of_task.task.stores):
            rows.append([of_task.task.id if number == 0 else "", *_snapshot_row(of_task, store, first=number == 0)])
    return render(_SNAPSHOTS, rows, style)


def _snapshot_row(held: TaskOnPod, store: ReportedStore, *, first: bool) -> list[TableCell | str]:
    saved = store.snapshot
    if saved is None:
        return [store.name, "", TableCell("none", Tone.WARN), "", "", "", "", held.pod.name if first else ""]
    restore = held.task.restore
    return [
        store.name,
        count(saved.epoch),
        count(saved.offset),
        count(store.snapshot_lag),
        age(seconds_since(saved.fresh_at, held.at)),
        "" if saved.bytes is None or not first else size(saved.bytes),
        seconds(None if restore is None else restore.predicted_seconds) if first else "",
        held.pod.name if first else "",
    ]
