"""A producer of batches writes every record once and in order, whatever brokers answer, or stops and says so."""

from __future__ import annotations

import random
from collections import defaultdict
from enum import Enum
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import KafkaError

from batch_producers import Make, flush, make, now, pass_time, record, send
from scripted_brokers import LOST_ANSWER, LOST_REQUEST, ScriptedBrokers
from streamsapp import TopicPartition
from streamsapp.brokers.messages.metadata import MetadataResponseTopic
from streamsapp.kafka.producing.partitions import Verdict, verdict
from streamsapp.kafka.producing.produce import Reasons
from streamsapp.kafka.producing.settings import batch_settings
from streamsapp.kafka.producing.topics import Topics

__all__ = ["make"]  # a fixture

PASSING = [
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.REQUEST_TIMED_OUT,
    LOST_REQUEST,
    LOST_ANSWER,
]


@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_written_once_and_in_order_while_brokers_fail(seed: int, make: Make) -> None:
    rng = random.Random(seed)
    brokers = ScriptedBrokers({"a": 3, "b": 1, "c": 5}, brokers=3)
    trouble = rng.choice([0.02, 0.3])

    def fate(topic: str, partition: int, records: list[Any]) -> int:
        if rng.random() < trouble / 3:
            brokers.partitions[topic, partition].leader = 1 + rng.randrange(3)
        return rng.choice(PASSING) if rng.random() < trouble else 0

    brokers.fate = fate
    brokers.answers["MetadataRequest"] = [rng.choice([0, 0, LOST_REQUEST]) for _ in range(9)]
    producer = make(brokers, batch_size=rng.choice([200, 100_000]))
    expected = defaultdict(list)
    for number in range(150):
        some = []
        for each in range(rng.randrange(12)):
            topic, partition = rng.choice(list(brokers.partitions))
            key = b"%d-%d" % (number, each)
            some.append(record(key, partition, topic))
            expected[topic, partition].append((key, b"v"))
        send(producer, some)
        if not rng.randrange(30):
            flush(producer)
            assert sum(len(it.log) for it in brokers.partitions.values()) == sum(map(len, expected.values()))
    brokers.fate = lambda *batch: 0
    flush(producer)

    assert {name: it.log for name, it in brokers.partitions.items()} == {
        name: expected[name] for name in brokers.partitions
    }
    assert brokers.broken == []
    assert producer.take_failures() == []
    told = {name: end for name in expected if (end := producer.end_of(TopicPartition(*name))) is not None}
    assert told == {name: len(brokers.partitions[name].log) for name in told}


def test_the_end_of_a_partition_is_told_unless_the_broker_does_not_know_it(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 2})
    producer, ends = make(brokers), list[int | None]()
    for count, fate in ((3, 0), (2, 0), (1, LOST_ANSWER), (1, 0)):
        fates = iter([fate])
        brokers.fate = lambda *batch, fates=fates: next(fates, 0)
        send(producer, [record(b"k", 0)] * count)
        flush(producer)
        ends.append(producer.end_of(TopicPartition("t", 0)))

    assert ends == [3, 5, None, 7]
    assert producer.end_of(TopicPartition("t", 1)) is None


