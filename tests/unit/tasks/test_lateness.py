"""How late records come, as ``record-lateness`` says it."""

from __future__ import annotations

from streamsapp import Consumed, Serdes, StreamsBuilder
from streamsapp.tasks.lateness import SAMPLE_MS, Lateness, LatenessFigures
from streamsapp.testing import TopologyTestDriver


def test_lateness_is_that_of_the_last_two_samples() -> None:
    lateness = Lateness()
    assert lateness.figures(0) is None
    for late_ms, records, now_ms in ((30, 3, 100), (6, 1, 100 + SAMPLE_MS), (0, 2, 100 + 2 * SAMPLE_MS)):
        lateness.begin_batch(now_ms)
        lateness.observe(late_ms, late_ms)
        lateness.count(records)
        if now_ms == 100 + SAMPLE_MS:
            assert lateness.figures(now_ms) == LatenessFigures(9.0, 30)
    assert lateness.figures(100 + 2 * SAMPLE_MS) == LatenessFigures(2.0, 6)
    assert lateness.figures(100 + 3 * SAMPLE_MS) == LatenessFigures(0.0, 0)
    assert lateness.figures(100 + 4 * SAMPLE_MS) is None


def test_records_behind_stream_time_are_late_by_the_difference() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(Serdes.string(), Serdes.string())).foreach(lambda key, value: None)
    with TopologyTestDriver(builder.build(), initial_wall_clock_ms=5) as driver:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        for timestamp in (100, 80, 100, 40):
            topic.pipe_input("k", "v", timestamp)
        assert driver._tasks[0].context.lateness.figures(5) == LatenessFigures(20.0, 60)
