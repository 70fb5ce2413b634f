"""Both data paths do the same: what is sent, fetched, refused, reported and logged."""

from __future__ import annotations

import ctypes
import logging
import random
import re
from contextlib import closing
from types import ModuleType
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer, cimpl

from data_paths import (
    NOBODY,
    PARTITIONS,
    consuming,
    everything,
    fetched_until,
    leave_all_to_librdkafka,
    leave_fetching_to_librdkafka,
    producing,
)
from streamsapp import TopicPartition, native
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.librdkafka_handle import handle_of
from streamsapp.native import Why
from streamsapp.tasks.output import OutputRecord


def random_records(topic: str, count: int) -> list[OutputRecord]:
    rng = random.Random(5)

    def some(largest: int = 40) -> bytes | None:
        return rng.choice([None, b"", b"\0", rng.randbytes(rng.randrange(largest))])

    def headers() -> list[tuple[str, bytes | None]] | None:
        several = [(rng.choice(["a", "", "ü", "a"]), some()) for _ in range(rng.randrange(5))]
        return rng.choice([None, several])

    return [
        (topic, some(rng.choice([40, 20_000])), b"%d" % number if number % 2 else some(), number % PARTITIONS,
         None, None, rng.choice([0, 1, 1_700_000_000_000 + number]), headers())
        for number in range(count)
    ]  # fmt: skip


