"""Measures how fast input comes and how much each pod processes, from the pods' counters. Pure, except for its memory.

There is one for each application, called by the observer on the thread of its loop. Counts are untrusted, as user code
runs in pods: a count that goes back begins anew. The input is the processed records and the growth of the waiting ones,
whichever pods have the tasks; input of paused tasks waits for a user, and not for a pod. How much a pod does is known
while it has the same tasks and runs them all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from streamsapp_operator.model.observed_state import InputRates, PodReport, PodSeen, ReportedRole, TaskReport

#: Rates of what comes are means over halves of so many seconds, those of pods over all of them or the last half.
WINDOW = 20.0
#: A pod is busy where its input always is at least so many seconds of its own work.
BUSY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Sample:
    at: float
    #: Records so far.
    count: int
    lag: int


_Window: TypeAlias = deque[_Sample]


class RateObserver:
    """Remembers counts."""

    def __init__(self) -> None:
        #: Of each pod, by uid, what each of its tasks had processed the last time.
        self._counts: dict[str, dict[str, int]] = {}
        self._processed = 0
        #: The records that have come.
        self._input: _Window = deque()
        self._pods: dict[str, _Window] = {}

    def flow(self, pods: Sequence[PodSeen], *, settled: bool) -> InputRates | None:
        """Takes the pods' reports of now, and returns the rates; ``None`` if they are not known. ``settled`` says that
        the pods agree on which pod has which task."""
        uids = {pod.uid for pod in pods}
        self._counts = {uid: counts for uid, counts in self._counts.items() if uid in uids}
        self._pods = {uid: window for uid, window in self._pods.items() if uid in uids}
        lags = [self._saw(pod) for pod in pods]
        at = max((pod.report.fetched_at for pod in pods if pod.report is not None), default=0.0)
        known = [lag for lag in lags if lag is not None]
        if not settled or len(known) < len(lags):
            return None
        lag = sum(known)
        _add(self._input, _Sample(at, self._processed + lag, lag))
        return self._rates()

    def _saw(self, pod: PodSeen) -> int | None:
        """Takes a pod's report; the lag of its tasks is used if it is known of all."""
        if pod.report is None:
            self._pods.pop(pod.uid, None)
            return None
        active = [task for task in pod.report.tasks if task.role is ReportedRole.ACTIVE]
        known = all(task.input_lag is not None and task.processed is not None for task in active)
        lag = sum(task.input_lag or 0 for task in active if not task.paused) if known else None
        moved, works = self._count(pod.uid, active), lag is not None and _works(pod.report, active)
        if moved or not works:
            self._pods.pop(pod.uid, None)
        if lag is not None and works:
            count = sum(task.processed or 0 for task in active)
            _add(self._pods.setdefault(pod.uid, deque()), _Sample(pod.report.fetched_at, count, lag))
        return lag

    def _count(self, uid: str, active: Sequence[TaskReport]) -> bool:
        """Returns how much a pod's tasks did since the last time, and whether they are others, or began anew.

        A pod counts from 0 when it gets a task. The records that one had counted when it was seen first came before
        that.
        """
        counts = {task.id: task.processed for task in active if task.processed is not None}
        before = self._counts.get(uid)
        self._counts[uid] = counts
        if before is None:
            return True
        anew = {task for task, count in counts.items() if count < before.get(task, 0)}
        self._processed += sum(count - (0 if task in anew else before.get(task, 0)) for task, count in counts.items())
        return bool(anew) or counts.keys() != before.keys()

    def _rates(self) -> InputRates | None:
        samples = self._input
        if samples[-1].at - samples[0].at < WINDOW:
            return None
        middle = min(samples, key=lambda it: abs(it.at - (samples[0].at + samples[-1].at) / 2))
        if middle in {samples[0], samples[-1]}:
            return None
        halves = [max(0.0, it) for it in (_rate(samples[0], middle), _rate(middle, samples[-1]))]
        pods = [it for it in self._pods.values() if it[-1].at - it[0].at >= WINDOW / 2]
        busy = [rate for it in pods if (rate := _busy_rate(it)) is not None]
        return InputRates(
            arrival_low=min(halves),
            arrival_high=max(halves),
            busy_pod=sum(busy) / len(busy) if busy else None,
            fastest_pod=max((_rate(it[0], it[-1]) for it in pods), default=0.0),
        )


def _works(report: PodReport, active: Sequence[TaskReport]) -> bool:
    """Says whether the pod runs all its tasks, and so does what it can."""
    return not report.outages and all(task.state.upper() == "RUNNING" for task in active)


def _add(window: _Window, sample: _Sample) -> None:
    if window and sample.at <= window[-1].at:
        return
    window.append(sample)
    while len(window) > 1 and window[1].at <= sample.at - WINDOW:
        window.popleft()


def _rate(first: _Sample, last: _Sample) -> float:
    return (last.count - first.count) / (last.at - first.at)


def _busy_rate(window: _Window) -> float | None:
    """Returns the pod's rate since work waits all the time; ``None`` if that is not for long."""
    enough = _rate(window[0], window[-1]) * BUSY_SECONDS
    since = window[0]
    for sample in window:
        if sample.lag < enough:
            since = sample
    long = window[-1].at - since.at >= WINDOW / 2 and window[-1].count > since.count
    return _rate(since, window[-1]) if long else None
