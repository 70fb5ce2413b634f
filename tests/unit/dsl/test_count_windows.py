"""Windows that hold a number of records: their results, against a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from streamsapp import (
    Consumed,
    CountWindowedKStream,
    CountWindows,
    EmitStrategy,
    Grouped,
    KStream,
    Late,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Windowed,
)
from streamsapp.errors import TopologyError
from streamsapp.serdes.open_windows import OpenWindow, open_windows
from streamsapp.serdes.windowed import session_windowed
from streamsapp.testing import TopologyTestDriver

TEXT, JSON = Serdes.string(), Serdes.json()
WINDOWED = session_windowed(TEXT)


def grouped(builder: StreamsBuilder, windows: CountWindows) -> CountWindowedKStream[str, str]:
    stream: KStream[str, str] = builder.stream("in", Consumed(TEXT, TEXT))
    return stream.group_by_key(Grouped(TEXT, TEXT)).windowed_by(windows)


def lists(windows: CountWindowedKStream[str, str]) -> KStream[Windowed[str], Any]:
    """Aggregates that are changed in place."""

    def append(key: str, value: str, values: list[str]) -> list[str]:
        values.append(value)
        return values

    return windows.aggregate(list, append, Materialized("lists", TEXT, JSON))


def run(windows: CountWindows, records: list[tuple[str, str, int]], emit: EmitStrategy | None = None) -> list[Any]:
    builder = StreamsBuilder()
    made = grouped(builder, windows)
    lists(made if emit is None else made.emit_strategy(emit)).to("out", Produced(WINDOWED, JSON))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for key, value, time in records:
            source.pipe_input(key, value, time)
        found = driver.create_output_topic("out", WINDOWED, JSON).read_records()
        kept = driver.get_key_value_store("lists")
        assert all(len(open_) <= -(-windows.size // windows.advance) for _, open_ in kept.all())
    assert all(each.timestamp == each.key.end_ms for each in found)
    return [(each.key, each.value) for each in found]


def result(records: list[tuple[str, str, int]]) -> tuple[Windowed[str], list[str]]:
    times = [time for _, _, time in records]
    return Windowed(records[0][0], min(times), max(times)), [value for _, value, _ in records]


def model(windows: CountWindows, records: list[tuple[str, str, int]], *, updates: bool) -> list[Any]:
    expected: list[Any] = []
    of_key: dict[str, list[tuple[str, str, int]]] = {}
    for record in records:
        mine = of_key.setdefault(record[0], [])
        mine.append(record)
        for begin in range(0, len(mine), windows.advance):
            inside = mine[begin : begin + windows.size]
            if begin + windows.size >= len(mine) and (updates or len(inside) == windows.size):
                expected.append(result(inside))
    return expected


@given(
    st.lists(st.tuples(st.sampled_from("kmn"), st.integers(0, 50)), max_size=60),
    st.integers(1, 7),
    st.integers(1, 7),
    st.booleans(),
)
def test_windows_are_sent_as_the_model_says(
    pairs: list[tuple[str, int]], size: int, advance: int, updates: bool
) -> None:
    windows = CountWindows.of(size).advance_by(min(size, advance))
    records = [(key, f"v{number}", time) for number, (key, time) in enumerate(pairs)]
    emit = EmitStrategy.on_window_update() if updates else None
    assert run(windows, records, emit) == model(windows, records, updates=updates)


def one(build: Callable[[CountWindowedKStream[str, str]], KStream[Windowed[str], Any]], serde: Any) -> list[Any]:
    builder = StreamsBuilder()
    build(grouped(builder, CountWindows.of(3))).to("out", Produced(value_serde=serde))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for number, value in enumerate("abcdefgh"):
            source.pipe_input("k", value, number)
            source.pipe_input(None, value, number)
            source.pipe_input("k", None, number)
        return driver.create_output_topic("out", WINDOWED, serde).read_values()


def test_counts_and_reductions_are_sent_and_records_without_key_or_value_count_in_no_window() -> None:
    assert one(lambda windows: windows.count(), Serdes.long()) == [3, 3]
    assert one(lambda windows: windows.reduce(lambda left, right: left + right), TEXT) == ["abc", "def"]


def test_a_window_whose_aggregate_was_deleted_is_not_sent_and_a_later_record_begins_it_anew() -> None:
    def fold(key: str, value: str, text: str) -> str | None:
        return None if value in "cd" else text + value

    built = one(lambda windows: windows.aggregate(str, fold, Materialized(value_serde=TEXT)), TEXT)
    assert built == ["ef"], "abc was deleted by its last record, and d before ef"


def test_nothing_is_kept_of_a_record_that_fails() -> None:
    builder = StreamsBuilder()

    def fold(key: str, value: str, values: list[str]) -> list[str]:
        values.append(value)
        if value == "bad":
            raise ValueError("bad")
        return values

    made = grouped(builder, CountWindows.of(2)).aggregate(list, fold, Materialized("lists", TEXT, JSON))
    made.to("out", Produced(WINDOWED, JSON))
    config = StreamsConfig(
        application_id="app", bootstrap_servers="unused:9092", processing_exception_handler="continue"
    )
    with TopologyTestDriver(builder.build(), config) as driver:
        source = driver.create_input_topic("in", TEXT, TEXT)
        for number, value in enumerate(["a", "bad", "b"]):
            source.pipe_input("k", value, number)
        assert driver.create_output_topic("out", WINDOWED, JSON).read_values() == [["a", "b"]]


def test_a_changed_key_is_repartitioned_and_the_store_is_named() -> None:
    builder = StreamsBuilder()
    stream: KStream[str, str] = builder.stream("in", Consumed(TEXT, TEXT))
    by_value = stream.group_by(lambda key, value: value, Grouped("by-value", TEXT, TEXT))
    by_value.windowed_by(CountWindows.of(2)).count("counted", Materialized("windows")).foreach(print)
    described = str(builder.build().describe())
    assert "topic: by-value-repartition" in described
    assert "Processor: counted (stores: [windows])" in described


def test_windows_come_back_from_their_bytes_and_damaged_ones_are_refused() -> None:
    serde = open_windows(TEXT)
    windows = [OpenWindow(3, 1, 9, "abc"), OpenWindow(1, -4, 7, None), OpenWindow(2, 0, 0, "")]
    data = serde.serialize(windows)
    assert serde.deserialize(data) == windows
    whole = [len(serde.serialize(windows[:count])) for count in range(4)]
    for cut in range(len(data)):
        if cut in whole:
            assert serde.deserialize(data[:cut]) == windows[: whole.index(cut)]
        else:
            with pytest.raises(ValueError, match="in the middle"):
                serde.deserialize(data[:cut])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: CountWindows.of(0), "size=0; it is a number of records, at least 1"),
        (lambda: CountWindows.of(True), "size=True; it is a number of records"),
        (lambda: CountWindows.of(3).advance_by(4), "advance=4 is more than size=3"),
        (lambda: CountWindows.of(3).advance_by(0), "advance=0; it is a number"),
        (lambda: windowed(late=Late("late")), "no record comes too late for CountWindows"),
        (lambda: windowed().count(Materialized(retention=5)), r"Materialized\(retention=...\): count windows"),
        (lambda: windowed().count(Materialized(emit="commit")), r"Materialized\(emit=...\): count windows"),
        (lambda: windowed(Grouped("g", TEXT, TEXT, combine=True)).count(), "count windows cannot combine"),
        (lambda: windowed().reduce(lambda: 1), r"reduce calls its function with \(aggregate, value\)"),
        (
            lambda: stream().group_by_key().cogroup(lambda k, v, a: a).windowed_by(CountWindows.of(2)),  # type: ignore[call-overload]
            "CountWindows are for streams alone",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(TopologyError, match=told):
        make()


def stream() -> KStream[str, str]:
    return StreamsBuilder().stream("in", Consumed(TEXT, TEXT))


def windowed(options: Grouped[str, str] | None = None, **how: Any) -> Any:
    return stream().group_by(lambda key, value: value, options).windowed_by(CountWindows.of(2), **how)
