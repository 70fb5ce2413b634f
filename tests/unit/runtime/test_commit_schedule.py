"""Decides when the next commit begins: by time, on request, and when uncommitted writes grow large."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp import Consumed, Grouped, ProcessorContext, Record, Serdes, Stores, StreamsBuilder, Topology
from streamsapp.runtime.commit import CHECK_PERIOD, SELDOM, CommitSchedule
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.scheduler import MostBufferedFirst
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_manager import TaskManager
from streamsapp.testing import MockClock
from task_parts import config, feed, raw, task_of, through

#: Long enough for the next look.
PERIOD_MS = round(1000 * CHECK_PERIOD) + 1
#: As many of them as little is weighed once in.
LOOKS = round(SELDOM / CHECK_PERIOD)


def storing() -> Topology:
    def process(context: ProcessorContext, record: Record) -> None:
        context.get_state_store("store").put(record.key, record.value)

    supplier = Stores.in_memory_key_value_store("store")
    builder = Stores.key_value_store_builder(supplier, Serdes.string(), Serdes.string())
    return through(process).add_state_store(builder, "node")


class Scheduled:
    """A commit schedule over one task."""

    def __init__(
        self, *, interval: float = 10.0, unwritten_limit: int = 1_000_000, topology: Topology | None = None
    ) -> None:
        self.clock = MockClock(1_000)
        self.task: StreamTask = task_of(topology or storing(), clock=self.clock, settings=config())
        self.tasks = TaskManager(MostBufferedFirst())
        self.tasks.add(self.task)
        self.schedule = CommitSchedule(interval, self.clock, unwritten_limit)

    @property
    def due(self) -> bool:
        return self.schedule.due(self.tasks)

    @property
    def soon_due(self) -> bool:
        """Within the time in which what is unwritten is weighed once, however little it was."""
        for _ in range(LOOKS):
            self.clock.advance(PERIOD_MS)
            if self.due:
                return True
        return False


def test_a_commit_is_due_when_the_interval_is_over() -> None:
    it = Scheduled(interval=10.0)
    assert not it.due

    it.clock.advance(9_999)
    assert not it.due
    it.clock.advance(1)
    assert it.due


@pytest.mark.parametrize(
    ("took", "until_due"),
    [(0.0, 10.0), (2.0, 8.0), (5.0, 5.0), (7.0, 7.0), (10.0, 10.0), (60.0, 10.0)],
    ids=lambda seconds: f"{seconds:.0f}s",
)
def test_the_interval_counts_from_the_beginning_of_a_commit_and_a_long_commit_is_followed_by_as_long_a_rest(
    took: float, until_due: float
) -> None:
    it = Scheduled(interval=10.0)
    it.clock.advance(10_000)
    assert it.due

    it.schedule.restart(took)

    it.clock.advance(round(1000 * until_due) - 1)
    assert not it.due
    it.clock.advance(1)
    assert it.due


def test_a_commit_is_due_when_user_code_asks_for_one() -> None:
    it = Scheduled()
    it.task.context.commit_requested = True

    assert it.due


def test_a_commit_is_due_when_uncommitted_writes_grow_beyond_the_limit() -> None:
    it = Scheduled(unwritten_limit=5_000)
    assert not it.due
    feed(it.task, [raw(0, value=b"v" * 10_000)])
    it.task.process(it.task.control, 1)

    assert it.soon_due


def test_what_waits_for_rocksdb_counts_with_the_uncommitted_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Scheduled(unwritten_limit=5_000)
    assert not it.due

    monkeypatch.setattr(TaskStores, "unwritten_bytes", 6_000)

    assert it.task.stores.uncommitted_bytes == 0
    assert it.soon_due


def test_partial_counts_in_front_of_a_repartition_topic_count_with_the_uncommitted_writes() -> None:
    builder = StreamsBuilder()
    grouped = Grouped(Serdes.bytes(), Serdes.bytes(), combine=True)
    builder.stream("in", Consumed(Serdes.bytes(), Serdes.bytes())).group_by(lambda key, value: value, grouped).count()
    it = Scheduled(unwritten_limit=5_000, topology=builder.build())
    assert not it.due
    feed(it.task, [raw(offset, value=b"%d" % offset) for offset in range(20)])
    it.task.process(it.task.control, 20)

    assert it.task.stores.unwritten_bytes == 0
    assert it.soon_due
    it.task.emit_all_held()
    assert not it.soon_due


def test_what_is_unwritten_is_weighed_at_each_look_when_it_is_much(monkeypatch: pytest.MonkeyPatch) -> None:
    it, sizes = Scheduled(unwritten_limit=5_000), [0]
    weighed: list[int] = []

    def weigh(stores: TaskStores) -> int:
        weighed.append(sizes[-1])
        return sizes[-1]

    monkeypatch.setattr(TaskStores, "unwritten_bytes", property(weigh))
    assert not it.due
    for size, looks in ((0, 1), (1_000, 1), (1_300, 1), (4_000, LOOKS)):
        weighed.clear()
        sizes.append(size)
        assert not it.soon_due
        assert len(weighed) == looks
    sizes.append(5_001)
    it.clock.advance(PERIOD_MS)
    assert it.due


def test_tasks_that_rest_are_asked_once_and_what_they_have_is_weighed_before_long() -> None:
    it = Scheduled(interval=10.0)
    resting: Any = SimpleNamespace(resting=True, rounds=0, tasks=it.tasks.tasks)
    assert not it.schedule.due(resting)
    assert it.schedule.looks_in(resting) > 1
    resting.rounds += 1  # they have done something since, and rest again
    assert it.schedule.looks_in(resting) < SELDOM / 2
    it.clock.advance(PERIOD_MS)
    assert not it.schedule.due(resting)
    assert SELDOM / 2 < it.schedule.looks_in(resting) <= SELDOM
    it.clock.advance(round(1000 * SELDOM))
    assert it.schedule.looks_in(resting) == 0
    assert not it.schedule.due(resting)
    assert it.schedule.looks_in(resting) > 1


def test_nobody_looks_before_there_is_something_to_see() -> None:
    it = Scheduled(interval=100.0)
    resting: Any = SimpleNamespace(resting=True, rounds=0, tasks=it.tasks.tasks)
    looks = 0
    for rounds in range(100):
        resting.rounds = rounds  # every hundred milliseconds
        until = it.clock.monotonic() + 0.1
        while (left := until - it.clock.monotonic()) > 0:
            looks += 1
            assert not it.schedule.due(resting)
            it.clock.advance(math.ceil(1000 * min(left, it.schedule.looks_in(resting))) or 1)
    assert looks <= 3 * 100


def test_much_that_tasks_had_in_their_last_round_is_noticed_while_they_rest() -> None:
    it = Scheduled(interval=10.0, unwritten_limit=5_000)
    assert not it.due
    feed(it.task, [raw(0, value=b"v" * 10_000)])
    it.task.process(it.task.control, 1)
    resting: Any = SimpleNamespace(resting=True, rounds=1, tasks=it.tasks.tasks)
    it.clock.advance(PERIOD_MS)
    assert not it.schedule.due(resting)
    it.clock.advance(round(1000 * it.schedule.looks_in(resting)) + 1)
    assert it.schedule.due(resting)


def test_tasks_are_looked_at_only_now_and_then() -> None:
    it = Scheduled(interval=10.0)
    assert not it.due
    it.task.context.commit_requested = True

    assert not it.due
    it.clock.advance(50)
    assert it.due


def test_looking_at_very_many_tasks_takes_a_small_share_of_the_time() -> None:
    it = Scheduled(interval=10.0)

    class ManyTasks:
        """Looking through them takes 4 ms."""

        looks = rounds = 0

        @property
        def tasks(self) -> dict[Any, StreamTask]:
            self.looks += 1
            it.clock.advance(4)
            return it.tasks.tasks

    many = ManyTasks()
    for _ in range(900):
        it.schedule.due(cast(Any, many))
        it.clock.advance(1)

    assert many.looks == 5
