"""A real broker's answers are changed on their way, where no checksum shows it: every record still comes once."""

from __future__ import annotations

import struct
import time
from itertools import count

import pytest

from kafka_cluster import Kafka
from streamsapp import TopicPartition
from streamsapp.config.client_properties import ClientProperties
from streamsapp.errors import StreamsError
from streamsapp.kafka.consumer import PartitionConsumer
from tampering_proxy import TamperingProxy

FETCH, OFFSET_FETCH = 1, 9
RECORDS = 20
PROPERTIES: ClientProperties = {"auto.offset.reset": "error", "enable.auto.commit": False, "group.id": "wrong-answers"}
#: A property that a fetcher does not know leaves fetching to librdkafka.
PATHS: dict[str, ClientProperties] = {"whole batches": {}, "librdkafka": {"socket.nagle.disable": True}}


def moved(answer: bytes, base: int, by: int) -> bytes:
    """The batch at an offset is said to be at another one."""
    at = -1
    while (at := answer.find(struct.pack(">q", base), at + 1)) >= 0:
        if len(answer) > at + 61 and answer[at + 16] == 2 and struct.unpack_from(">i", answer, at + 8)[0] > 49:
            return answer[:at] + struct.pack(">q", base + by) + answer[at + 8 :]
    return answer


def nothing_comes(consumer: PartitionConsumer, until: float) -> None:
    while time.monotonic() < until:
        assert not consumer.poll(100, 0.1).records


@pytest.mark.parametrize("times", [1, 2, 1000])
@pytest.mark.parametrize("more", PATHS.values(), ids=PATHS)
def test_a_batch_beyond_the_end_of_the_log_is_fetched_again(kafka: Kafka, more: ClientProperties, times: int) -> None:
    topic = kafka.create_topic()
    partition = TopicPartition(topic, 0)
    for half in range(2):
        kafka.produce(topic, [(b"k", b"%d" % (half * 10 + each)) for each in range(RECORDS // 2)])
    left, values = count(times, -1), list[int]()
    with TamperingProxy(kafka.bootstrap_servers) as proxy:

        def tamper(key: int, version: int, answer: bytes) -> bytes:
            changed = moved(answer, 0, 10_000) if key == FETCH else answer
            return changed if changed != answer and next(left) > 0 else answer

        proxy.tamper = tamper
        properties: ClientProperties = {**PROPERTIES, **more, "bootstrap.servers": proxy.bootstrap_servers}
        consumer = PartitionConsumer(properties)
        try:
            consumer.assign({partition: 0})
            give_up = time.monotonic() + 90
            if times == 1000:
                with pytest.raises(StreamsError, match=f"{partition} cannot be read.*log ends"):
                    nothing_comes(consumer, give_up)
                return
            while len(values) < RECORDS:
                assert time.monotonic() < give_up
                for _, records in consumer.poll(100, 0.1).records:
                    for record in records:
                        assert record.offset() == int(record.value() or b"")
                        values.append(record.offset())
        finally:
            consumer.close()
    assert values == list(range(RECORDS))


def test_a_partition_that_an_answer_about_committed_offsets_leaves_out_is_asked_for_again(kafka: Kafka) -> None:
    topic = kafka.create_topic(partitions=2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    left = count(2, -1)
    with TamperingProxy(kafka.bootstrap_servers) as proxy:

        def tamper(key: int, version: int, answer: bytes) -> bytes:
            has_it = key == OFFSET_FETCH and topic.encode() in answer
            return answer.replace(topic.encode(), b"x" * len(topic)) if has_it and next(left) > 0 else answer

        properties: ClientProperties = {**PROPERTIES, "bootstrap.servers": proxy.bootstrap_servers}
        consumer = PartitionConsumer(properties | {"group.id": kafka.unique("group")})
        try:
            consumer.commit({first: (5, "five")})
            proxy.tamper = tamper
            assert consumer.committed([first, second]) == {first: (5, "five")}
        finally:
            consumer.close()
    assert next(left) < 0
