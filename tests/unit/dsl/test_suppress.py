"""``KTable.suppress`` as it is built: which windows close when, and what is refused; and a buffer that is full."""

from __future__ import annotations

from typing import Any

import pytest

from streamsapp import (
    Consumed,
    EmitStrategy,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    StreamsConfig,
    Suppressed,
    TimeWindows,
)
from streamsapp.dsl.ktable import KTable
from streamsapp.errors import ProcessingError, TopologyError
from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.testing import TopologyTestDriver

_BUFFER = Suppressed.BufferConfig


def _counts(builder: StreamsBuilder, grace: int = 0) -> KTable[Any, Any]:
    stream = builder.stream("in", Consumed(Serdes.string(), Serdes.string()))
    return stream.group_by_key().windowed_by(TimeWindows.of(10, grace)).count()


def test_a_table_without_windows_cannot_wait_until_they_close() -> None:
    table = StreamsBuilder().table("in", Consumed(Serdes.string(), Serdes.string()))
    with pytest.raises(TopologyError, match=r"nothing above it has windows that close.*until_time_limit"):
        table.filter(lambda key, value: True).suppress(Suppressed.until_window_closes())


def test_only_suppressed_says_when_updates_go_on() -> None:
    table: Any = StreamsBuilder().table("in", Consumed(Serdes.string(), Serdes.string()))
    with pytest.raises(TopologyError, match="is not a Suppressed"):
        table.suppress(None)


def _run(handler: Any) -> tuple[TopologyTestDriver, Any]:
    builder = StreamsBuilder()
    suppressed = _counts(builder).suppress(Suppressed.until_window_closes(_BUFFER.unbounded().with_max_records(1)))
    suppressed.to_stream(lambda windowed, count: windowed.key).to("out", Produced(Serdes.string(), Serdes.long()))
    config = StreamsConfig(application_id="app", bootstrap_servers="unused:9092", processing_exception_handler=handler)
    driver = TopologyTestDriver(builder.build(), config)
    return driver, driver.create_input_topic("in", Serdes.string(), Serdes.string())


def test_a_full_buffer_that_must_not_emit_early_fails_with_its_bound_and_the_remedy() -> None:
    driver, topic = _run("fail")
    with driver:
        topic.pipe_input("a", "x", 1)
        with pytest.raises(ProcessingError, match=r"2 of 1 records \(max_records\).*Raise the bound"):
            topic.pipe_input("b", "x", 2)


def test_the_users_handler_may_let_a_full_buffer_grow_and_no_result_is_lost() -> None:
    told: list[str] = []

    def handler(context: ErrorContext, error: Exception) -> Response:
        told.append(str(error))
        return Response.CONTINUE

    driver, topic = _run(handler)
    with driver:
        for key, at in (("a", 1), ("b", 2), ("c", 30)):
            topic.pipe_input(key, "x", at)
        sent = driver.create_output_topic("out", Serdes.string(), Serdes.long()).read_key_values()
    assert len(told) == 1
    assert sent == [("a", 1), ("b", 1)]


def test_what_reads_a_suppressed_table_names_the_buffer_before_the_table_below_it() -> None:
    """Kafka Streams' order: these two names share a bucket of Java's hash sets, which keeps it."""
    builder = StreamsBuilder()
    table = builder.table("in", Consumed(Serdes.string(), Serdes.string()), Materialized("table-store-3"))
    table.suppress(Suppressed.until_time_limit(0)).outer_join(table, lambda left, right: left)
    stores = "[KTABLE-SUPPRESS-STATE-STORE-0000000003, table-store-3]"
    assert f"Processor: KTABLE-JOINOTHER-0000000006 (stores: {stores})" in str(builder.build().describe())


def test_final_results_and_what_a_suppression_sends_are_counted_for_the_metrics() -> None:
    builder = StreamsBuilder()
    windowed = builder.stream("in", Consumed(Serdes.string(), Serdes.string())).group_by_key()
    closing = windowed.windowed_by(TimeWindows.of(10)).emit_strategy(EmitStrategy.on_window_close())
    closing.count().to_stream(lambda window, count: window.key).to("closed", Produced(Serdes.string(), Serdes.long()))
    waiting = windowed.windowed_by(TimeWindows.of(20)).count().suppress(Suppressed.until_window_closes())
    waiting.to_stream(lambda window, count: window.key).to("waited", Produced(Serdes.string(), Serdes.long()))
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.create_input_topic("in", Serdes.string(), Serdes.string())
        for key, at in (("a", 1), ("b", 2), ("c", 12), ("d", 5_000)):
            topic.pipe_input(key, "x", at)
            driver.advance_wall_clock_time(1_000)
        counted = {name: tally.value for (_, name), tally in driver._tasks[0].context.counts.items()}
    assert counted == {"emit-final-records": 3, "suppression-emit": 3}
