"""An aggregator of four arguments is given the window that it folds into."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import (
    Consumed,
    Grouped,
    KStream,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    TimeWindows,
    UnlimitedWindows,
    Windowed,
)
from streamsapp.errors import TopologyError
from streamsapp.serdes.windowed import session_windowed
from streamsapp.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()
#: Writes both ends.
WINDOWED = session_windowed(TEXT)


def noted(key: str, value: str, windows: list[Any], window: Windowed[str]) -> list[Any]:
    return [*windows, [window.key, window.start_ms, window.end_ms]]


@pytest.mark.parametrize(
    "windows",
    [
        TimeWindows.of(10, grace=20),
        TimeWindows.of(10, grace=5).advance_by(3),
        UnlimitedWindows.of().start_on(7),
        SlidingWindows.of(10, grace=30),
    ],
)
@given(records=st.lists(st.tuples(st.sampled_from("km"), st.integers(0, 60)), max_size=30))
def test_it_is_the_window_of_the_result(windows: Any, records: list[tuple[str, int]]) -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", Consumed(TEXT, TEXT))
    grouped = stream.group_by_key(Grouped(TEXT, TEXT)).windowed_by(windows)
    table = grouped.aggregate(list, noted, Materialized(value_serde=JSON))
    table.to_stream().to("out", Produced(WINDOWED, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for key, time in records:
            source.pipe_input(key, "v", time)
        found = driver.create_output_topic("out", WINDOWED, JSON).read_key_values()
    if isinstance(windows, SlidingWindows):  # a new window begins with what the one beside it had
        found = [(window, values[-1:]) for window, values in found if values[-1] == list(window)]
        assert found or not records
    for window, values in found:
        assert values == [list(window)] * len(values)


def test_one_with_three_arguments_or_a_default_is_called_as_before() -> None:
    def with_default(key: str, value: str, text: str, more: str = "!") -> str:
        return text + value + more

    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", Consumed(TEXT, TEXT))
    grouped = stream.group_by_key(Grouped(TEXT, TEXT)).windowed_by(TimeWindows.of(10))
    table = grouped.aggregate(str, with_default, Materialized(value_serde=TEXT))
    table.to_stream(lambda window, _: window.key).to("out", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "v", 1)
        assert driver.create_output_topic("out", TEXT, TEXT).read_values() == ["v!"]


def test_a_session_whose_end_is_not_known_yet_has_no_such_argument() -> None:
    stream: KStream[str, str] = StreamsBuilder().stream("in", Consumed(TEXT, TEXT))
    sessions = stream.group_by_key().windowed_by(SessionWindows.of(10))
    with pytest.raises(TopologyError, match=r"aggregate calls its function with \(key, value, aggregate\); noted"):
        sessions.aggregate(list, noted, lambda key, one, other: one + other)  # type: ignore[arg-type]


def test_a_function_of_other_arguments_is_refused() -> None:
    stream: KStream[str, str] = StreamsBuilder().stream("in", Consumed(TEXT, TEXT))
    with pytest.raises(TopologyError, match=r"aggregate calls its function with \(key, value, aggregate\)"):
        stream.group_by_key().windowed_by(TimeWindows.of(10)).aggregate(list, lambda value: value)  # type: ignore[arg-type]
