"""Windowed aggregations that send their results at the commit: the last of each window, and what they end with."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Literal

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    KGroupedStream,
    KTable,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
)
from streamsapp.errors import TopologyError
from streamsapp.record import RawRecord, TopicPartition
from streamsapp.testing import TopologyTestDriver

STRING, LONG = Serdes.string(), Serdes.long()
Emit = Literal["update", "commit"]


def _kept(emit: Emit) -> Materialized[Any, Any]:
    return Materialized("st", STRING, LONG, emit=emit)


def _tumbling(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    return grouped.windowed_by(TimeWindows.of(10, grace=5)).count(_kept(emit))


def _hopping(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    return grouped.windowed_by(TimeWindows.of(10, grace=5).advance_by(3)).count(_kept(emit))


def _filtered(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    """The filter asks for old values."""
    return _tumbling(grouped, emit).filter(lambda window, count: count % 2 == 0, Materialized("even"))


def _reduced(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    return grouped.windowed_by(TimeWindows.of(10, grace=5)).reduce(max, _kept(emit))


def _sliding(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    return grouped.windowed_by(SlidingWindows.of(10, grace=5)).count(_kept(emit))


def _sessions(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    return grouped.windowed_by(SessionWindows.of(3, grace=5)).count(_kept(emit))


def _unless_third(key: str, value: int, total: int) -> int | None:
    """Deletes the window with every third value."""
    return None if value % 3 == 0 else total + value


def _going(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    return grouped.windowed_by(TimeWindows.of(10, grace=5)).aggregate(int, _unless_third, _kept(emit))


def _sliding_going(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    return grouped.windowed_by(SlidingWindows.of(2, grace=5)).aggregate(int, _unless_third, _kept(emit))


def _sessions_going(grouped: KGroupedStream[str, int], emit: Emit) -> KTable[Any, int]:
    sessions = grouped.windowed_by(SessionWindows.of(1, grace=9))
    return sessions.aggregate(int, _unless_third, lambda key, one, other: one + other, _kept(emit))


def _events() -> list[tuple[str, int, int]]:
    rng = random.Random(11)
    return [(rng.choice("abc"), number, max(0, number - rng.choice((0, 0, 2, 9)))) for number in range(200)]


def _results(make: Callable[[KGroupedStream[str, int], Emit], KTable[Any, int]], emit: Emit) -> list[list[Any]]:
    """Key, value and timestamp of the results of each of four commits."""
    builder = StreamsBuilder()
    grouped = builder.stream("in", Consumed(STRING, LONG)).group_by_key()
    make(grouped, emit).to_stream(lambda window, value: str(window)).to("out", Produced(STRING, LONG))
    commits = []
    with TopologyTestDriver(builder.build()) as driver:
        output = driver.create_output_topic("out", STRING, LONG)
        partition, events = TopicPartition("in", 0), _events()
        for begin in range(0, len(events), 50):
            # A commit for fifty records: pipe_input would commit after each.
            driver._tasks[0].add_records(
                partition,
                [
                    RawRecord("in", 0, begin + at, key.encode(), LONG.serialize(value), timestamp, None)
                    for at, (key, value, timestamp) in enumerate(events[begin : begin + 50])
                ],
            )
            driver._tasks[0].reached_end(partition)
            driver._tasks[0].process(driver._control, 50)
            driver._commit(driver._tasks[0])
            commits.append([(each.key, each.value, each.timestamp) for each in output.read_records()])
    return commits


@pytest.mark.parametrize(
    "make",
    [_tumbling, _hopping, _filtered, _reduced, _sliding, _sessions, _going, _sliding_going, _sessions_going],
)
def test_the_results_of_a_commit_are_the_last_of_each_window(
    make: Callable[[KGroupedStream[str, int], Emit], KTable[Any, int]],
) -> None:
    updates, commits = _results(make, "update"), _results(make, "commit")

    assert sum(map(len, commits)) < sum(map(len, updates))
    state: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for update, commit in zip(updates, commits, strict=True):
        # A window that came and went between two commits was never known.
        assert all(known.get(key) is not None for key, value, _ in commit if value is None)
        state.update((key, value) for key, value, _ in update)
        known.update((key, value) for key, value, _ in commit)
        assert len({key for key, _, _ in commit}) == len(commit)
        last = {key: (value, timestamp) for key, value, timestamp in update}
        assert all(last[key] == (value, timestamp) for key, value, timestamp in commit if value is not None)
        assert {key: value for key, value in known.items() if value is not None} == {
            key: value for key, value in state.items() if value is not None
        }


def test_records_of_windows_are_not_held_back_before_the_repartition_topic() -> None:
    records = StreamsBuilder().stream("in", Consumed(STRING, LONG))
    grouped = records.group_by(lambda key, value: key, Grouped(STRING, LONG, combine=True))
    with pytest.raises(TopologyError, match=r"could come after their window has closed; use combine=False"):
        grouped.windowed_by(TimeWindows.of(10)).count()
