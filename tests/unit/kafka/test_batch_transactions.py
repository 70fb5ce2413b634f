"""Transactions of a producer of batches. They admit partitions and groups first, or with the writes to them (KIP-890).
The tests show the end of each way in which they fail."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from batch_producers import Make, flush, make, now, pass_time, record, send
from scripted_brokers import LOST_ANSWER, LOST_REQUEST, NOT_SENT, ScriptedBrokers
from streamsapp import TopicPartition
from streamsapp.kafka.group_member import Member
from streamsapp.kafka.producing.client import BatchProducer

__all__ = ["make"]  # a fixture

Offsets = dict[TopicPartition, tuple[int, str]]
Commit = Callable[[BatchProducer, Offsets], None]

#: Nothing here takes long unless it hangs.
SOON = 60.0
MEMBER = Member("group", 3, "member", None)
OFFSETS = {TopicPartition("in", 0): (7, "")}
#: Requests that are not made where partitions and groups are admitted implicitly.
ADMITTING = ("AddPartitionsToTxnRequest", "AddOffsetsToTxnRequest")


@pytest.fixture(autouse=True, params=[False, True], ids=["admitted first", "admitted implicitly"])
def implicit(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Brokers of each kind."""
    monkeypatch.setattr(ScriptedBrokers, "implicit", request.param)
    return bool(request.param)


def transactional(brokers: ScriptedBrokers, make: Make) -> BatchProducer:
    producer = make(brokers, transactional_id="id")
    producer.init_transactions(SOON)
    producer.begin_transaction()
    return producer


def one_after_the_other(producer: BatchProducer, count: int) -> Iterator[int]:
    """So many transactions, each begun; the first one was before."""
    for number in range(count):
        if number:
            producer.begin_transaction()
        yield number


def offsets_after(producer: BatchProducer, offsets: Offsets) -> None:
    flush(producer)
    producer.send_offsets(offsets, MEMBER, SOON)
    producer.commit_transaction(SOON)


def offsets_beside(producer: BatchProducer, offsets: Offsets) -> None:
    """Begins with the offsets while records are on their way."""
    producer.begin_commit(offsets, MEMBER)
    producer.flush(SOON)
    producer.commit_transaction(SOON)


ways = pytest.mark.parametrize("commit", [offsets_after, offsets_beside])