@pytest.mark.parametrize(("linger_ms", "written"), [(10, 2), (50, 1)])
def test_the_last_of_few_records_do_not_wait_for_others_unless_the_user_has_them_wait_for_long(
    linger_ms: int, written: int, make: Make
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = make(brokers, linger_ms=linger_ms)
    send(producer, [record(b"1")])
    flush(producer)
    send(producer, [record(b"2")])
    producer.no_more()
    pass_time(producer, 0.004)

    assert len(brokers.partitions["t", 0].log) == written


@pytest.mark.parametrize("seed", range(6))
def test_only_the_records_that_a_broker_refuses_are_not_written_and_each_is_told(seed: int, make: Make) -> None:
    rng = random.Random(seed)
    brokers = ScriptedBrokers({"t": 2})
    bad = {b"%d" % number for number in rng.sample(range(400), rng.choice([1, 7, 60]))}

    def fate(topic: str, partition: int, records: list[Any]) -> int:
        if any(key in bad for key, _ in records):
            return KafkaError.INVALID_RECORD
        return rng.choice([0] * 18 + [LOST_ANSWER, LOST_REQUEST])

    brokers.fate = fate
    producer = make(brokers)
    for begin in range(0, 400, 40):
        send(producer, [record(b"%d" % number, number % 2) for number in range(begin, begin + 40)])
    flush(producer)

    told = [it for _, it in producer.take_failures()]
    assert {it.key() for it in told} == bad
    assert {(it.topic(), it.value(), int(it.key() or b"") % 2 - it.partition()) for it in told} == {("t", b"v", 0)}
    assert brokers.broken == []
    for partition in range(2):
        keys = [int(key or b"") for key, _ in brokers.partitions["t", partition].log]
        assert keys == [number for number in range(partition, 400, 2) if b"%d" % number not in bad]


@pytest.mark.parametrize("named", [[3, 7], [0], [9], [-1, 3, 7, 4000], []])
def test_records_that_a_broker_names_are_told_with_its_words_and_the_others_sent_at_once(
    named: list[int], make: Make
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    bad = [b"%d" % number for number in named or [5] if 0 <= number < 10]

    def fate(topic: str, partition: int, records: list[Any]) -> int:
        return KafkaError.INVALID_TIMESTAMP if any(key in bad for key, _ in records) else 0

    brokers.fate = fate
    brokers.explain = lambda records: Reasons("two hours ahead", dict.fromkeys(named, "too late"))
    producer = make(brokers, linger_ms=50)
    send(producer, [record(b"%d" % number) for number in range(10)])
    flush(producer)

    told = producer.take_failures()
    assert [it.key() for _, it in told] == bad
    words = "too late" if named else "two hours ahead"
    assert {error.str() for error, _ in told} == {f"Broker: Invalid timestamp: {words}"}
    assert [key for key, _ in brokers.partitions["t", 0].log] == [
        b"%d" % number for number in range(10) if b"%d" % number not in bad
    ]
    if named:
        assert brokers.asked.count("ProduceRequest") == 2
    assert brokers.broken == []


def test_records_for_a_topic_that_may_not_be_written_are_all_told_after_one_request(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1, "u": 1})
    brokers.fate = lambda topic, *batch: KafkaError.TOPIC_AUTHORIZATION_FAILED if topic == "t" else 0
    producer = make(brokers, linger_ms=0)
    send(producer, [record(b"0", topic="u")])
    flush(producer)
    send(producer, [record(b"%d" % number) for number in range(50)])
    send(producer, [record(b"1", topic="u")])
    flush(producer)

    assert [it.key() for _, it in producer.take_failures()] == [b"%d" % number for number in range(50)]
    assert brokers.asked.count("ProduceRequest") <= 3
    assert [key for key, _ in brokers.partitions["u", 0].log] == [b"0", b"1"]


def test_nothing_is_sent_once_others_may_have_taken_over(make: Make) -> None:
    brokers, holds = ScriptedBrokers({"t": 1}), [True]
    producer = make(brokers, linger_ms=0, may_write=lambda: holds[0])
    send(producer, [record(b"1")])
    flush(producer)
    holds[0] = False
    send(producer, [record(b"2")])
    while not producer._sender.failed:
        producer.flush(0.1)
    holds[0] = True

    assert [error.str() for error, *_ in producer.take_failures()] == ["other instances may have taken over meanwhile"]
    assert producer.send([record(b"3")], lambda *refused: None) == [record(b"3")]
    pass_time(producer, 3600.0)
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"1"]


