"""A producer of batches writes every record once and in order, whatever brokers answer, or stops and says so."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

import data_paths
from scripted_brokers import LOST_ANSWER, LOST_REQUEST, NOT_SENT, PROPERTIES, ScriptedBrokers, connected
from streamsapp import TopicPartition
from streamsapp.kafka.batches.client import BatchProducer
from streamsapp.kafka.batches.partitions import Verdict, verdict
from streamsapp.kafka.batches.settings import batch_settings, left_to_librdkafka
from streamsapp.kafka.group_member import Member
from streamsapp.tasks.output import OutputRecord

Make = Callable[..., BatchProducer]
Offsets = dict[TopicPartition, tuple[int, str]]
Commit = Callable[[BatchProducer, Offsets], None]

PASSING = [
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.NOT_ENOUGH_REPLICAS,
    KafkaError.REQUEST_TIMED_OUT,
    LOST_REQUEST,
    LOST_ANSWER,
]
MEMBER = Member("group", 3, "member", None)
OFFSETS = {TopicPartition("in", 0): (7, "")}


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes producers for brokers; they are closed after the test."""
    with ExitStack() as stack:

        def made(brokers: ScriptedBrokers, **more: Any) -> BatchProducer:
            connected(brokers, monkeypatch)
            properties = PROPERTIES | {name.replace("_", "."): value for name, value in more.items()}
            producer = BatchProducer(data_paths.compiled(), properties)
            stack.callback(producer.purge)
            return producer

        yield made


def record(key: bytes, partition: int = 0, topic: str = "t", value: bytes = b"v") -> OutputRecord:
    return (topic, value, key, partition, None, None, 1, None)


def send(producer: BatchProducer, records: list[OutputRecord], refused: list[Any] | None = None) -> None:
    def note(error: KafkaError, record: OutputRecord) -> None:
        assert refused is not None, error
        refused.append((error.code(), record[2]))

    left = records
    while left:
        assert not producer._sender.failed, producer.take_failures()
        left = producer.send(left, note)


def flush(producer: BatchProducer) -> None:
    while producer.flush(1):
        assert not producer._sender.failed, producer.take_failures()


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

    assert {key for error, topic, key, value in producer.take_failures() if (topic, value) == ("t", b"v")} == bad
    assert brokers.broken == []
    for partition in range(2):
        keys = [int(key or b"") for key, _ in brokers.partitions["t", partition].log]
        assert keys == [number for number in range(partition, 400, 2) if b"%d" % number not in bad]


def test_records_for_a_topic_that_may_not_be_written_are_all_told_after_one_request(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1, "u": 1})
    brokers.fate = lambda topic, *batch: KafkaError.TOPIC_AUTHORIZATION_FAILED if topic == "t" else 0
    producer = make(brokers, linger_ms=0)
    producer.send([record(b"0", topic="u")], lambda *refused: None)
    flush(producer)
    send(producer, [record(b"%d" % number) for number in range(50)])
    send(producer, [record(b"1", topic="u")])
    flush(producer)

    assert [key for error, _, key, _ in producer.take_failures()] == [b"%d" % number for number in range(50)]
    assert brokers.asked.count("ProduceRequest") <= 3
    assert [key for key, _ in brokers.partitions["u", 0].log] == [b"0", b"1"]


@pytest.mark.parametrize("answer", [LOST_REQUEST, KafkaError.NOT_ENOUGH_REPLICAS])
def test_records_that_cannot_be_written_in_time_end_the_producer(answer: int, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.fate = lambda *batch: answer
    producer = make(brokers, delivery_timeout_ms=100)
    send(producer, [record(b"1")])
    while not producer._sender.failed:
        producer.flush(0.1)
    brokers.fate = lambda *batch: 0

    assert [error.code() for error, *_ in producer.take_failures()] == [KafkaError._MSG_TIMED_OUT]
    assert producer.send([record(b"2")], lambda *refused: None) == [record(b"2")]
    time.sleep(0.05)
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
    producer._connection.close(5)

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
    brokers.answers["MetadataRequest"] = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    send(producer, [record(b"5", topic="secret")], refused)

    assert refused == [
        (KafkaError._UNKNOWN_PARTITION, b"2"),
        (KafkaError.MSG_SIZE_TOO_LARGE, b"3"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, b"5"),
    ]
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"1", b"4"]


