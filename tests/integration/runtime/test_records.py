"""Records of every odd kind, through the runtime and through the test driver: the same results in the same order."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Message, Producer

from instances import Instances, eventually
from kafka_cluster import Kafka
from streamsapp import Consumed, Materialized, Produced, Serdes, StreamsBuilder, Topology
from streamsapp.record import Headers
from streamsapp.testing import TopologyTestDriver

LARGE = b"x" * 1_000_000

#: Key, value, timestamp, headers: out of order, ties, nulls, empty, headers that repeat and are null, a megabyte.
RECORDS: list[tuple[bytes | None, bytes | None, int, Headers]] = [
    (b"a", b"1", 5_000, []),
    (b"b", b"2", 3_000, [("h", b"1"), ("h", b"2"), ("n", None)]),
    (b"a", b"3", 4_000, []),
    (None, b"no key", 6_000, []),
    (b"a", None, 6_000, [("why", b"tombstone")]),
    (b"", b"", 6_000, []),
    (b"b", b"tie", 6_000, []),
    (b"a", b"tie", 6_000, []),
    (b"large", LARGE, 7_000, []),
    (b"a", b"late", 1, []),
]


def odd(source: str, copies: str, counts: str) -> Topology:
    raw = Serdes.bytes()
    builder = StreamsBuilder()
    stream = builder.stream(source, Consumed(raw, raw))
    stream.to(copies, Produced(raw, raw))
    stream.group_by_key().count(Materialized("counts")).to_stream().to(counts, Produced(raw, Serdes.long()))
    return builder.build()


@pytest.mark.usefixtures("moving")
def test_odd_records_give_the_same_on_a_broker_as_in_the_test_driver(
    kafka: Kafka, instances: Instances, guarantee: str
) -> None:
    source, copies, counts = (kafka.create_topic(name, config=LARGE_ALLOWED) for name in ("in", "copies", "counts"))
    topology = odd(source, copies, counts)
    expected = in_driver(topology, source, copies, counts)
    write(kafka, source)

    instance = instances.start(topology, instances.config(processing_guarantee=guarantee))
    eventually(lambda: len(kafka.read(copies)) == len(RECORDS) and len(kafka.read(counts)) == len(expected[counts]))
    assert instance.close()

    assert {topic: [plain(message) for message in kafka.read(topic)] for topic in expected} == expected


LARGE_ALLOWED = {"max.message.bytes": str(2 << 20)}


def in_driver(topology: Topology, source: str, *topics: str) -> dict[str, list[Any]]:
    raw = Serdes.bytes()
    with TopologyTestDriver(topology) as driver:
        ends = {topic: driver.create_output_topic(topic, raw, raw) for topic in topics}
        start = driver.create_input_topic(source, raw, raw)
        for key, value, timestamp, headers in RECORDS:
            start.pipe_input(key, value, timestamp, headers)
        return {
            topic: [(each.key, each.value, each.timestamp, each.headers) for each in end.read_records()]
            for topic, end in ends.items()
        }


def write(kafka: Kafka, topic: str) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.max.bytes": 2 << 20})
    for key, value, timestamp, headers in RECORDS:
        producer.produce(topic, value, key, 0, timestamp=timestamp, headers=list(headers))
    assert producer.flush(30) == 0


def plain(message: Message) -> tuple[Any, Any, int, list[Any]]:
    return message.key(), message.value(), message.timestamp()[1], list(message.headers() or [])
