"""The figures that are measured of an instance for its history."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from streamsapp import Serdes, Stores, TopicPartition
from streamsapp.metrics.samples import Histogram
from streamsapp.runtime.changelog_reader import ChangelogReader, Observation
from streamsapp.runtime.history_recorder import HistoryRecorder
from streamsapp.tasks.record_queue import ProcessingControl
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.testing import MockClock
from streamsapp.web.history import STEP_MS, Moment, MomentHistory
from task_parts import feed, raw, task_of, through


class Recorded:
    """A recorder of an instance whose parts the test decides."""

    def __init__(self, *tasks: StreamTask) -> None:
        self.clock = MockClock(1_000_000)
        self.history = MomentHistory("one")
        self.output = SimpleNamespace(commit_latency=Histogram(), committing_seconds=0.0)
        self.life = SimpleNamespace(outage=None)
        self.owned = SimpleNamespace(active=list(tasks), all={task.id: task for task in tasks})
        self.readers: dict[TopicPartition, ChangelogReader] = {}
        self.remote: Any = None
        reading = SimpleNamespace(readers=self.readers)
        self.stores = SimpleNamespace(restoration=SimpleNamespace(reading=reading), remote=None)
        self._recorder = HistoryRecorder(self.history, cast(Any, self), self.clock)

    def next(self) -> Moment:
        self._recorder.run()
        moment = self.history.after(0)[-1]
        self.clock.advance(STEP_MS)
        return moment


def test_the_rate_is_of_the_time_between_two_moments() -> None:
    task = task_of(through())
    recorded = Recorded(task)
    assert recorded.next().rate is None
    feed(task, (raw(number) for number in range(50)))
    task.process(ProcessingControl(), 50)
    assert recorded.next().rate == 5.0
    assert recorded.next().rate == 0.0


def test_a_task_that_comes_counts_from_nothing_and_one_that_goes_takes_nothing_away() -> None:
    recorded = Recorded(old := cast(Any, SimpleNamespace(**_task("0_0", 1_000))))
    recorded.next()
    old.processed_records = 1_100
    recorded.owned.active = [old, SimpleNamespace(**_task("0_1", 400))]
    assert recorded.next().rate == 50.0
    recorded.owned.active = [SimpleNamespace(**_task("0_0", 20))]  # it came back: a new one of the same name
    assert recorded.next().rate == 2.0


def _task(task_id: str, processed: int, lag: int | None = None) -> dict[str, Any]:
    clock = MockClock()
    lateness = SimpleNamespace(figures=lambda now_ms: None)
    return {
        "id": task_id, "initialized": True, "processed_records": processed, "input_lag": lag,
        "context": SimpleNamespace(lateness=lateness, clock=clock), "plan": SimpleNamespace(all_changelogs={}),
    }  # fmt: skip


def test_the_lag_is_not_known_while_no_broker_answers() -> None:
    tasks = [cast(Any, SimpleNamespace(**_task(f"0_{number}", 0, lag))) for number, lag in enumerate((7, None, 5))]
    recorded = Recorded(*tasks)
    assert (recorded.next().lag, recorded.next().outage) == (12, False)
    recorded.life.outage = (0.0, "no broker answers")
    moment = recorded.next()
    assert (moment.lag, moment.outage) == (None, True)
    assert Recorded(tasks[1]).next().lag is None


def test_commits_have_their_average_or_the_time_of_the_one_that_does_not_end() -> None:
    recorded = Recorded()
    assert recorded.next().commit_ms is None
    for seconds in (0.010, 0.030):
        recorded.output.commit_latency.observe(seconds)
    assert recorded.next().commit_ms == 20.0
    assert recorded.next().commit_ms is None
    recorded.output.committing_seconds = 41.5
    assert recorded.next().commit_ms == 41_500.0


def test_what_is_left_to_restore_and_what_replicas_are_behind() -> None:
    supplier = Stores.in_memory_key_value_store("counts")
    builder = Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string())
    task = task_of(through().add_state_store(builder, "node"), running=False)
    recorded = Recorded(task)
    moment = recorded.next()
    assert (moment.restoring, moment.replica_lag) == (0, None)
    partitions = [TopicPartition("app-counts-changelog", number) for number in range(3)]
    restoring, follower, unseen = (ChangelogReader(task, "counts", each, 10) for each in partitions)
    restoring.end, follower.observed = 60, Observation(10, 13, 0)
    recorded.readers |= dict(zip(partitions, (restoring, follower, unseen), strict=True))
    moment = recorded.next()
    assert (moment.restoring, moment.replica_lag) == (50, 3)
    assert Recorded().next().restoring is None


def test_the_age_of_the_oldest_snapshot() -> None:
    recorded = Recorded()
    now = recorded.clock.now_ms()
    taken = [SimpleNamespace(fresh_at_ms=at, last=None) for at in (now - 5_000, now - 90_000, None)]
    recorded.stores.remote = SimpleNamespace(snapshots=SimpleNamespace(tasks=dict(enumerate(taken))))
    assert recorded.next().snapshot_age_ms == 90_000