@pytest.mark.parametrize("answer", [LOST_REQUEST, KafkaError.NOT_ENOUGH_REPLICAS])
def test_records_that_cannot_be_written_in_time_end_the_producer(answer: int, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.fate = lambda *batch: answer
    producer = make(brokers, delivery_timeout_ms=120_000, retry_backoff_ms=1000)
    began = now(producer)
    send(producer, [record(b"1")])
    pass_time(producer, 60.0)
    send(producer, [record(b"2")])
    while not producer._sender.failed:
        producer.flush(1.0)
    assert now(producer) - began == pytest.approx(120.0, abs=1.0)
    brokers.fate = lambda *batch: 0

    assert [error.code() for error, *_ in producer.take_failures()] == [KafkaError._MSG_TIMED_OUT]
    assert producer.send([record(b"3")], lambda *refused: None) == [record(b"3")]
    pass_time(producer, 3600.0)
    assert brokers.partitions["t", 0].log == []


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, KafkaError._STATE),
        (KafkaError.UNKNOWN_PRODUCER_ID, KafkaError._STATE),
        (KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_broker_that_does_not_agree_any_more_ends_the_producer(code: int, told: int, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = make(brokers)
    send(producer, [record(b"1")])
    flush(producer)
    brokers.fate = lambda *batch: code
    send(producer, [record(b"2")])
    while not producer._sender.failed:
        producer.flush(0.1)

    assert [error.code() for error, *_ in producer.take_failures()] == [told]
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"1"]


def test_a_thread_that_has_ended_is_told_and_nobody_waits_for_it(make: Make) -> None:
    producer = make(ScriptedBrokers({"t": 1}))
    send(producer, [record(b"1")])
    flush(producer)
    producer._connection.close(60)

    assert [error.code() for error, *_ in producer.take_failures()] == [KafkaError._STATE]
    assert producer.send([record(b"2")], lambda *refused: None) == [record(b"2")]


def test_what_the_queue_has_no_room_for_comes_back_in_order(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.fate = lambda *batch: LOST_REQUEST
    producer = make(brokers, queue_buffering_max_kbytes=1, linger_ms=100)
    records = [record(b"%d" % number, value=b"v" * 100) for number in range(100)]

    left = producer.send(records, lambda *refused: None)
    for _ in range(200):
        left = producer.send(left, lambda *refused: None)

    assert 70 < len(left) < 100
    brokers.fate = lambda *batch: 0
    send(producer, left)
    flush(producer)
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"%d" % number for number in range(100)]


def test_records_for_no_topic_or_partition_are_refused_and_the_others_sent(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1, "forbidden": 1})
    producer, refused = make(brokers), list[Any]()
    send(producer, [record(b"1"), record(b"2", 7), record(b"3", value=b"v" * 2_000_000), record(b"4")], refused)
    flush(producer)
    # Twice: a request that does not ask for this topic may be on its way.
    brokers.answers["MetadataRequest"] = [KafkaError.TOPIC_AUTHORIZATION_FAILED] * 2
    send(producer, [record(b"5", topic="secret")], refused)

    assert refused == [
        (KafkaError._UNKNOWN_PARTITION, b"2"),
        (KafkaError.MSG_SIZE_TOO_LARGE, b"3"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, b"5"),
    ]
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"1", b"4"]


def test_records_for_a_partition_that_was_not_there_are_sent_once_the_topic_has_it(
    make: Make,
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer, refused = make(brokers), list[Any]()
    send(producer, [record(b"1", 1)], refused)
    brokers.partitions = {**ScriptedBrokers({"t": 2}).partitions, **brokers.partitions}
    pass_time(producer, 10.0)
    send(producer, [record(b"2", 1)], refused)
    flush(producer)

    assert refused == [(KafkaError._UNKNOWN_PARTITION, b"1")]
    assert [key for key, _ in brokers.partitions["t", 1].log] == [b"2"]


def test_a_topic_that_is_told_without_partitions_harms_nobody() -> None:
    told = list[tuple[str, int]]()
    nobody: Any = None
    Topics(nobody, lambda *topic: told.append(topic), 300.0)._take(MetadataResponseTopic(name="t"), 0)

    assert told == [("t", 0)]


@pytest.mark.parametrize("headers", [[("a\0b", b"h")], {"a\0b": b"h"}])
def test_a_header_may_have_a_zero_in_its_name_and_a_topic_may_not(headers: Any, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = make(brokers)
    send(producer, [("t", b"v", b"1", 0, None, None, 1, headers)])
    with pytest.raises(ValueError, match="cannot contain a zero byte"):
        producer.send([record(b"2", topic="t\0")], lambda *refused: None)
    flush(producer)

    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"1"]


@pytest.mark.parametrize(("wanted", "done"), [(100, 0.1), (20_000, 20.0), (60_000, 30.0)])
def test_a_broker_that_wants_to_be_left_alone_is_asked_later(wanted: int, done: float, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.throttle_ms = wanted
    producer = make(brokers, linger_ms=0)
    for number in range(4):
        began = now(producer)
        send(producer, [record(b"%d" % number)])
        flush(producer)
        assert now(producer) - began == pytest.approx(done if number else 0.0, abs=0.05)
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"0", b"1", b"2", b"3"]


def test_records_that_come_alone_are_sent_at_once_and_those_that_follow_wait_for_others(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer, times = make(brokers, linger_ms=20_000), list[float]()

    def fate(*batch: Any) -> int:
        times.append(now(producer))
        return 0

    brokers.fate = fate
    send(producer, [record(b"0")])
    pass_time(producer, 1.0)
    assert len(times) == 1
    for number in range(1, 6):
        send(producer, [record(b"%d" % number)])
        pass_time(producer, 2.0)
    assert len(times) == 1
    pass_time(producer, 10.0)
    assert times[1] - times[0] == pytest.approx(20.0, abs=0.01)

    send(producer, [record(b"6")])
    flush(producer)  # the caller waits for this one
    assert times[2] - times[1] < 19.0
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"%d" % number for number in range(7)]


@pytest.mark.parametrize("code", [KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_LEADER_FOR_PARTITION, LOST_REQUEST])
def test_a_batch_is_sent_again_after_a_pause_each_time(code: int, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer, times = make(brokers, retry_backoff_ms=5_000), list[float]()

    def fate(*batch: Any) -> int:
        times.append(now(producer))
        return code if len(times) <= 20 else 0

    brokers.fate = fate
    send(producer, [record(b"1")])
    flush(producer)

    assert len(times) == 21
    for before, after in pairwise(times):
        assert 5.0 <= after - before <= 5.6  # the producer looks after waiting batches twice a second
    assert brokers.broken == []


def test_records_follow_a_leader_that_moves(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1}, brokers=2)
    producer = make(brokers, retry_backoff_ms=100)
    for number in range(6):
        brokers.partitions["t", 0].leader = 1 + number % 2
        began = now(producer)
        send(producer, [record(b"%d" % number)])
        flush(producer)
        assert now(producer) - began <= 0.3
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"%d" % number for number in range(6)]


