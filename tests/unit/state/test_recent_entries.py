"""The newest entries of a store, held in memory for code that asks for the neighbours of every record."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from streamsapp import (
    Consumed,
    EmitStrategy,
    JoinWindows,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    SessionWindows,
    SlidingWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
)
from streamsapp.state.engine.rocksdb import RocksDBStore
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.recent_entries import Item, Recent
from streamsapp.testing import TopologyTestDriver

STRING = Serdes.string()
CONSUMED = Consumed(STRING, STRING)


def _segments(retention_ms: int = 100) -> Segments:
    return Segments(retention_ms, 60_000, lambda key: 0)


def _put(recent: Recent, segments: Segments, key: bytes, time: int, number: int, stored: str) -> None:
    recent.put(key, (time, number, stored))
    segments.observe(time)


def _held(recent: Recent, key: bytes, from_ms: int, to_ms: int) -> list[Item]:
    found = recent.between(key, from_ms, to_ms)
    assert found is not None
    return list(found)


def test_entries_of_a_key_come_in_order_whatever_the_order_in_which_they_were_put() -> None:
    segments = _segments()
    recent = Recent(segments, lambda: 1_000)
    for time, number in ((5, 1), (3, 2), (5, 0), (9, 3)):
        _put(recent, segments, b"k", time, number, f"{time}-{number}")
    _put(recent, segments, b"k", 5, 1, "again")

    assert _held(recent, b"k", 4, 8) == [(5, 0, "5-0"), (5, 1, "again")]
    recent.remove(b"k", 5, 0)
    assert _held(recent, b"k", 0, 9) == [(3, 2, "3-2"), (5, 1, "again"), (9, 3, "9-3")]
    assert _held(recent, b"other", 0, 9) == []


def test_a_key_whose_entries_all_went_takes_others_and_makes_room_when_it_has_none() -> None:
    segments = _segments(retention_ms=50)
    recent = Recent(segments, lambda: 5_000)
    _put(recent, segments, b"k", 5, 0, "first")
    recent.remove(b"k", 5, 0)
    assert _held(recent, b"k", 0, 9) == []
    _put(recent, segments, b"k", 4, 0, "second")
    assert _held(recent, b"k", 0, 9) == [(4, 0, "second")]

    for time in range(20_000):
        _put(recent, segments, b"%d" % time, time, 0, "v")
        recent.remove(b"%d" % time, time, 0)
    assert len(recent) <= 2_000


def test_after_a_restore_only_later_entries_are_known_to_be_all() -> None:
    segments = _segments()
    recent = Recent(segments, lambda: 1_000)
    _put(recent, segments, b"k", 7, 1, "lost with the epoch")
    facts = segments.facts()
    segments.stand_at(facts)

    assert recent.between(b"k", 7, 7) is None
    assert _held(recent, b"k", 8, 8) == []
    _put(recent, segments, b"k", 7, 2, "late")
    _put(recent, segments, b"k", 8, 3, "new")
    assert _held(recent, b"k", 8, 9) == [(8, 3, "new")]


def test_where_there_is_no_room_the_oldest_entries_go_first() -> None:
    segments = _segments(retention_ms=10_000)
    recent = Recent(segments, lambda: 100)
    for time in range(1_000):
        _put(recent, segments, b"%d" % (time % 7), time, time, "v")

    known_from = next(time for time in range(1_001) if recent.between(b"0", time, time) is not None)
    assert 900 <= known_from < 1_000
    held = [item[0] for key in range(7) for item in _held(recent, b"%d" % key, known_from, 999)]
    assert sorted(held) == list(range(known_from, 1_000))


def test_an_entry_larger_than_all_room_is_held_until_the_next_one_comes() -> None:
    segments = _segments()
    recent = Recent(segments, lambda: 0)
    for time in range(5):
        _put(recent, segments, b"k", time, time, "v")

    assert recent.between(b"k", 3, 4) is None
    assert _held(recent, b"k", 4, 4) == [(4, 4, "v")]


def test_expired_entries_make_room() -> None:
    segments = _segments(retention_ms=50)
    recent = Recent(segments, lambda: 5_000)
    for time in range(20_000):
        _put(recent, segments, b"%d" % time, time, 0, "v")

    assert _held(recent, b"19950", 19_950, 19_950)
    assert len(recent) <= 2_000


def _joined(builder: StreamsBuilder) -> None:
    left, right = builder.stream("left", CONSUMED), builder.stream("right", CONSUMED)
    windows = JoinWindows.of(50, grace=30)
    left.join(right, lambda one, other: f"{one}+{other}", windows, StreamJoined(STRING, STRING, STRING)).to(
        "out", Produced(STRING, STRING)
    )


def _sessions(builder: StreamsBuilder) -> None:
    grouped = builder.stream("left", CONSUMED).group_by_key()
    counts = grouped.windowed_by(SessionWindows.of(20, grace=30)).count(Materialized("counts"))
    named = counts.to_stream(lambda window, count: f"{window.key}@{window.start_ms}/{window.end_ms}")
    named.to("out", Produced(STRING, Serdes.long()))


def _sliding(builder: StreamsBuilder, emit: EmitStrategy = EmitStrategy.WINDOW_UPDATE) -> None:
    grouped = builder.stream("left", CONSUMED).group_by_key()
    counts = grouped.windowed_by(SlidingWindows.of(20, grace=30)).emit_strategy(emit).count(Materialized("counts"))
    named = counts.to_stream(lambda window, count: f"{window.key}@{window.start_ms}")
    named.to("out", Produced(STRING, Serdes.long()))


def _closed(builder: StreamsBuilder) -> None:
    _sliding(builder, EmitStrategy.on_window_close())


def _results(build: Callable[[StreamsBuilder], None]) -> list[tuple[object, object]]:
    """Random records of few keys, some of them late, some after all state was read back from the engine."""
    rng = random.Random(4)
    builder = StreamsBuilder()
    build(builder)
    value_serde = STRING if build is _joined else Serdes.long()
    with TopologyTestDriver(builder.build()) as driver:
        topics = [driver.create_input_topic("left", STRING, STRING)]
        if build is _joined:
            topics.append(driver.create_input_topic("right", STRING, STRING))
        for number in range(600):
            topic = rng.choice(topics)
            topic.pipe_input(rng.choice("abc"), f"{number}", max(0, number * 5 - rng.choice((0, 0, 7, 40, 90))))
        output = driver.create_output_topic("out", STRING, value_serde)
        return [(each.key, each.value) for each in output.read_records()]


@pytest.mark.parametrize("build", [_joined, _sessions, _sliding, _closed])
def test_an_operator_finds_in_memory_what_the_engine_has(
    build: Callable[[StreamsBuilder], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from_memory = _results(build)
    monkeypatch.setattr(Recent, "between", lambda *_: None)

    assert len(from_memory) > 300
    assert from_memory == _results(build)


class _PutIntoJoin(Processor):
    def init(self, context: ProcessorContext) -> None:
        self._store = context.get_state_store("pairs-this-join-store")

    def process(self, record: Record) -> None:
        self._store.put(record.key, record.value, record.timestamp)


def test_a_record_that_a_processor_puts_into_the_store_of_a_join_finds_its_partner() -> None:
    builder = StreamsBuilder()
    left, right, put = (builder.stream(topic, CONSUMED) for topic in ("left", "right", "put"))
    options = StreamJoined(STRING, STRING, STRING, store_name="pairs")
    joined = left.join(right, lambda one, other: f"{one}+{other}", JoinWindows.of(50), options)
    joined.to("out", Produced(STRING, STRING))
    put.process(_PutIntoJoin, "pairs-this-join-store")
    with TopologyTestDriver(builder.build()) as driver:
        rights, puts = (driver.create_input_topic(topic, STRING, STRING) for topic in ("right", "put"))
        rights.pipe_input("k", "r1", 0)
        puts.pipe_input("k", "put", 10)
        rights.pipe_input("k", "r2", 20)

        output = driver.create_output_topic("out", STRING, STRING)
        assert [each.value for each in output.read_records()] == ["put+r2"]


def test_a_window_in_a_new_segment_is_not_looked_for_in_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []
    get = RocksDBStore.get
    monkeypatch.setattr(RocksDBStore, "get", lambda self, key: asked.append(key) or get(self, key))  # type: ignore[func-returns-value]
    builder = StreamsBuilder()
    windows = TimeWindows.of(60_000, grace=10_000)
    builder.stream("in", CONSUMED).group_by_key().windowed_by(windows).count(Materialized("counts"))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", STRING, STRING)
        for number in range(100):
            topic.pipe_input(f"k{number % 3}", "v", number * 7_000)
        counts = driver.get_window_store("counts")
        assert len(asked) == 1  # a first read, which finds out whether the store is open

        driver._tasks[0].stores.revert()
        topic.pipe_input("k0", "v", 99 * 7_000)
        assert counts.fetch("k0", 660_000) == 3  # two that were committed, and one more
