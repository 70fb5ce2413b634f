"""Both clients do the same: they send, fetch, refuse and report the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from confluent_kafka import KafkaError

from data_paths import NOBODY, PARTITIONS, consuming, everything, fetched_until, producing, send_all, take_client
from streamsapp import TopicPartition
from streamsapp.config.known_properties import CLIENTS, LIBRDKAFKA
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.librdkafka.consumer import LibrdkafkaConsumer
from streamsapp.native import Why
from streamsapp.outgoing import OutputRecord


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


def test_random_records_are_the_same_whichever_client_sends_and_fetches_them(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    for sender in CLIENTS:
        topic = f"by-{sender}"
        take_client(sender, monkeypatch)
        with producing(broker) as producer:
            send_all(producer, random_records(topic, 1200))
            assert producer.flush(60)
        for reader in CLIENTS:
            take_client(reader, monkeypatch)
            records, ends = everything(broker, topic)
            seen.append([[it[1:] for it in records[each]] for each in sorted(records)])
            assert list(ends.values()) == [300] * PARTITIONS

    assert seen[1:] == seen[:1] * 3
    sent = random_records("by-streamsapp", 1200)
    assert seen[0][1] == [
        (1, offset, (1, timestamp or 1), key, value, headers or None, len(value or b""))
        for offset, (_, value, key, _, _, _, timestamp, headers) in enumerate(sent[1::PARTITIONS])
    ]


def test_keys_land_where_java_clients_put_them(broker: str, moving: str) -> None:
    from streamsapp.serdes.murmur2 import partition_for

    topic = f"keys-{moving}"
    with producing(broker) as producer:
        send_all(producer, [(topic, b"", b"%d" % key, -1, None, None, 1, None) for key in range(300)])
        assert producer.flush(60)

    records, _ = everything(broker, topic)

    assert {it[4]: each.partition for each, run in records.items() for it in run} == {
        b"%d" % key: partition_for(b"%d" % key, PARTITIONS) for key in range(300)
    }


def test_a_position_that_is_gone_is_told(broker: str, moving: str) -> None:
    topic = f"short-{moving}"
    with producing(broker) as producer:
        send_all(producer, [(topic, b"v", b"k", 0, None, None, 1, None)])
        assert producer.flush(60)
    with consuming(broker) as consumer:
        consumer.assign({TopicPartition(topic, 0): 9})
        [*before, last] = fetched_until(consumer, lambda answer: answer.out_of_range)

    assert last.out_of_range == [TopicPartition(topic, 0)]
    assert [answer.records for answer in before] == [[]] * len(before)


def test_after_a_reposition_nothing_comes_of_what_was_fetched_before(broker: str, moving: str) -> None:
    topic, at = f"again-{moving}", TopicPartition(f"again-{moving}", 0)
    with producing(broker) as producer:
        send_all(producer, [(topic, b"%d" % number, None, 0, None, None, 1, None) for number in range(500)])
        assert producer.flush(60)
    with consuming(broker) as consumer:
        consumer.assign({at: 100})
        first = fetched_until(consumer, lambda answer: answer.records, limit=5)[-1].records
        consumer.reposition({at: 300})
        rest = fetched_until(consumer, lambda answer: answer.ends)

    assert first[0][1][0].offset() == 100
    assert [it.offset() for answer in rest for _, run in answer.records for it in run] == list(range(300, 500))


def test_a_partition_of_which_a_late_error_tells_is_read_on_where_it_stands(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_client(LIBRDKAFKA, monkeypatch)
    topic, at = "late", TopicPartition("late", 0)
    late = KafkaError(KafkaError._AUTO_OFFSET_RESET)
    with producing(broker) as producer:
        send_all(producer, [(topic, b"%d" % number, None, 0, None, None, 1, None) for number in range(20)])
        assert producer.flush(60)
    with consuming(broker) as consumer:
        consumer.assign({at: 9})
        assert isinstance(consumer._client, LibrdkafkaConsumer)
        consumer._client._fetching._note(late, at, 5, Fetched())
        first = fetched_until(consumer, lambda answer: answer.records, limit=3)
        consumer._client._fetching._note(late, at, 5, Fetched())
        answers = [*first, *fetched_until(consumer, lambda answer: answer.ends)]

    assert [it.offset() for answer in answers for _, run in answer.records for it in run] == list(range(9, 20))


def test_a_record_that_librdkafka_did_not_deliver_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    take_client(LIBRDKAFKA, monkeypatch)
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


def test_what_librdkafka_refuses_is_reported_and_what_its_queue_has_no_room_for_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_client(LIBRDKAFKA, monkeypatch)
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
def test_what_is_no_record_raises_the_same(broker: str, moving: str, wrong: Any, error: type[Exception]) -> None:
    with producing(broker) as producer, pytest.raises(error):
        send_all(producer, [("t", b"", b"", -1, None, None, 1, [("h", b"")]), wrong])


def test_calls_that_make_no_sense_are_refused(compiled: Any) -> None:
    with pytest.raises(ValueError, match="Outbox: batch_size is to be from 0 to 2147483647, not -1"):
        compiled.Outbox(batch_size=-1, most=5)
    outbox = compiled.Outbox(batch_size=1000, most=1000)
    with pytest.raises(ValueError, match="add: begin is to be from 0"):
        outbox.add(records=[], begin=-1, room=5)
    with pytest.raises(KeyError, match="no such partition"):
        outbox.take("t", 0)
    with pytest.raises(ValueError, match="batch is no batch of records"):
        compiled.stamped(batch=b"x" * 60, producer=1, epoch=1, sequence=1, attributes=0)
    assert outbox.add(records=[], begin=5, room=5) == (5, Why.TAKEN)