@ways
def test_transactions_one_after_the_other_have_their_partitions_and_offsets(commit: Commit, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 2})
    producer = transactional(brokers, make)
    for number in one_after_the_other(producer, 3):
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
        ("AddPartitionsToTxnRequest", KafkaError.NOT_COORDINATOR),
        ("AddOffsetsToTxnRequest", KafkaError.NOT_COORDINATOR),
        ("TxnOffsetCommitRequest", KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        ("TxnOffsetCommitRequest", KafkaError.COORDINATOR_NOT_AVAILABLE),
        ("TxnOffsetCommitRequest", KafkaError.NOT_COORDINATOR),
        ("EndTxnRequest", KafkaError.CONCURRENT_TRANSACTIONS),
        ("EndTxnRequest", KafkaError.NOT_COORDINATOR),
        ("AddPartitionsToTxnRequest", NOT_SENT),
        ("TxnOffsetCommitRequest", NOT_SENT),
        ("EndTxnRequest", NOT_SENT),
        ("FindCoordinatorRequest", LOST_ANSWER),
        ("FindCoordinatorRequest", KafkaError.COORDINATOR_NOT_AVAILABLE),
        ("InitProducerIdRequest", LOST_ANSWER),
        ("InitProducerIdRequest", KafkaError.CONCURRENT_TRANSACTIONS),
        ("InitProducerIdRequest", KafkaError.NOT_COORDINATOR),
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
    request_name: str, lost: int, commit: Commit, make: Make, implicit: bool
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers[request_name] = [lost]
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    if implicit and request_name in ADMITTING:
        commit(producer, OFFSETS)
        assert request_name not in brokers.asked
        return

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


@pytest.mark.parametrize(
    ("request_name", "code", "remedy"),
    [
        ("TxnOffsetCommitRequest", KafkaError.GROUP_AUTHORIZATION_FAILED, "grant READ on the group group$"),
        ("TxnOffsetCommitRequest", KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "on the transactional id id$"),
        ("InitProducerIdRequest", KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "on the transactional id id$"),
    ],
)
def test_a_permission_that_is_missing_is_told_with_what_it_is_for(
    request_name: str, code: int, remedy: str, make: Make
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers[request_name] = [code]
    with pytest.raises(KafkaException) as failure:
        offsets_after(transactional(brokers, make), OFFSETS)

    assert re.search(remedy, failure.value.args[0].str())


@pytest.mark.parametrize("implicit", [False], indirect=True)
def test_topics_that_may_not_be_written_are_told_with_their_names(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1, "u": 2})
    brokers.answers["AddPartitionsToTxnRequest"] = [KafkaError.TOPIC_AUTHORIZATION_FAILED]
    producer = transactional(brokers, make)
    send(producer, [record(b"1", topic="u"), record(b"2", 1, topic="u")])
    producer.flush(5)

    [(error, *_)] = producer.take_failures()
    assert error.str().endswith("grant WRITE on each of u")


def test_offsets_that_are_on_their_way_when_a_transaction_is_aborted_are_part_of_no_other(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers["TxnOffsetCommitRequest"] = [KafkaError.COORDINATOR_LOAD_IN_PROGRESS] * 3
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)
    producer.begin_commit(OFFSETS, MEMBER)
    producer.abort_transaction(SOON)
    producer.begin_transaction()
    send(producer, [record(b"2")])
    flush(producer)
    producer.commit_transaction(SOON)

    assert (brokers.ended, brokers.offsets, brokers.broken) == ([False, True], {}, [])


def test_a_commit_that_has_begun_ends_by_itself(make: Make) -> None:
    """No thread has to be woken in order to ask for the end."""
    brokers = ScriptedBrokers({"t": 2})
    producer = transactional(brokers, make)
    for number in one_after_the_other(producer, 3):
        send(producer, [record(b"%d" % number, partition) for partition in (0, 1)])
        producer.begin_commit({TopicPartition("in", 0): (number, "")}, MEMBER)
        pass_time(producer, 1.0)
        assert brokers.ended == [True] * (number + 1)
        assert brokers.offsets == {("in", 0): number}
        brokers.asked.clear()

        assert producer.flush(SOON) == 0
        producer.commit_transaction(SOON)

        assert brokers.asked == []


def test_a_commit_that_has_begun_waits_for_what_takes_the_place_of_a_record_that_cannot_be_written(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1, "dead": 1})
    brokers.fate = lambda topic, partition, records: (
        KafkaError.INVALID_RECORD if (b"bad", b"v") in records and topic == "t" else 0
    )
    producer = transactional(brokers, make)
    for number in one_after_the_other(producer, 2):
        send(producer, [record(b"good"), record(b"bad")])
        producer.begin_commit(OFFSETS, MEMBER)
        pass_time(producer, 5.0)
        assert brokers.ended == [True] * number

        assert producer.flush(SOON) == 0
        [(_, refused)] = producer.take_failures()
        assert refused.key() == b"bad"
        send(producer, [record(b"bad", topic="dead")])
        flush(producer)
        producer.commit_transaction(SOON)

        assert brokers.ended == [True] * (number + 1)
        assert [key for key, _ in brokers.partitions["dead", 0].log] == [b"bad"] * (number + 1)
    assert brokers.broken == []