class Names(str, Enum):  # noqa: UP042 - prints as something else than its text, as a StrEnum does not
    TOPIC = "t"


class Whole:
    """A whole number that is no ``int``, as numpy has them."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __index__(self) -> int:
        return self._number


def test_names_and_numbers_are_taken_for_what_they_are_whatever_their_type(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = make(brokers)
    numbers: Any = Whole(0), Whole(5)
    send(producer, [(Names.TOPIC, b"v", b"1", numbers[0], None, None, numbers[1], [(Names.TOPIC, b"")])])
    with pytest.raises(TypeError, match="a record's timestamp is a whole number, and float is not"):
        producer.send([("t", b"v", b"2", 0, None, None, 1.5, None)], lambda *refused: None)  # type: ignore[list-item]
    flush(producer)

    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"1"]


@pytest.mark.parametrize("later", [0.5, 20.0, 29.0])
def test_a_topic_that_is_made_later_gets_its_records(later: float, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = make(brokers)
    began = now(producer)
    while now(producer) - began < later:
        assert producer.send([record(b"1", topic="later")], lambda *refused: None) != []
    brokers.partitions |= ScriptedBrokers({"later": 1}).partitions
    send(producer, [record(b"1", topic="later")])
    flush(producer)

    assert [key for key, _ in brokers.partitions["later", 0].log] == [b"1"]
    assert now(producer) - began <= later + 0.5


def test_records_for_a_topic_that_is_missing_for_half_a_minute_are_refused(make: Make) -> None:
    producer, refused = make(ScriptedBrokers({"t": 1})), list[Any]()
    began = now(producer)
    send(producer, [record(b"1", topic="never")], refused)

    assert refused == [(KafkaError.UNKNOWN_TOPIC_OR_PART, b"1")]
    assert now(producer) - began == pytest.approx(30.0, abs=1.0)


# ---- settings ------------------------------------------------------------------------------------------------------


def test_settings_are_read_by_all_their_names() -> None:
    settings = batch_settings({"message.timeout.ms": 0, "queue.buffering.max.ms": 7, "queue.buffering.max.kbytes": 2})

    assert (settings.delivery_timeout, settings.linger, settings.queue) == (float("inf"), 0.007, 2048)
    assert batch_settings({"transactional.id": "t", "transaction.timeout.ms": 9_000}).delivery_timeout == 9


def test_what_an_error_says_of_a_batch() -> None:
    assert verdict(KafkaError.DUPLICATE_SEQUENCE_NUMBER) is Verdict.WRITTEN
    assert verdict(KafkaError.NOT_LEADER_FOR_PARTITION) is Verdict.AGAIN
    assert verdict(KafkaError.TOPIC_AUTHORIZATION_FAILED) is Verdict.REFUSED
    assert verdict(KafkaError.INVALID_RECORD) is Verdict.SEARCHED
    assert verdict(12345) is Verdict.LOST
