"""When a silent input is marked: by the monotonic clock alone, and only while brokers say that there is no record."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from streamsapp import (
    Consumed,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    TopicPartition,
)
from streamsapp.runtime.idle_inputs import IdleInputs
from streamsapp.state.engine.resources import StateResources
from streamsapp.tasks.assembly import TaskAssembly
from streamsapp.tasks.fed_records import fed_record
from streamsapp.tasks.record_queue import ProcessingControl, TimedQueue
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp.tasks.time_markers import TimeMarker
from streamsapp.testing.plans import whole, whole_plan

IN = TopicPartition("in", 0)
TEXT = Serdes.string()


class Jumping:
    """A clock whose wall-clock time may be anything."""

    def __init__(self) -> None:
        self.wall_ms, self.seconds = 0, 100.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.seconds


class Input:
    """One task with a silent input, and the brokers' word on it."""

    def __init__(self, directory: Path, starts: Mapping[TopicPartition, ConsumedOffset] | None = None) -> None:
        builder = StreamsBuilder()
        stream = builder.stream("in", Consumed("source", TEXT, TEXT, idle_after=10_000))
        counts = stream.group_by_key().windowed_by(TimeWindows.of(60_000)).count()
        closed = counts.suppress(Suppressed.until_window_closes()).to_stream(lambda window, _: window.key)
        closed.to("out", Produced(TEXT, Serdes.long()))
        config = StreamsConfig(application_id="app", bootstrap_servers="none:9092")
        self.clock = Jumping()
        plan = whole_plan(whole(builder.build()), "app", (), str)
        assembly = TaskAssembly(config, StateResources(), self.clock)
        self.task: StreamTask = assembly.started(plan, directory, starts=starts)
        #: Where the partition ends; ``None``: no broker answers.
        self.end: int | None = 0
        self.idle = IdleInputs(self.clock, self._ends, lambda task: None)
        self.idle.add([self.task])

    def _ends(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, tuple[int, int]]:
        return {} if self.end is None else dict.fromkeys(partitions, (0, self.end))

    @property
    def queue(self) -> TimedQueue:
        queue = self.task.queues[IN]
        assert isinstance(queue, TimedQueue)
        return queue

    def get(self, offset: int, timestamp: int) -> None:
        """A record comes, and is processed; there is no other."""
        self.task.add_records(IN, [fed_record("in", 0, offset, b"k", b"v", timestamp, None)])
        self.end = offset + 1
        self.task.reached_end(IN, self.end)
        self.run()

    def run(self) -> None:
        self.task.process(ProcessingControl(), 100)

    def pass_time(self, seconds: float) -> int:
        """Returns the time of the input afterwards."""
        self.clock.seconds += seconds
        self.idle.run()
        self.run()
        return self.queue.partition_time


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[Input]:
    made = Input(tmp_path)
    made.get(0, 50_000)
    yield made
    made.task.close_user_code()
    made.task.stores.close()


def test_time_moves_on_by_steps_of_the_silence(silent: Input) -> None:
    assert silent.pass_time(9.9) == 50_000
    assert silent.pass_time(0.1) == 60_000
    assert silent.pass_time(5) == 60_000
    assert silent.pass_time(5) == 70_000


@pytest.mark.parametrize("wall_ms", [-(1 << 50), 1 << 50])
def test_a_wall_clock_that_jumps_moves_no_time(silent: Input, wall_ms: int) -> None:
    silent.clock.wall_ms = wall_ms
    assert silent.pass_time(10) == 60_000


def test_a_thread_that_was_late_marks_all_that_has_passed(silent: Input) -> None:
    assert silent.pass_time(25) == 75_000
    assert silent.pass_time(5) == 80_000


def test_while_no_broker_answers_no_time_passes(silent: Input) -> None:
    silent.end = None
    assert silent.pass_time(30) == 50_000
    silent.end = 1
    assert silent.pass_time(10) == 90_000


def test_a_record_at_the_broker_ends_the_silence_before_it_is_here(silent: Input) -> None:
    silent.end = 2
    assert silent.pass_time(30) == 50_000
    silent.get(1, 55_000)
    assert silent.pass_time(9) == 55_000
    assert silent.pass_time(1) == 65_000


def test_markers_end_when_all_windows_are_closed(silent: Input) -> None:
    for _ in range(50):
        silent.pass_time(10)
    assert silent.queue.partition_time == 120_000
    assert silent.queue.is_idle
    assert silent.idle.due_in == float("inf")
    silent.get(1, 130_000)
    assert silent.idle.due_in == 10


def test_an_input_that_is_not_read_to_its_end_is_not_silent(silent: Input) -> None:
    silent.task.add_records(IN, [fed_record("in", 0, 1, b"k", b"v", 51_000, None)])
    assert silent.idle.due_in == float("inf")
    silent.run()
    assert silent.pass_time(60) == 51_000


def test_a_recorded_marker_is_applied_at_its_place_and_none_is_decided_anew(tmp_path: Path) -> None:
    made = Input(tmp_path, {IN: ConsumedOffset(1, 50_000)})
    try:
        assert made.task.time is not None
        made.task.time.add_recorded(
            made.queue, [TimeMarker(2, 64_000, idle=False), TimeMarker(1, 60_000, idle=False)], b""
        )
        records = [fed_record("in", 0, at, b"k", b"v", 61_000, None) for at in (1, 2)]
        made.task.add_records(IN, records)
        seen = []
        while made.task.buffered_records:
            made.task.process(ProcessingControl(), 1)
            seen.append((made.queue.position, made.queue.partition_time))
        assert seen == [(1, 60_000), (2, 61_000), (2, 64_000), (3, 64_000)]
    finally:
        made.task.close_user_code()
        made.task.stores.close()


def test_a_partition_of_which_nothing_was_ever_read_has_no_time(tmp_path: Path) -> None:
    made = Input(tmp_path)
    try:
        made.task.reached_end(IN, 0)
        assert made.pass_time(10) == -1
        assert made.queue.is_idle
        assert made.pass_time(100) == -1
    finally:
        made.task.close_user_code()
        made.task.stores.close()
