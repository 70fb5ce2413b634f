"""The stream time of windowed aggregations goes with the committed offsets: a restart opens and closes no window."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    KStream,
    KTable,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    TopicPartition,
    Topology,
)
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp.testing import TopologyTestDriver

TEXT = Serdes.string()
IN = TopicPartition("in", 0)


class Restarted:
    """A driver whose task can be closed and begin again, with the state it has and the offsets that were committed."""

    def __init__(self, driver: TopologyTestDriver) -> None:
        self._driver = driver

    def pipe(self, time: int, key: str = "k", topic: str = "in") -> list[str]:
        """Returns the results of a record: windows as they are written, with counts or values."""
        self._driver.create_input_topic(topic, TEXT, TEXT).pipe_input(key, "v", time)
        return [each.value for each in self._driver.create_output_topic("out", TEXT, TEXT).read_records()]

    def committed(self) -> ConsumedOffset:
        """The offset that a commit would write now, as it is read from the group."""
        kept = ConsumedOffset(1, 0, self._driver._tasks[0].context.processor_metadata.to_commit())
        return ConsumedOffset.committed(kept.offset, kept.metadata)

    def restart(self, committed: ConsumedOffset | None) -> None:
        """Begins again where the group stands."""
        self._driver._tasks[0].close_user_code()
        task = self._driver._tasks[0].recycled(TaskRole.STANDBY).recycled(TaskRole.ACTIVE)
        task.start_offsets = {} if committed is None else {IN: committed}
        task.initialize()
        self._driver._tasks[0] = task


Build = Callable[[StreamsBuilder], KTable[Any, Any]]


def stream(builder: StreamsBuilder, topic: str = "in") -> KStream[str, str]:
    return builder.stream(topic, Consumed(TEXT, TEXT))


def tumbling_count(builder: StreamsBuilder) -> KTable[Any, Any]:
    grouped = stream(builder).group_by_key(Grouped(TEXT, TEXT))
    return grouped.windowed_by(TimeWindows.of(100, grace=50)).count()


def kept_count(builder: StreamsBuilder) -> KTable[Any, Any]:
    """As above; the store keeps windows for longer than they are open."""
    grouped = stream(builder).group_by_key(Grouped(TEXT, TEXT))
    return grouped.windowed_by(TimeWindows.of(100, grace=50)).count(Materialized(retention=10_000))


def tumbling_reduce(builder: StreamsBuilder) -> KTable[Any, Any]:
    grouped = stream(builder).group_by_key(Grouped(TEXT, TEXT))
    return grouped.windowed_by(TimeWindows.of(100, grace=50)).reduce(lambda one, other: one + other)


def sliding_count(builder: StreamsBuilder) -> KTable[Any, Any]:
    grouped = stream(builder).group_by_key(Grouped(TEXT, TEXT))
    return grouped.windowed_by(SlidingWindows.of(100, grace=60)).count()


def cogrouped_sessions(builder: StreamsBuilder) -> KTable[Any, Any]:
    first, second = (stream(builder, topic).group_by_key(Grouped(TEXT, TEXT)) for topic in ("in", "other"))
    both = first.cogroup(lambda key, value, total: total + value).cogroup(
        second, lambda key, value, total: total + value
    )
    kept = Materialized(key_serde=TEXT, value_serde=TEXT, retention=10_000)
    windows = both.windowed_by(SessionWindows.of(10))
    return windows.aggregate(lambda: "", lambda key, one, other: one + other, kept)


def topology(build: Build) -> Topology:
    builder = StreamsBuilder()
    rows = build(builder).to_stream(lambda key, value: key.key).map_values(str)
    rows.to("out", Produced(TEXT, TEXT))
    return builder.build()


@pytest.fixture
def restarted(request: pytest.FixtureRequest) -> Iterator[Restarted]:
    with TopologyTestDriver(topology(request.param)) as driver:
        yield Restarted(driver)


@pytest.mark.parametrize(
    ("restarted", "first", "newest", "late"),
    [
        # The newest window began at 100: by its start the first one, which closed at 150, would be open.
        (tumbling_count, 5, 160, 50),
        (tumbling_reduce, 5, 160, 50),
        (sliding_count, 200, 400, 230),
    ],
    indirect=["restarted"],
)
def test_a_window_that_had_closed_stays_closed_after_a_restart(
    restarted: Restarted, first: int, newest: int, late: int
) -> None:
    assert restarted.pipe(first)
    assert restarted.pipe(newest, key="other")
    assert restarted.pipe(late) == []
    restarted.restart(restarted.committed())
    assert restarted.pipe(late) == []
    restarted.restart(restarted.committed())
    assert restarted.pipe(late) == []
    assert restarted.pipe(newest, key="other")


@pytest.mark.parametrize("restarted", [cogrouped_sessions], indirect=True)
def test_a_stream_that_lags_behind_another_one_of_its_cogroup_does_so_after_a_restart(restarted: Restarted) -> None:
    assert restarted.pipe(1000) == ["v"]
    assert restarted.pipe(50, topic="other") == ["v"]
    restarted.restart(restarted.committed())
    assert restarted.pipe(55, topic="other") == ["None", "vv"]
    assert restarted.pipe(60) == []


@pytest.mark.parametrize("restarted", [kept_count], indirect=True)
def test_a_record_that_is_read_again_finds_its_window_open(restarted: Restarted) -> None:
    """At least once, the state may be ahead of the offsets after a crash, in part; the store keeps the window."""
    assert restarted.pipe(5) == ["1"]
    committed = restarted.committed()
    assert restarted.pipe(500) == ["1"]
    restarted.restart(committed)
    assert restarted.pipe(50) == ["2"]


@pytest.mark.parametrize("restarted", [tumbling_count], indirect=True)
def test_the_time_of_the_windows_in_the_store_counts_where_none_was_committed(restarted: Restarted) -> None:
    assert restarted.pipe(500) == ["1"]
    restarted.restart(None)
    assert restarted.pipe(50) == []


@pytest.mark.parametrize("restarted", [tumbling_count, tumbling_reduce], indirect=True)
def test_a_window_that_the_store_has_given_up_does_not_begin_anew(restarted: Restarted) -> None:
    """At least once, after a crash, the store may be ahead of the offsets by more than it keeps."""
    assert restarted.pipe(20)
    committed = restarted.committed()
    assert restarted.pipe(30)
    assert restarted.pipe(400_000_000)
    restarted.restart(committed)
    assert restarted.pipe(30) == []
    assert restarted.pipe(400_000_000)


def test_no_more_times_are_kept_than_there_is_room_for_and_none_of_nodes_that_are_gone() -> None:
    def build(builder: StreamsBuilder) -> KTable[Any, Any]:
        grouped = stream(builder).group_by_key(Grouped(TEXT, TEXT))
        for _ in range(100):
            table = grouped.windowed_by(TimeWindows.of(100)).count()
        return table

    with TopologyTestDriver(topology(build)) as driver:
        driver._tasks[0].context.processor_metadata.start({"@gone": 5, "of-a-store": 6})
        committed = Restarted(driver).committed()
        assert 20 < len(committed.processor_metadata) < 100
        assert "@gone" not in committed.processor_metadata
        assert committed.processor_metadata["of-a-store"] == 6
        assert len(committed.metadata) < 4096
