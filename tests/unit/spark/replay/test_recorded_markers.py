"""A replay that is given the time markers of a live run writes what that wrote, and has the same state."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from staged_replay import Staged
from streamsapp import (
    Consumed,
    EmitStrategy,
    Grouped,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    StreamJoined,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
    TopicPartition,
)
from streamsapp.record import RawRecord
from streamsapp.tasks.time_markers import TimeMarker, read_marker
from streamsapp.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
SECOND = 1_000
CONFIG = StreamsConfig(application_id="app", bootstrap_servers="none:9092")


def _source(builder: StreamsBuilder, topic: str) -> Any:
    return builder.stream(topic, Consumed(f"{topic}-source", TEXT, TEXT, idle_after=5 * SECOND))


def at_the_source(builder: StreamsBuilder) -> None:
    grouped = _source(builder, "in").group_by_key(Grouped("group", TEXT, TEXT)).windowed_by(TimeWindows.of(20 * SECOND))
    counts = grouped.count(Materialized("counts")).suppress(Suppressed.until_window_closes())
    counts.to_stream(lambda window, _: f"{window.key}@{window.start_ms}").to("out", Produced(TEXT, LONG))


def finally_sent(builder: StreamsBuilder) -> None:
    grouped = _source(builder, "in").group_by_key(Grouped("group", TEXT, TEXT)).windowed_by(TimeWindows.of(20 * SECOND))
    counts = grouped.emit_strategy(EmitStrategy.on_window_close()).count(Materialized("counts"))
    counts.to_stream(lambda window, _: f"{window.key}@{window.start_ms}").to("out", Produced(TEXT, LONG))


def behind_a_topic(builder: StreamsBuilder) -> None:
    by_value = _source(builder, "in").select_key(lambda key, value: value)
    grouped = by_value.group_by_key(Grouped("group", TEXT, TEXT)).windowed_by(TimeWindows.of(20 * SECOND))
    counts = grouped.count(Materialized("counts")).suppress(Suppressed.until_window_closes())
    counts.to_stream(lambda window, _: f"{window.key}@{window.start_ms}").to("out", Produced(TEXT, LONG))


def joined(builder: StreamsBuilder) -> None:
    left, right, windows = _source(builder, "in"), _source(builder, "other"), JoinWindows.of(4 * SECOND)
    pairs = left.outer_join(
        right, lambda a, b: f"{a or '-'}/{b or '-'}", windows, StreamJoined("join", TEXT, TEXT, TEXT)
    )
    pairs.to("out", Produced(TEXT, TEXT))


def live(topology: Any, seed: int) -> tuple[dict[TopicPartition, list[RawRecord]], Any, Any]:
    """Bursts with silences in between: the input, its markers, and the results."""
    random = Random(seed)
    records: dict[TopicPartition, list[RawRecord]] = {}
    topics = sorted({topic for part in topology.sub_topologies() for each in part.sources for topic in each.topics})
    topics = [each for each in topics if not each.endswith("-repartition")]
    with TopologyTestDriver(topology, CONFIG, partitions=2) as driver:
        inputs = {topic: driver.create_input_topic(topic, TEXT, TEXT) for topic in topics}
        now = 1_000 * SECOND
        for _ in range(12):
            for _ in range(random.randrange(6)):
                topic, partition, key = random.choice(topics), random.randrange(2), f"k{random.randrange(3)}"
                at = now - random.randrange(2 * SECOND)
                kept = records.setdefault(TopicPartition(topic, partition), [])
                kept.append(RawRecord(topic, partition, len(kept), key.encode(), key.encode(), at))
                inputs[topic].pipe_input(key, key, at, partition=partition)
            for _ in range(random.randrange(1, 8)):
                driver.advance_wall_clock_time(3 * SECOND)
                now += 3 * SECOND
        for _ in range(20):
            driver.advance_wall_clock_time(3 * SECOND)
        markers = {
            TopicPartition(topic, partition): _markers(driver, store.name, topic, partition)
            for part in topology.sub_topologies()
            for store in part.stores
            if store.name.endswith("-source-time-markers") and "repartition" not in store.name
            for topic in topics
            for partition in range(2)
        }
        out = driver.create_output_topic("out", TEXT, Serdes.bytes())
        return records, markers, sorted((it.key, it.value, it.timestamp, it.headers) for it in out.read_records())


def _markers(driver: TopologyTestDriver, store: str, topic: str, partition: int) -> list[TimeMarker]:
    with driver.get_state_store(store, partition=partition).all() as entries:
        found = [read_marker(topic, key, data, b"") for key, data in entries]
    return [each for each in found if each is not None]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("program", [at_the_source, finally_sent, behind_a_topic, joined])
def test_a_replay_with_markers_writes_what_was_written_live(
    program: Callable[[StreamsBuilder], None], seed: int, tmp_path: Path
) -> None:
    builder = StreamsBuilder()
    program(builder)
    topology = builder.build()
    records, markers, results = live(topology, seed)
    assert results
    assert any(markers.values())
    topics = {each.topic for each in markers}
    every = {
        TopicPartition(topic, number): records.get(TopicPartition(topic, number), [])
        for topic in topics
        for number in range(2)
    }
    staged = Staged(topology, CONFIG, every, {"out": 2, **dict.fromkeys(topics, 2)}, tmp_path, markers=markers)
    staged.run()
    written = sorted(
        ((key or b"").decode(), value, at, headers or [])
        for _, value, key, _, _, _, at, headers in staged.outputs["out"]
    )
    assert written == [(key, value, at, headers or []) for key, value, at, headers in results]


def test_a_replay_without_markers_leaves_windows_open(tmp_path: Path) -> None:
    builder = StreamsBuilder()
    at_the_source(builder)
    topology = builder.build()
    records, _, results = live(topology, 0)
    every = {TopicPartition("in", number): records.get(TopicPartition("in", number), []) for number in range(2)}
    staged = Staged(topology, CONFIG, every, {"out": 2, "in": 2}, tmp_path)
    staged.run()
    assert len(staged.outputs["out"]) < len(results)
