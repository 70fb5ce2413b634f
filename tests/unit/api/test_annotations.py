"""Names for annotations: users write them in signatures, and the type checker checks them with all else."""

from __future__ import annotations

import pickle
from typing import assert_type

from streamsapp import (
    Consumed,
    KeyValueStore,
    KStream,
    KTable,
    Materialized,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
)
from streamsapp.testing import TopologyTestDriver

TEXT, LONG = Serdes.string(), Serdes.long()


class Sums(Processor):
    """Sums the values of each key."""

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._sums = context.get_state_store("sums", KeyValueStore[str, int])
        assert_type(self._sums, KeyValueStore[str, int])

    def process(self, record: Record[str, int]) -> None:
        total: int = (self._sums.get(record.key) or 0) + record.value
        self._sums.put(record.key, total)
        longer: Record[str, str] = record.with_value(str(total))
        self._context.forward(longer)


def longest(lines: KStream[str, str]) -> KTable[str, str]:
    return lines.group_by_key().reduce(lambda one, other: max(one, other, key=len), Materialized("longest", TEXT, TEXT))


def test_a_processor_with_annotations_of_records_and_stores_runs() -> None:
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.in_memory_key_value_store("sums"), TEXT, LONG))
    builder.stream("numbers", Consumed(TEXT, LONG)).process(Sums, "sums").to("sums", Produced(TEXT, TEXT))
    longest(builder.stream("lines", Consumed(TEXT, TEXT))).to_stream().to("longest", Produced(TEXT, TEXT))
    with TopologyTestDriver(builder.build()) as driver:
        driver.create_input_topic("numbers", TEXT, LONG).pipe_key_values([("a", 1), ("a", 2)])
        assert driver.create_output_topic("sums", TEXT, TEXT).read_key_values() == [("a", "1"), ("a", "3")]
        driver.create_input_topic("lines", TEXT, TEXT).pipe_key_values([("a", "x"), ("a", "xyz"), ("a", "xy")])
        assert driver.create_output_topic("longest", TEXT, TEXT).read_key_values()[-1] == ("a", "xyz")


def test_a_record_with_types_is_a_record() -> None:
    typed = Record[str, int]("a", 1, 5)
    assert typed == Record("a", 1, 5)
    assert typed.with_key(7) == Record(7, 1, 5)
    assert pickle.loads(pickle.dumps(typed)) == typed  # noqa: S301 - our own bytes
    assert not hasattr(typed, "__dict__"), "records stay as small as they were"
