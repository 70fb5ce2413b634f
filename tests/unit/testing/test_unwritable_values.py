"""Values that no changelog could have are found where they are made: the processing exception handler decides, and the
commit that follows goes through."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from streamsapp import Processor, ProcessorContext, Record, Serdes, Stores, StreamsBuilder, StreamsConfig
from streamsapp.dsl.options import Consumed, Grouped, Materialized
from streamsapp.errors import ProcessingError
from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.serdes.api import AnySerde
from streamsapp.state.api import StoreBuilder, ValueAndTimestamp
from streamsapp.testing import TopologyTestDriver

STRING, LONG = Serdes.string(), Serdes.long()
SURROGATE = "a\ud800"


class Seen:
    """A handler that remembers the errors."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def __call__(self, context: ErrorContext, error: Exception) -> Response:
        self.messages.append(str(error))
        return Response.CONTINUE


def refuse(value: Any) -> bytes:
    if value == "bad":
        raise RuntimeError("not today")
    return str(value).encode()


CUSTOM = Serdes.of(refuse, bytes.decode, immutable=True)
IN_PLACE = Serdes.of(refuse, bytes.decode)
TEXT_FOR_BYTES: AnySerde = Serdes.of(lambda value: value if value == "bad" else value.encode(), bytes.decode)

CASES = [
    (LONG, [1, (1 << 63) - 1], 1, "int for key 'k': 9223372036854775808 does not fit long"),
    (Serdes.integer(), [1, (1 << 31) - 1], 1, "int for key 'k': 2147483648 does not fit integer"),
    (STRING, ["fine", SURROGATE], "fine", "str for key 'k': 'utf-8' codec can't encode character"),
    (STRING, ["fine", b"bytes"], "fine", "bytes for key 'k': .*the store's value serde is string"),
    (LONG, [1, "text"], 1, "str for key 'k': got str, the serde is long"),
    (Serdes.bytes(), [b"fine", "text"], b"fine", "str for key 'k': got str, the serde is bytes; declare one that fits"),
    (Serdes.double(), [1.5, "text"], 1.5, "str for key 'k': got str, the serde is double"),
    (CUSTOM, ["fine", "bad"], "fine", "str for key 'k': not today"),
    (IN_PLACE, ["fine", "bad"], "fine", "str for key 'k': not today"),
    (TEXT_FOR_BYTES, ["fine", "bad"], "fine", "its serializer gave str, not bytes"),
]


def driver(builder: StreamsBuilder, handler: Any) -> TopologyTestDriver:
    config = StreamsConfig(application_id="app", bootstrap_servers="none:9092", processing_exception_handler=handler)
    return TopologyTestDriver(builder.build(), config)


def summed(serde: AnySerde, values: list[Any], **options: Any) -> StreamsBuilder:
    """The reducer adds numbers, and gives the last of other values; each input is the index of a value."""
    builder = StreamsBuilder()
    numbered = builder.stream("in", Consumed(STRING, LONG)).map_values(lambda index: values[index])
    reduced = numbered.group_by_key(Grouped(STRING, serde)).reduce(
        lambda old, new: old + new if type(old) is type(new) is int else new,
        Materialized("s", key_serde=STRING, value_serde=serde, **options),
    )
    reduced.to_stream().foreach(lambda key, value: None)
    return builder


def aggregated(serde: AnySerde, values: list[Any], **options: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in", Consumed(STRING, LONG)).group_by_key(Grouped(STRING, LONG)).aggregate(
        lambda: values[0],
        lambda key, index, old: old + values[1] if type(old) is type(values[1]) is int and index else values[index],
        Materialized("s", key_serde=STRING, value_serde=serde, **options),
    )
    return builder


def put(serde: AnySerde, values: list[Any], **options: Any) -> StreamsBuilder:
    class Putting(Processor):
        def init(self, context: ProcessorContext) -> None:
            self.store = context.get_state_store("s")

        def process(self, record: Record) -> None:
            value = values[record.value]
            previous = self.store.get(record.key)
            self.store.put(record.key, previous + value if type(previous) is type(value) is int else value)

    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value_store_builder(Stores.persistent_key_value_store("s"), STRING, serde))
    builder.stream("in", Consumed(STRING, LONG)).process(Putting, "s")
    return builder


@pytest.mark.parametrize("program", [summed, aggregated, put])
@pytest.mark.parametrize(("serde", "values", "kept", "message"), CASES)
def test_the_handler_decides_about_a_value_that_cannot_be_written(
    program: Callable[..., StreamsBuilder], serde: AnySerde, values: list[Any], kept: Any, message: str
) -> None:
    seen = Seen()
    with driver(program(serde, values), seen) as driven:
        topic = driven.create_input_topic("in", STRING, LONG)
        topic.pipe_input("k", 0)
        topic.pipe_input("k", 1)
        topic.pipe_input("other", 0)
        assert driven.get_key_value_store("s").get("k") == kept
        assert driven.get_key_value_store("s").get("other") == kept
    (told,) = seen.messages
    assert told.startswith("state store 's' cannot keep a value of type ")
    assert re.search(message, told)


@pytest.mark.parametrize("emit", ["update", "commit"])
def test_a_table_leaves_out_a_row_that_cannot_be_written(emit: Any) -> None:
    seen, builder = Seen(), StreamsBuilder()
    rows = builder.table("in", Consumed(STRING, STRING))
    options = Materialized[str, str]("s", key_serde=STRING, value_serde=STRING, emit=emit)
    rows.map_values(lambda value: SURROGATE if value == "bad" else value, options).to_stream().to("out")
    with driver(builder, seen) as driven:
        topic = driven.create_input_topic("in", STRING, STRING)
        topic.pipe_input("k", "fine")
        topic.pipe_input("k", "bad")
        assert driven.get_key_value_store("s").get("k") == "fine"
    assert len(seen.messages) == 1


def test_without_a_handler_the_application_fails_at_the_record_and_says_which() -> None:
    builder = summed(LONG, [1, (1 << 63) - 1])
    config = StreamsConfig(application_id="app", bootstrap_servers="none:9092")
    with TopologyTestDriver(builder.build(), config) as driven:
        topic = driven.create_input_topic("in", STRING, LONG)
        topic.pipe_input("k", 0)
        with pytest.raises(ProcessingError, match=r"record in-0@1: state store 's'.*9223372036854775808"):
            topic.pipe_input("k", 1)


@pytest.mark.parametrize("timestamp", [-1, 1 << 63, 1.5, None])
def test_a_timestamp_that_kafka_does_not_take_is_refused_where_it_is_put(timestamp: Any) -> None:
    seen, builder = Seen(), StreamsBuilder()

    class Putting(Processor):
        def init(self, context: ProcessorContext) -> None:
            self.store = context.get_state_store("s")

        def process(self, record: Record) -> None:
            self.store.put(record.key, ValueAndTimestamp("x", timestamp))

    supplier = Stores.persistent_timestamped_key_value_store("s")
    store: StoreBuilder = Stores.timestamped_key_value_store_builder(supplier, STRING, STRING)
    builder.add_state_store(store).stream("in", Consumed(STRING, STRING)).process(Putting, "s")
    with driver(builder, seen) as driven:
        driven.create_input_topic("in", STRING, STRING).pipe_input("k", "v")
        assert driven.get_state_store("s").get("k") is None
    (told,) = seen.messages
    assert told.startswith(f"state store 's' cannot keep the timestamp {timestamp!r} for key 'k': give milliseconds")