def test_a_topic_that_is_made_later_gets_its_records(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = make(brokers)
    assert producer.send([record(b"1", topic="later")], lambda *refused: None) != []
    brokers.partitions |= ScriptedBrokers({"later": 1}).partitions
    send(producer, [record(b"1", topic="later")])
    flush(producer)

    assert [key for key, _ in brokers.partitions["later", 0].log] == [b"1"]


# ---- transactions --------------------------------------------------------------------------------------------------


def transactional(brokers: ScriptedBrokers, make: Make) -> BatchProducer:
    producer = make(brokers, transactional_id="id")
    producer.init_transactions(5)
    producer.begin_transaction()
    return producer


def offsets_after(producer: BatchProducer, offsets: Offsets) -> None:
    flush(producer)
    producer.send_offsets(offsets, MEMBER, 5)
    producer.commit_transaction(5)


def offsets_beside(producer: BatchProducer, offsets: Offsets) -> None:
    """Begins with the offsets while records are on their way."""
    producer.begin_offsets(offsets, MEMBER)
    producer.flush(20)
    producer.commit_transaction(5)


ways = pytest.mark.parametrize("commit", [offsets_after, offsets_beside])


@ways
def test_transactions_one_after_the_other_have_their_partitions_and_offsets(commit: Commit, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 2})
    producer = transactional(brokers, make)
    for number in range(3):
        if number:
            producer.begin_transaction()
        send(producer, [record(b"%d" % number, partition) for partition in (0, 1)])
        commit(producer, {TopicPartition("in", 0): (number, "m")})

    assert brokers.ended == [True] * 3
    assert brokers.offsets == {("in", 0): 2}
    assert brokers.broken == []
    assert [key for key, _ in brokers.partitions["t", 1].log] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("request_name", "code"),
    [
        ("AddPartitionsToTxnRequest", KafkaError.CONCURRENT_TRANSACTIONS),
        ("AddOffsetsToTxnRequest", KafkaError.NOT_COORDINATOR),
        ("TxnOffsetCommitRequest", KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        ("EndTxnRequest", KafkaError.CONCURRENT_TRANSACTIONS),
        ("AddPartitionsToTxnRequest", NOT_SENT),
        ("TxnOffsetCommitRequest", NOT_SENT),
        ("EndTxnRequest", NOT_SENT),
        ("FindCoordinatorRequest", LOST_ANSWER),
        ("FindCoordinatorRequest", KafkaError.COORDINATOR_NOT_AVAILABLE),
        ("InitProducerIdRequest", LOST_ANSWER),
        ("InitProducerIdRequest", KafkaError.CONCURRENT_TRANSACTIONS),
    ],
)
@ways
def test_a_coordinator_that_is_not_ready_is_asked_again(
    request_name: str, code: int, commit: Commit, make: Make
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers[request_name] = [code, code]
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    commit(producer, OFFSETS)

    assert (brokers.ended, brokers.offsets, brokers.broken) == ([True], {("in", 0): 7}, [])


@pytest.mark.parametrize("lost", [LOST_REQUEST, LOST_ANSWER])
@pytest.mark.parametrize("request_name", ["AddOffsetsToTxnRequest", "TxnOffsetCommitRequest", "EndTxnRequest"])
@ways
def test_a_transaction_whose_coordinator_does_not_answer_is_not_asked_for_again(
    request_name: str, lost: int, commit: Commit, make: Make
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers[request_name] = [lost]
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])

    with pytest.raises(KafkaException) as failure:
        commit(producer, OFFSETS)

    assert failure.value.args[0].txn_requires_abort()
    assert not failure.value.args[0].retriable()
    assert brokers.asked.count(request_name) == 1