def test_random_records_are_the_same_whichever_path_sends_and_fetches_them(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    ways = (leave_all_to_librdkafka, leave_fetching_to_librdkafka, lambda patch: None)
    for topic, sender in (("by-librdkafka", ways[0]), ("by-batches", ways[2])):
        with monkeypatch.context() as patch:
            sender(patch)
            with producing(broker) as producer:
                assert producer.send(random_records(topic, 1200)) == []
                assert producer.flush(60)
        for reader in ways:
            with monkeypatch.context() as patch:
                reader(patch)
                records, ends = everything(broker, topic)
            seen.append([[it[1:] for it in records[each]] for each in sorted(records)])
            assert list(ends.values()) == [300] * PARTITIONS

    assert seen[1:] == seen[:1] * 5
    sent = random_records("by-batches", 1200)
    assert seen[0][1] == [
        (1, offset, (1, timestamp or 1), key, value, headers or None, len(value or b""))
        for offset, (_, value, key, _, _, _, timestamp, headers) in enumerate(sent[1::PARTITIONS])
    ]


def test_keys_land_where_java_clients_put_them(broker: str, data_path: str) -> None:
    from streamsapp.serdes.murmur2 import partition_for

    topic = f"keys-{data_path}"
    with producing(broker) as producer:
        producer.send([(topic, b"", b"%d" % key, -1, None, None, 1, None) for key in range(300)])
        assert producer.flush(60)

    records, _ = everything(broker, topic)

    assert {it[4]: each.partition for each, run in records.items() for it in run} == {
        b"%d" % key: partition_for(b"%d" % key, PARTITIONS) for key in range(300)
    }


def test_a_position_that_is_gone_is_told(broker: str, data_path: str) -> None:
    topic = f"short-{data_path}"
    with producing(broker) as producer:
        producer.send([(topic, b"v", b"k", 0, None, None, 1, None)])
        assert producer.flush(60)
    with consuming(broker) as consumer:
        consumer.assign({TopicPartition(topic, 0): 9})
        [*before, last] = fetched_until(consumer, lambda answer: answer.out_of_range)

    assert last.out_of_range == [TopicPartition(topic, 0)]
    assert [answer.records for answer in before] == [[]] * len(before)


def test_after_a_reposition_nothing_comes_of_what_was_fetched_before(broker: str, data_path: str) -> None:
    topic, at = f"again-{data_path}", TopicPartition(f"again-{data_path}", 0)
    with producing(broker) as producer:
        producer.send([(topic, b"%d" % number, None, 0, None, None, 1, None) for number in range(500)])
        assert producer.flush(60)
    with consuming(broker) as consumer:
        consumer.assign({at: 100})
        first = fetched_until(consumer, lambda answer: answer.records, limit=5)[-1].records
        consumer.reposition({at: 300})
        rest = fetched_until(consumer, lambda answer: answer.ends)

    assert first[0][1][0].offset() == 100
    assert [it.offset() for answer in rest for _, run in answer.records for it in run] == list(range(300, 500))


def test_a_partition_of_which_a_late_error_tells_is_read_on_where_it_stands(
    broker: str, data_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_fetching_to_librdkafka(monkeypatch)
    topic, at = f"late-{data_path}", TopicPartition(f"late-{data_path}", 0)
    late = KafkaError(KafkaError._AUTO_OFFSET_RESET)
    with producing(broker) as producer:
        producer.send([(topic, b"%d" % number, None, 0, None, None, 1, None) for number in range(20)])
        assert producer.flush(60)
    with consuming(broker) as consumer:
        consumer.assign({at: 9})
        consumer._client._note(late, at, 5, Fetched())
        first = fetched_until(consumer, lambda answer: answer.records, limit=3)
        consumer._client._note(late, at, 5, Fetched())
        answers = [*first, *fetched_until(consumer, lambda answer: answer.ends)]

    assert [it.offset() for answer in answers for _, run in answer.records for it in run] == list(range(9, 20))


def test_a_record_that_was_not_delivered_is_reported_once(data_path: str) -> None:
    failed: list[Any] = []
    with producing(NOBODY, failed, enable_idempotence=False, message_timeout_ms=20) as producer:
        records: list[OutputRecord] = [
            ("lost", b"value", b"key", -1, None, None, 1, [("h", None)]),
            ("lost", None, b"", 3, None, None, 0, None),
        ]
        assert producer.send(records) == []
        while len(failed) < 2:
            producer.flush(1)
        producer.poll()

    timed_out = (KafkaError._MSG_TIMED_OUT, KafkaError(KafkaError._MSG_TIMED_OUT).str())
    told = [(code, text, record.topic(), record.key(), record.value()) for code, text, record in failed]
    assert sorted(told, key=str) == [(*timed_out, "lost", b"", None), (*timed_out, "lost", b"key", b"value")]


def test_what_the_client_refuses_is_reported_and_what_its_queue_has_no_room_for_comes_back(data_path: str) -> None:
    failed: list[Any] = []
    with producing(NOBODY, failed, queue_buffering_max_messages=3000) as producer:
        fits: OutputRecord = ("full", b"v", b"k", 0, None, None, 1, [("h", b"")])
        large: OutputRecord = ("full", b"v" * 2_000_000, b"large", 0, None, None, 1, [("h", b"")])
        given = [fits] * 1500 + [large] + [fits] * 2000

        assert producer.send(given) == given[3001:]

    assert [(code, record.topic(), record.key()) for code, _, record in failed] == [
        (KafkaError.MSG_SIZE_TOO_LARGE, "full", b"large")
    ]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (("t", 1, None, -1, None, None, 1, None), TypeError),
        (("t", bytearray(b""), None, -1, None, None, 1, None), TypeError),
        (("t", b"", None, "0", None, None, 1, None), TypeError),
        (("t", b"", None, 1 << 40, None, None, 1, None), OverflowError),
        (("t", b"", None, -1, None, None, 1 << 70, None), OverflowError),
        (("t\0", b"", None, -1, None, None, 1, None), ValueError),
        ((b"t", b"", None, -1, None, None, 1, None), TypeError),
        (("t", b"", None, -1, None, None, 1, [("h",)]), TypeError),
        (("t", b"", None, -1, None, None, 1, 7), TypeError),
    ],
)
def test_what_is_no_record_raises_the_same(broker: str, data_path: str, wrong: Any, error: type[Exception]) -> None:
    with producing(broker) as producer, pytest.raises(error):
        producer.send([("t", b"", b"", -1, None, None, 1, [("h", b"")]), wrong])


