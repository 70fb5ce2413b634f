"""Measures an instance for its history, which the console draws.

Runs on the metrics thread, every ten seconds. It reads what other threads publish, of each task a few plain attributes,
and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from streamsapp.clock import Clock
from streamsapp.record import TaskId
from streamsapp.runtime.remote_state import snapshot_status
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.web.history import Moment, MomentHistory

if TYPE_CHECKING:
    from streamsapp.runtime.components import Components


class HistoryRecorder:
    """Adds a moment to a history at each run."""

    def __init__(self, history: MomentHistory, components: Components, clock: Clock) -> None:
        self._history = history
        self._components = components
        self._clock = clock
        self._measured_at: float | None = None
        self._processed: dict[TaskId, int] = {}
        #: The number of commits, and the seconds that all of them took.
        self._commits = (0, 0.0)

    def run(self) -> None:
        """Measure once."""
        components, now_ms = self._components, self._clock.now_ms()
        tasks = [task for task in components.owned.active if task.initialized]
        outage = components.life.outage is not None
        late = [it.average for task in tasks if (it := task.context.lateness.figures(now_ms)) is not None]
        restoring, replica_lag = self._changelogs()
        self._history.add(
            Moment(
                now_ms,
                rate=self._rate(tasks),
                lag=None if outage else _sum(task.input_lag for task in tasks),  # it would be that of before
                lateness_ms=round(max(late), 1) if late else None,
                commit_ms=self._commit_ms(),
                restoring=restoring,
                replica_lag=replica_lag,
                snapshot_age_ms=self._snapshot_age_ms(now_ms),
                outage=outage,
            )
        )

    def _rate(self, tasks: Iterable[StreamTask]) -> float | None:
        """A task counts from 0 wherever it begins."""
        before, self._processed = self._processed, {task.id: task.processed_records for task in tasks}
        passed = 0
        for task_id, count in self._processed.items():
            last = before.get(task_id, 0)
            passed += count - last if count >= last else count
        now, last_at = self._clock.monotonic(), self._measured_at
        self._measured_at = now
        return None if last_at is None or now <= last_at else round(passed / (now - last_at), 1)

    def _commit_ms(self) -> float | None:
        latency = self._components.output.commit_latency
        count, total = latency.count, latency.sum
        (count_before, total_before), self._commits = self._commits, (count, total)
        ended = (total - total_before) / (count - count_before) if count > count_before else None
        longest = max(ended or 0.0, self._components.output.committing_seconds)
        return None if ended is None and not longest else round(1000 * longest, 1)

    def _changelogs(self) -> tuple[int | None, int | None]:
        """Returns the records that are left to restore, and the records that replicas lack; ``None``: it has no
        stores, or no replicas."""
        readers = list(self._components.stores.restoration.reading.readers.values())
        stores = any(task.plan.all_changelogs for task in list(self._components.owned.all.values()))
        replicas = [each.observed for each in readers if each.follows]
        restoring = sum(each.remaining for each in readers if not each.follows) if stores else None
        return restoring, _sum(None if seen is None else seen.lag for seen in replicas)

    def _snapshot_age_ms(self, now_ms: int) -> int | None:
        remote = self._components.stores.remote
        if remote is None:
            return None
        ages = (snapshot_status.age_ms(each, now_ms) for each in list(remote.snapshots.tasks.values()))
        return max((age for age in ages if age is not None), default=None)


def _sum(figures: Iterable[int | None]) -> int | None:
    """The sum of those figures that are known; ``None`` if none is."""
    known = [each for each in figures if each is not None]
    return sum(known) if known else None
