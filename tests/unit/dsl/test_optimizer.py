"""Repartition topics stay below what changes keys or values, also where the optimisation may move them up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamsapp import (
    Consumed,
    Grouped,
    KStream,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    StreamsBuilder,
)
from streamsapp.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()
READ: Consumed[str, str] = Consumed(TEXT, TEXT)


class Lengths(Processor):
    """Forwards the length of each value, under the key it came with."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        self._context.forward(record.with_value(len(record.value)))


def _process(builder: StreamsBuilder, stream: KStream[str, str]) -> KStream[str, int]:
    return stream.process(Lengths)


def _process_values(builder: StreamsBuilder, stream: KStream[str, str]) -> KStream[str, int]:
    return stream.process_values(Lengths)


def _global_join(builder: StreamsBuilder, stream: KStream[str, str]) -> KStream[str, int]:
    return stream.left_join(builder.global_table("rows", READ), lambda key, value: key, lambda value, row: len(value))


def _built(work: Callable[[StreamsBuilder, KStream[str, str]], KStream[str, int]]) -> StreamsBuilder:
    builder = StreamsBuilder()
    stream = builder.stream("in", READ).select_key(lambda key, value: value[0])
    grouped = work(builder, stream).group_by_key(Grouped(TEXT, LONG))
    grouped.reduce(lambda total, length: total + length).to_stream().to("out", Produced(TEXT, LONG))
    return builder


WORK = [_process, _process_values, _global_join]


@pytest.mark.parametrize("work", WORK)
def test_no_repartition_topic_moves_above_what_may_change_keys_or_values(
    work: Callable[[StreamsBuilder, KStream[str, str]], KStream[str, int]],
) -> None:
    builder = _built(work)
    assert str(builder.build(optimize=True).describe()) == str(_built(work).build().describe())

    with TopologyTestDriver(builder.build(optimize=True)) as driver:
        topic = driver.create_input_topic("in", TEXT, TEXT)
        for value in ("one", "three"):
            topic.pipe_input(None, value, 1)
        results = driver.create_output_topic("out", TEXT, LONG).read_records()
    assert [(record.key, record.value) for record in results] == [("o", 3), ("t", 5)]


def test_groups_below_a_processor_keep_the_topics_that_kafka_streams_has() -> None:
    def described(optimize: bool) -> str:
        builder = StreamsBuilder()
        processed = builder.stream("in", READ).process(Lengths)
        for _ in range(2):
            processed.group_by_key(Grouped(TEXT, LONG)).count()
        return str(builder.build(optimize=optimize).describe())

    assert described(optimize=True) == described(optimize=False)