def test_a_commit_whose_end_has_no_answer_is_lost_and_not_asked_for_again(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers["EndTxnRequest"] = [LOST_ANSWER]
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    producer.begin_commit(OFFSETS, MEMBER)
    pass_time(producer, 60.0)

    with pytest.raises(KafkaException):
        producer.abort_transaction(SOON)

    assert brokers.asked.count("EndTxnRequest") == 1


def test_partitions_are_admitted_and_sent_before_the_offsets_that_come_beside_them(make: Make, implicit: bool) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = transactional(brokers, make)
    for number in one_after_the_other(producer, 5):
        brokers.asked.clear()
        send(producer, [record(b"%d" % number)])
        offsets_beside(producer, OFFSETS)
        told = [name for name in brokers.asked if name not in ("MetadataRequest", "FindCoordinatorRequest")]
        if not implicit:
            assert (told.pop(0), told.pop(0)) == ADMITTING
            told[:2] = sorted(told[:2])
        assert told == ["ProduceRequest", "TxnOffsetCommitRequest", "EndTxnRequest"]


@pytest.mark.parametrize("implicit", [True], indirect=True)
def test_offsets_are_sent_when_a_broker_has_answered_to_records(make: Make) -> None:
    """Beside records they wait, for the broker asks the coordinator about both: no longer than that takes."""
    brokers = ScriptedBrokers({"t": 1})
    producer = transactional(brokers, make)
    for number in one_after_the_other(producer, 3):
        send(producer, [record(b"%d" % number)])
        began = now(producer)
        offsets_beside(producer, OFFSETS)
        assert now(producer) - began < 0.002

    assert brokers.ended == [True] * 3


def test_each_transaction_has_an_epoch_of_its_own_where_they_are_admitted_implicitly(
    make: Make, implicit: bool
) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = transactional(brokers, make)
    for number in one_after_the_other(producer, 4):
        send(producer, [record(b"%d" % number)])
        flush(producer)
        if number == 2:
            producer.abort_transaction(SOON)
        else:
            producer.commit_transaction(SOON)

    begun = brokers.partitions["t", 0].sequences
    assert brokers.broken == []
    assert brokers.ended == [True, True, False, True]
    assert begun == ({(7, epoch): (1, 0) for epoch in range(4)} if implicit else {(7, 0): (4, 3)})


@pytest.mark.parametrize("implicit", [True], indirect=True)
def test_an_identity_whose_epochs_are_used_up_is_followed_by_another(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)
    brokers.producer, brokers.epoch = 8, -1  # which is one more at the end
    producer.commit_transaction(SOON)
    producer.begin_transaction()
    send(producer, [record(b"2")])
    flush(producer)

    assert list(brokers.partitions["t", 0].sequences) == [(7, 0), (8, 0)]
    assert brokers.broken == []


def test_a_transaction_of_which_no_broker_has_anything_is_not_committed(make: Make, implicit: bool) -> None:
    brokers = ScriptedBrokers({"t": 1, "u": 1})
    brokers.fate = lambda topic, *batch: KafkaError.TOPIC_AUTHORIZATION_FAILED if topic == "t" else 0
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)
    producer.commit_transaction(SOON)
    producer.begin_transaction()
    send(producer, [record(b"1"), record(b"2", topic="u")])
    flush(producer)
    producer.commit_transaction(SOON)

    # If it was admitted first, the broker knows of it.
    assert brokers.ended == [not implicit, True]
    assert len(producer.take_failures()) == 2


@pytest.mark.parametrize("implicit", [False], indirect=True)
@pytest.mark.parametrize("level", [0, 1, None])
def test_a_cluster_that_does_not_know_of_it_is_asked_for_each_partition(level: int | None, make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.transaction_version = level
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)
    producer.commit_transaction(SOON)

    assert "AddPartitionsToTxnRequest" in brokers.asked
    assert (brokers.broken, brokers.ended) == ([], [True])


def test_after_an_abort_that_is_not_answered_nothing_is_sent_under_this_identity(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers["EndTxnRequest"] = [LOST_ANSWER]
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)

    with pytest.raises(KafkaException):
        producer.abort_transaction(SOON)
    with pytest.raises(KafkaException, match="lost"):
        producer.begin_transaction()
    assert producer.send([record(b"2")], lambda *refused: None) == [record(b"2")]


def test_a_start_that_was_given_up_does_not_go_on(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamsapp.kafka.producing.client.GIVE_UP_AFTER", 0.0)
    brokers = ScriptedBrokers({"t": 1})
    brokers.answers["InitProducerIdRequest"] = [LOST_REQUEST] * 10_000
    producer = make(brokers, transactional_id="id")

    began = now(producer)
    with pytest.raises(KafkaException):
        producer.init_transactions(20.0)
    assert now(producer) - began == pytest.approx(20.0)
    asked = brokers.asked.count("InitProducerIdRequest")
    assert 190 <= asked <= 200  # with the pause while a coordinator is out of reach
    del brokers.answers["InitProducerIdRequest"][1:]  # one request may be on its way; the next would be answered
    pass_time(producer, 3600.0)

    assert brokers.asked.count("InitProducerIdRequest") <= asked + 1
    assert brokers.epoch == -1


def test_a_transaction_with_records_that_are_not_acknowledged_is_not_committed(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    brokers.fate = lambda *batch: LOST_REQUEST
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])

    with pytest.raises(KafkaException, match="not written yet"):
        producer.commit_transaction(SOON)

    assert "EndTxnRequest" not in brokers.asked


def test_a_transaction_is_aborted_and_what_it_had_is_not_sent_later(make: Make) -> None:
    brokers = ScriptedBrokers({"t": 1})
    producer = transactional(brokers, make)
    send(producer, [record(b"1")])
    flush(producer)
    brokers.fate = lambda *batch: LOST_REQUEST
    send(producer, [record(b"2")])
    producer.abort_transaction(SOON)
    brokers.fate = lambda *batch: 0
    pass_time(producer, 3600.0)

    assert brokers.ended == [False]
    assert [key for key, _ in brokers.partitions["t", 0].log] == [b"1"]
    with pytest.raises(KafkaException, match="lost"):
        producer.begin_transaction()
