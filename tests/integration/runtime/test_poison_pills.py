"""Records that cannot be read, processed or written, under each answer of the exception handlers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Message

from instances import PATIENT, TIMEOUT, Instances, eventually, produce
from kafka_cluster import Kafka
from streamsapp import ClientState, Consumed, Produced, Serdes, StreamsBuilder, StreamsConfig, StreamsRuntime, Topology
from streamsapp.dsl.kstream import KStream
from streamsapp.errors import DeserializationError, ProcessingError, ProductionError, SerializationError
from streamsapp.serdes.api import AnySerde

LONG = Serdes.long()
TEXT: AnySerde = Serdes.string()
ORIGINAL_HEADERS: list[tuple[str, Any]] = [("trace", b"t1"), ("trace", None)]


def packed(number: int) -> bytes:
    return LONG.serialize(number)


#: Three longs; the second has too few bytes.
WITH_A_PILL = [(b"a", packed(1), 1000), (b"pill", b"bad", 1001), (b"b", packed(3), 1002)]


def doubled(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    longs: KStream[bytes, int] = builder.stream(source, Consumed(value_serde=LONG))
    longs.map_values(lambda value: 2 * value).to(sink, Produced(value_serde=LONG))
    return builder.build()


def shares(source: str, sink: str, sibling: str) -> Topology:
    """100 divided by each number, which fails for zero; a sibling node gets every number as it is."""
    builder = StreamsBuilder()
    longs: KStream[bytes, int] = builder.stream(source, Consumed(value_serde=LONG))
    longs.map_values(lambda value: 100 // value, "divide").to(sink, Produced(value_serde=LONG))
    longs.filter(lambda key, value: True).to(sibling, Produced(value_serde=LONG))
    return builder.build()


def values(messages: list[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def ended_with(instance: StreamsRuntime) -> BaseException:
    error = instance.wait(TIMEOUT)
    assert instance.state is ClientState.ERROR
    assert error is not None
    return error


def headers_in_order(letter: Message) -> list[tuple[str, Any]]:
    headers: Any = letter.headers()
    return list(headers or [])


def headers_of(letter: Message) -> dict[str, bytes | None]:
    return {name: value for name, value in headers_in_order(letter) if not isinstance(value, str)}


class Letters:
    """A dead letter topic and configurations that use it."""

    def __init__(self, kafka: Kafka, instances: Instances) -> None:
        self.topic = kafka.create_topic("dead-letters")
        self._kafka, self._instances = kafka, instances

    def config(self, **settings: Any) -> StreamsConfig:
        properties = {**PATIENT, **settings.pop("kafka", {})}
        return self._instances.config(dead_letter_queue_topic=self.topic, kafka=properties, **settings)

    def read(self, number: int) -> list[Message]:
        eventually(lambda: len(self._kafka.read(self.topic)) >= number)
        letters = self._kafka.read(self.topic)
        assert len(letters) == number
        return letters


@pytest.fixture
def letters(kafka: Kafka, instances: Instances) -> Letters:
    return Letters(kafka, instances)


# ---- reading -------------------------------------------------------------------------------------------------------


def test_a_record_that_cannot_be_read_ends_the_instance_and_is_met_again(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("longs"), kafka.create_topic("doubled")
    produce(kafka, source, WITH_A_PILL)
    config = instances.config(processing_guarantee=guarantee)

    for _ in range(2):
        error = ended_with(instances.start(doubled(source, sink), config))
        assert isinstance(error, DeserializationError)
        assert "KSTREAM-SOURCE-0000000000" in str(error)
        assert "task 0_0" in str(error)
        assert f"{source}-0@1" in str(error)

    written = values(kafka.read(sink))
    assert packed(6) not in written
    if guarantee == "exactly_once":
        assert written == []


def test_a_record_that_cannot_be_read_is_left_out_when_the_handler_continues(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("longs"), kafka.create_topic("doubled")
    produce(kafka, source, WITH_A_PILL)

    config = instances.config(
        processing_guarantee=guarantee, deserialization_exception_handler="continue", kafka=PATIENT
    )
    instances.start(doubled(source, sink), config)

    eventually(lambda: len(kafka.read(sink)) == 2)
    assert values(kafka.read(sink)) == [packed(2), packed(6)]


def test_a_record_that_cannot_be_read_goes_to_the_dead_letter_topic_as_it_was(
    kafka: Kafka, instances: Instances, letters: Letters, guarantee: str
) -> None:
    source, sink = kafka.create_topic("longs"), kafka.create_topic("doubled")
    produce(kafka, source, WITH_A_PILL, headers=ORIGINAL_HEADERS)

    config = letters.config(processing_guarantee=guarantee, deserialization_exception_handler="dead_letter")
    instances.start(doubled(source, sink), config)

    eventually(lambda: len(kafka.read(sink)) == 2)
    (letter,) = letters.read(1)
    assert (letter.key(), letter.value(), letter.timestamp()[1]) == (b"pill", b"bad", 1001)
    assert headers_in_order(letter)[:2] == ORIGINAL_HEADERS
    told = headers_of(letter)
    assert told["__streams.errors.topic"] == source.encode()
    assert told["__streams.errors.partition"] == b"0"
    assert told["__streams.errors.offset"] == b"1"
    assert told["__streams.errors.exception"] == b"ValueError"
    assert b"Traceback" in (told["__streams.errors.stacktrace"] or b"")


# ---- processing ----------------------------------------------------------------------------------------------------


def test_a_record_that_user_code_chokes_on_ends_the_instance_and_is_met_again(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink, sibling = (kafka.create_topic(name) for name in ("numbers", "shares", "sibling"))
    produce(kafka, source, [(b"k", packed(number), 1000) for number in (5, 0, 4)])
    config = instances.config(processing_guarantee=guarantee)

    for _ in range(2):
        error = ended_with(instances.start(shares(source, sink, sibling), config))
        assert isinstance(error, ProcessingError)
        assert isinstance(error.__cause__, ZeroDivisionError)
        for part in ("ZeroDivisionError", "divide", "task 0_0", f"{source}-0@1"):
            assert part in str(error)

    assert packed(25) not in values(kafka.read(sink))


def test_siblings_get_the_record_that_one_node_chokes_on(kafka: Kafka, instances: Instances, guarantee: str) -> None:
    source, sink, sibling = (kafka.create_topic(name) for name in ("numbers", "shares", "sibling"))
    produce(kafka, source, [(b"k", packed(number), 1000) for number in (5, 0, 4)])

    settings: dict[str, Any] = {
        "processing_guarantee": guarantee, "processing_exception_handler": "continue", "kafka": PATIENT
    }  # fmt: skip
    config = instances.config(**settings)
    instances.start(shares(source, sink, sibling), config)

    eventually(lambda: len(kafka.read(sibling)) == 3 and len(kafka.read(sink)) == 2)
    assert values(kafka.read(sibling)) == [packed(5), packed(0), packed(4)]
    assert values(kafka.read(sink)) == [packed(20), packed(25)]


def test_the_input_record_goes_to_the_dead_letter_topic_when_user_code_chokes(
    kafka: Kafka, instances: Instances, letters: Letters, guarantee: str
) -> None:
    source, sink, sibling = (kafka.create_topic(name) for name in ("numbers", "shares", "sibling"))
    produce(kafka, source, [(b"k", packed(number), 1000 + number) for number in (5, 0, 4)], headers=ORIGINAL_HEADERS)

    config = letters.config(processing_guarantee=guarantee, processing_exception_handler="dead_letter")
    instances.start(shares(source, sink, sibling), config)

    eventually(lambda: len(kafka.read(sibling)) == 3)
    (letter,) = letters.read(1)
    assert (letter.key(), letter.value(), letter.timestamp()[1]) == (b"k", packed(0), 1000)
    assert headers_in_order(letter)[:2] == ORIGINAL_HEADERS
    told = headers_of(letter)
    assert told["__streams.errors.exception"] == b"ZeroDivisionError"
    assert told["__streams.errors.offset"] == b"1"


# ---- writing -------------------------------------------------------------------------------------------------------


def texts(source: str, sink: str) -> Topology:
    """Values that were read as bytes are written as text, which fails for everything."""
    builder = StreamsBuilder()
    stream: KStream[Any, Any] = builder.stream(source)
    stream.filter(lambda key, value: value != b"bad").to(sink)
    stream.filter(lambda key, value: value == b"bad").map_values(lambda value: 7).to(sink, Produced(value_serde=TEXT))
    return builder.build()


def test_a_value_of_the_wrong_type_ends_the_instance_at_the_sink(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, sink = kafka.create_topic("values"), kafka.create_topic("texts")
    produce(kafka, source, [(b"k", b"good", 1000), (b"k", b"bad", 1001)])

    error = ended_with(instances.start(texts(source, sink), instances.config(processing_guarantee=guarantee)))

    assert isinstance(error, SerializationError)
    for part in (f"topic {sink}", "KSTREAM-SINK", "task 0_0", f"{source}-0@1"):
        assert part in str(error)


@pytest.mark.parametrize("answer", ["continue", "dead_letter"])
def test_a_value_of_the_wrong_type_is_left_out_or_becomes_a_dead_letter(
    kafka: Kafka, instances: Instances, letters: Letters, guarantee: str, answer: str
) -> None:
    source, sink = kafka.create_topic("values"), kafka.create_topic("texts")
    produce(kafka, source, [(b"k", value, 1000) for value in (b"1", b"bad", b"2")])

    config = letters.config(processing_guarantee=guarantee, production_exception_handler=answer)
    instances.start(texts(source, sink), config)

    eventually(lambda: len(kafka.read(sink)) == 2)
    assert values(kafka.read(sink)) == [b"1", b"2"]
    assert values(letters.read(answer == "dead_letter")) == ([b"bad"] if answer == "dead_letter" else [])


def copied(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(source).map_values(lambda value: value * 1000).to(sink)
    return builder.build()


#: The place that refuses a record of 50,000 bytes: the client, which then never sends it, or the topic.
TOO_LARGE = {
    "client": ({}, {"producer.message.max.bytes": "20000"}),
    "topic": ({"max.message.bytes": "20000"}, {}),
}


@pytest.mark.parametrize("where", TOO_LARGE)
def test_a_record_too_large_to_be_written_ends_the_instance_and_is_met_again(
    kafka: Kafka, instances: Instances, guarantee: str, where: str
) -> None:
    topic_config, client = TOO_LARGE[where]
    source, sink = kafka.create_topic("values"), kafka.create_topic("copies", config=topic_config)
    produce(kafka, source, [(b"k", b"s", 1000), (b"k", b"l" * 50, 1001), (b"k", b"t", 1002)])
    config = instances.config(processing_guarantee=guarantee, kafka=client)

    for _ in range(2):
        error = ended_with(instances.start(copied(source, sink), config))
        assert isinstance(error, ProductionError)
        assert sink in str(error)
        assert "max.message.bytes" in str(error)


def test_a_record_too_large_to_be_written_is_left_out_by_the_handler(
    kafka: Kafka, instances: Instances, letters: Letters, guarantee: str
) -> None:
    source, sink = kafka.create_topic("values"), kafka.create_topic("copies")
    produce(kafka, source, [(b"k", value, 1000) for value in (b"s", b"l" * 50, b"t")])

    config = letters.config(
        processing_guarantee=guarantee,
        production_exception_handler="continue",
        kafka={"producer.message.max.bytes": "20000"},
    )
    instance = instances.start(copied(source, sink), config)

    eventually(lambda: len(kafka.read(sink)) == 2)
    assert values(kafka.read(sink)) == [b"s" * 1000, b"t" * 1000]
    assert instance.state is ClientState.RUNNING


#: A topic that takes any time.
AHEAD = {"message.timestamp.after.max.ms": str(2**63 - 1)}
#: Producers: of batches, and librdkafka's, which sends where a property is set that the other does not know.
PRODUCERS: dict[str, dict[str, Any]] = {"batches": {}, "librdkafka": {"producer.socket.keepalive.enable": "true"}}


def passed(source: str, sink: str) -> Topology:
    builder = StreamsBuilder()
    builder.stream(source).to(sink)
    return builder.build()


@pytest.mark.parametrize("producer", PRODUCERS)
def test_records_are_written_where_only_their_batch_is_too_large(
    kafka: Kafka, instances: Instances, letters: Letters, guarantee: str, producer: str
) -> None:
    source, sink = kafka.create_topic("values"), kafka.create_topic("copies", config={"max.message.bytes": "20000"})
    sizes = [500] * 300 + [50_000] + [500] * 300 + [19_000] + [500] * 9
    produce(kafka, source, [(b"%d" % number, b"x" * size, 1000) for number, size in enumerate(sizes)])

    config = letters.config(
        processing_guarantee=guarantee, production_exception_handler="dead_letter", kafka=PRODUCERS[producer]
    )
    instance = instances.start(passed(source, sink), config)

    eventually(lambda: len(kafka.read(sink)) >= 610 and kafka.read(letters.topic))
    found = [each.key() for each in kafka.read(sink)]
    expected = [b"%d" % number for number, size in enumerate(sizes) if size != 50_000]
    assert list(dict.fromkeys(found)) == expected
    if guarantee == "exactly_once" or producer == "batches":
        assert found == expected
    assert {each.key() for each in kafka.read(letters.topic)} == {b"300"}
    assert instance.state is ClientState.RUNNING


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_record_from_the_future_is_left_out_by_the_handler_or_named(
    kafka: Kafka, instances: Instances, letters: Letters, guarantee: str, producer: str
) -> None:
    hour, now = {"message.timestamp.after.max.ms": "3600000"}, int(time.time() * 1000)
    source, sink = kafka.create_topic("values", config=AHEAD), kafka.create_topic("copies", config=hour)
    produce(kafka, source, [(b"%d" % number, b"v", now + 7_200_000 * (number == 5)) for number in range(9)])
    settings: dict[str, Any] = {"processing_guarantee": guarantee, "kafka": PRODUCERS[producer]}

    error = ended_with(instances.start(passed(source, sink), instances.config(**settings)))
    assert isinstance(error, ProductionError)
    for part in (f"to topic {sink}: ", "message.timestamp.after.max.ms", "partition 0, key b'5'", str(now + 7_200_000)):
        assert part in str(error)

    config = letters.config(production_exception_handler="continue", **settings)
    instance = instances.start(passed(source, sink), config)
    eventually(lambda: len({each.key() for each in kafka.read(sink)}) == 8)
    found = list(dict.fromkeys(each.key() for each in kafka.read(sink)))
    assert found == [b"%d" % number for number in range(9) if number != 5]
    eventually(lambda: instance.state is ClientState.RUNNING)


# ---- letters as large as what they are about --------------------------------------------------------------------

#: Larger than may be written by our client, or to the topic; it can be read, as it came compressed.
COMPRESSIBLE = b"x" * 3_000_000
#: As large as the broker takes: a letter with its headers is larger.
BRIM = 1_048_300


@pytest.mark.parametrize("letter_topic", [{}, {"max.message.bytes": "20000"}], ids=["usual", "small"])
def test_a_record_too_large_for_a_dead_letter_becomes_one_without_what_is_too_large(
    kafka: Kafka, instances: Instances, guarantee: str, letter_topic: dict[str, str]
) -> None:
    source, sink = kafka.create_topic("longs"), kafka.create_topic("doubled")
    topic = kafka.create_topic("dead-letters", config=letter_topic)
    produce(kafka, source, [(b"packed", COMPRESSIBLE, 1000)], compression="zstd")
    produce(kafka, source, [(b"brim", b"x" * BRIM, 1001)])
    produce(kafka, source, [(b"headers", b"bad", 1002)], headers=[("own", b"h" * BRIM)])
    produce(kafka, source, [(b"good", packed(3), 1003)])
    config = instances.config(
        processing_guarantee=guarantee,
        dead_letter_queue_topic=topic,
        deserialization_exception_handler="dead_letter",
        kafka=PATIENT,
    )

    instance = instances.start(doubled(source, sink), config)

    eventually(lambda: len(kafka.read(topic)) == 3 and len(kafka.read(sink)) == 1)
    told = [(each.key(), each.value(), headers_of(each).get("__streams.errors.omitted")) for each in kafka.read(topic)]
    assert told == [
        (b"packed", None, b"value (3000000 bytes)"),
        (b"brim", None, b"value (1048300 bytes)"),
        (b"headers", b"bad", b"headers (1048313 bytes)"),
    ]
    assert values(kafka.read(sink)) == [packed(6)]
    assert instance.state is ClientState.RUNNING


def test_a_record_too_large_to_be_written_becomes_a_letter_without_it(
    kafka: Kafka, instances: Instances, letters: Letters, guarantee: str
) -> None:
    source, sink = kafka.create_topic("values"), kafka.create_topic("copies")
    produce(kafka, source, [(b"k", value, 1000) for value in (b"s", b"l" * 50, b"t")])

    config = letters.config(
        processing_guarantee=guarantee,
        production_exception_handler="dead_letter",
        kafka={"producer.message.max.bytes": "20000"},
    )
    instances.start(copied(source, sink), config)

    eventually(lambda: len(kafka.read(sink)) == 2)
    (letter,) = letters.read(1)
    assert letter.value() is None
    assert headers_of(letter)["__streams.errors.omitted"] == b"value (50000 bytes)"