@pytest.mark.parametrize(
    ("request_name", "code", "abort"),
    [
        ("TxnOffsetCommitRequest", KafkaError.ILLEGAL_GENERATION, True),
        ("TxnOffsetCommitRequest", KafkaError.GROUP_AUTHORIZATION_FAILED, False),
        ("EndTxnRequest", KafkaError.PRODUCER_FENCED, True),
        ("EndTxnRequest", KafkaError.INVALID_TXN_STATE, True),
        ("InitProducerIdRequest", KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, False),
    ],
)
@ways
def test_a_transaction_that_cannot_go_on_says_why(
    request_name: str, code: int, abort: bool, commit: Commit, make: Make
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers[request_name] = [code]

    with pytest.raises(KafkaException) as failure:
        commit(transactional(brokers, make), OFFSETS)

    error = failure.value.args[0]
    assert (error.code(), error.txn_requires_abort(), error.fatal()) == (code, abort, not abort)


def test_offsets_that_are_on_their_way_when_a_transaction_is_aborted_are_part_of_no_other(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers["TxnOffsetCommitRequest"] = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 3
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)
    producer.begin_offsets(OFFSETS, MEMBER)
    producer.abort_transaction(5)
    producer.begin_transaction()
    send(producer, [record(b"2")])
    flush(producer)
    producer.commit_transaction(5)

    assert (brokers.ended, brokers.offsets, brokers.broken) == ([False, True], {}, [])


def test_partitions_are_admitted_and_sent_before_the_offsets_that_come_beside_them(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = transactional(brokers, make)
    for number in range(5):
        if number:
            producer.begin_transaction()
        brokers.asked.clear()
        send(producer, [record(b"%d" % number)])
        offsets_beside(producer, OFFSETS)
        told = [name for name in brokers.asked if name not in ("MetadataRequest", "FindCoordinatorRequest")]
        assert told[:2] == ["AddPartitionsToTxnRequest", "AddOffsetsToTxnRequest"]
        assert sorted(told[2:4]) == ["ProduceRequest", "TxnOffsetCommitRequest"]
        assert told[4:] == ["EndTxnRequest"]


def test_after_an_abort_that_is_not_answered_nothing_is_sent_under_this_identity(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers["EndTxnRequest"] = [LOST_ANSWER]
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)

    with pytest.raises(KafkaException):
        producer.abort_transaction(5)
    with pytest.raises(KafkaException, match="lost"):
        producer.begin_transaction()
    assert producer.send([record(b"2")], lambda *refused: None) == [record(b"2")]


def test_a_start_that_was_given_up_does_not_go_on(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsapp.kafka.batches.client.GIVE_UP_AFTER", 0.0)
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers["InitProducerIdRequest"] = [LOST_REQUEST] * 4
    producer = make(brokers, transactional_id="id")

    with pytest.raises(KafkaException):
        producer.init_transactions(0.25)
    asked = brokers.asked.count("InitProducerIdRequest")
    time.sleep(0.5)

    assert brokers.asked.count("InitProducerIdRequest") <= asked + 1
    assert brokers.epoch == -1


def test_a_transaction_with_records_that_are_not_acknowledged_is_not_committed(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.fate = lambda *batch: LOST_REQUEST
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])

    with pytest.raises(KafkaException, match="not written yet"):
        producer.commit_transaction(5)

    assert "EndTxnRequest" not in brokers.asked


def test_a_transaction_is_aborted_and_what_it_had_is_not_sent_later(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)
    brokers.fate = lambda *batch: LOST_REQUEST
    send(producer, [record(b"2")])
    producer.abort_transaction(5)
    brokers.fate = lambda *batch: 0
    time.sleep(0.05)

    assert brokers.ended == [False]
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"1"]
    with pytest.raises(KafkaException, match="lost"):
        producer.begin_transaction()


# ---- settings ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "known"),
    [
        ("compression.type", "lz4", True),
        ("compression.type", "brotli", False),
        ("linger.ms", "5", True),
        ("linger.ms", "soon", False),
        ("linger.ms", -1, False),
        ("sasl.mechanism", "SCRAM-SHA-512", True),
        ("sasl.mechanism", "OAUTHBEARER", False),
        ("acks", "1", False),
        ("queue.buffering.max.messages", 0, True),
        ("queue.buffering.max.messages", 5, False),
        ("debug", "broker", False),
    ],
)
def test_a_property_that_only_librdkafka_knows_is_left_to_it(key: str, value: Any, known: bool) -> None:
    assert left_to_librdkafka(PROPERTIES | {key: value}) == (None if known else key)


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