def test_clients_log_the_same(
    data_path: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("consumer", "fetching.librdkafka"):  # without what thins it out
        monkeypatch.setattr(f"streamsapp.kafka.{module}.log", logging.getLogger(data_path))
    with caplog.at_level(logging.INFO), consuming(NOBODY) as consumer:
        consumer.assign({TopicPartition("t", 0): 0})
        fetched_until(consumer, lambda _: "brokers are down" in caplog.text and "FAIL" in caplog.text)

    refused = r".*Connect to ipv4#127\.0\.0\.1:1 failed: Connection refused.*"
    told = {(record.levelno, record.getMessage()) for record in caplog.records if record.name == data_path}
    assert (logging.WARNING, "consumer: 1/1 brokers are down") in told
    assert any(
        level == logging.ERROR and re.match(r"FAIL \[rdkafka#consumer-\d+\] " + refused, it) for level, it in told
    )
    assert any(level == logging.WARNING and re.match("consumer: " + refused, it) for level, it in told)


def test_headers_that_are_no_text_fail_who_asks_for_them_and_nobody_else(broker: str, data_path: str) -> None:
    topic = f"odd-{data_path}"
    producer, library = Producer({"bootstrap.servers": broker}), ctypes.CDLL(cimpl.__file__)
    place = 1, topic.encode(), 3, 0
    value, header = (4, b"odd", ctypes.c_size_t(3)), (9, b"\xff", b"x", ctypes.c_ssize_t(1))
    assert library.rd_kafka_producev(ctypes.c_void_p(handle_of(producer)), *place, *value, 7, 2, *header, 0) == 0
    producer.produce(topic, b"even", partition=0)
    assert producer.flush(60) == 0
    with consuming(broker) as consumer:
        consumer.assign({TopicPartition(topic, 0): 0})
        answers = fetched_until(consumer, lambda answer: answer.ends)
    odd, even = [it for answer in answers for _, run in answer.records for it in run]

    assert (odd.value(), even.value(), even.headers()) == (b"odd", b"even", None)
    with pytest.raises((UnicodeDecodeError, SystemError)):
        odd.headers()


@pytest.mark.parametrize(
    ("told", "error", "message"),
    [
        (
            (KafkaError.UNKNOWN_TOPIC_OR_PART, "unknown", False, "t", 0, 5),
            TopicError,
            "topic t no longer exists: unknown",
        ),
        ((KafkaError.TOPIC_AUTHORIZATION_FAILED, "no", False, "t", 1, 5), TopicError, "not authorised to read t-1: no"),
        ((KafkaError.GROUP_AUTHORIZATION_FAILED, "no", False, None, -1, -1), TopicError, "not authorised"),
        ((KafkaError._FENCED, "over", True, None, -1, -1), StreamsError, "rdkafka failed for good: over"),
    ],
)
def test_errors_that_nobody_can_go_on_from_are_raised(
    told: tuple[Any, ...], error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_fetching_to_librdkafka(monkeypatch)
    monkeypatch.setattr(native, "fetch", lambda *arguments: ([], [told], []))
    consumer = PartitionConsumer({"bootstrap.servers": NOBODY, "group.id": "g", "client.id": "rdkafka"})
    with closing(consumer), pytest.raises(error, match=message):
        consumer.poll(1, 0)


def test_a_closed_client_says_so(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_fetching_to_librdkafka(monkeypatch)
    with consuming(broker) as consumer:
        pass

    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(1, 0)


def test_calls_that_make_no_sense_are_refused(broker: str, compiled: ModuleType) -> None:
    producer = Producer({"bootstrap.servers": broker})
    handle = handle_of(producer)
    for arguments in (
        (handle, 0, 0.0),
        (handle, 10_000_000, 0.0),
        (handle, 1, -1.0),
        (handle, 1, float("nan")),
        (0, 1, 0.0),
    ):
        with pytest.raises(ValueError, match="fetch takes"):
            compiled.fetch(*arguments)
    with pytest.raises(ValueError, match="no consumer"):
        compiled.fetch(handle, 1, 0.0)
    with pytest.raises(ValueError, match="Outbox takes"):
        compiled.Outbox(-1, 5)
    outbox = compiled.Outbox(1000, 1000)
    with pytest.raises(ValueError, match="add takes"):
        outbox.add([], -1, 5)
    with pytest.raises(KeyError, match="no such partition"):
        outbox.take("t", 0)
    with pytest.raises(ValueError, match="stamped takes"):
        compiled.stamped(b"x" * 60, 1, 1, 1, 0)
    assert outbox.add([], 5, 5) == (5, Why.TAKEN)
