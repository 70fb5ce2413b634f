"""Exactly once: transactions of records and offsets, and what becomes of each way in which they fail."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from producer_parts import (
    TIMES_OUT_AFTER_MS,
    TOO_LARGE,
    FakeClient,
    Producing,
    failure,
    record,
)
from streamsapp.errors import CommitError, ConfigError, FencedError
from streamsapp.kafka.producer import ExactlyOnceProducer
from streamsapp.kafka.sending import AbortableError
from streamsapp.outgoing import OutputRecord
from streamsapp.record import RawRecord
from streamsapp.testing import MockClock

UNSUPPORTED = KafkaError.UNSUPPORTED_COMPRESSION_TYPE


def test_a_transaction_holds_the_records_and_the_offsets(once: Producing) -> None:
    once.producer.start()
    once.producer.send([record(b"1")])
    once.producer.send([record(b"2")])
    once.commit()
    once.producer.send([record(b"3")])

    assert once.client.calls == ["init", "begin", "offsets in-0@7 time of the group", "commit", "begin"]
    assert once.group.committed == []


def test_what_is_given_up_is_aborted_once_and_is_not_committed_later(once: Producing) -> None:
    once.producer.send([record(b"1")])
    once.producer.abort()
    once.producer.abort()

    assert once.client.calls == ["begin", "abort"]


def test_a_transaction_that_cannot_be_aborted_does_not_keep_the_producer_from_closing(
    once: Producing, caplog: pytest.LogCaptureFixture
) -> None:
    once.client.errors["abort"] = [failure(KafkaError._ALL_BROKERS_DOWN)]
    once.producer.send([record(b"1")])
    once.producer.abort()
    once.producer.close()

    assert "left to the broker" in caplog.text


@pytest.mark.parametrize("reports", [True, False])
def test_a_transactional_producer_is_told_of_single_records_only_where_it_wants_to(
    client: FakeClient, *, reports: bool
) -> None:
    ExactlyOnceProducer({"client": "librdkafka"}, Producing(client)._failed, MockClock(), reports=reports)

    assert ("on_delivery" in client.properties) is reports


def test_a_commit_of_nothing_makes_no_transaction(once: Producing) -> None:
    once.producer.commit({}, once.group)

    assert once.client.calls == []


def test_offsets_alone_are_a_transaction_and_so_are_records_alone(once: Producing) -> None:
    once.commit()
    once.producer.send([record(b"1")])
    once.producer.commit({}, once.group)

    assert once.client.calls == ["begin", "offsets in-0@7 time of the group", "commit", "begin", "commit"]


@pytest.mark.parametrize(
    ("failing", "calls"),
    [
        ("offsets", ["begin", "offsets", "offsets", "commit"]),
        ("commit", ["begin", "offsets", "commit", "commit"]),
    ],
)
def test_a_commit_that_did_not_go_through_is_repeated_from_where_it_stood(
    once: Producing, failing: str, calls: list[str]
) -> None:
    once.client.errors[failing] = [failure(KafkaError._TIMED_OUT, retriable=True)]
    with pytest.raises(KafkaException):
        once.commit()

    once.commit()

    assert [call.split()[0] for call in once.client.calls] == calls


@pytest.mark.parametrize("failing", ["offsets", "commit"])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        pytest.param(failure(KafkaError._FENCED, fatal=True), FencedError, id="fenced"),
        pytest.param(failure(KafkaError.PRODUCER_FENCED, abort=True), FencedError, id="fenced rather than aborted"),
        pytest.param(failure(KafkaError.UNKNOWN_MEMBER_ID, abort=True), FencedError, id="no longer in the group"),
        pytest.param(failure(KafkaError.ILLEGAL_GENERATION, abort=True), AbortableError, id="another generation"),
        pytest.param(failure(KafkaError.UNKNOWN_PRODUCER_ID, abort=True), AbortableError, id="to be aborted"),
        pytest.param(failure(KafkaError._FATAL, fatal=True), CommitError, id="fatal"),
        pytest.param(failure(KafkaError._FATAL, fatal=True, retriable=True), CommitError, id="fatal, not retriable"),
        pytest.param(failure(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED), CommitError, id="not authorised"),
    ],
)
def test_a_commit_that_fails_for_good_says_what_can_be_done(
    once: Producing, failing: str, error: KafkaException, expected: type[Exception]
) -> None:
    once.client.errors[failing] = [error]

    with pytest.raises(expected) as raised:
        once.commit()
    assert type(raised.value) is expected
    assert "so it is" in str(raised.value)


def test_a_transaction_that_the_broker_gave_up_on_is_lost_and_not_taken_over(once: Producing) -> None:
    once.producer.send([record(b"1")])
    once.clock.advance(TIMES_OUT_AFTER_MS + 1)
    once.client.errors["commit"] = [failure(KafkaError._FENCED, fatal=True)]

    with pytest.raises(AbortableError, match="the broker aborted the transaction after 10 s"):
        once.commit()


def test_the_age_of_a_transaction_counts_from_its_first_record(once: Producing) -> None:
    once.commit()
    once.clock.advance(TIMES_OUT_AFTER_MS + 1)
    once.producer.send([record(b"1")])
    once.client.errors["commit"] = [failure(KafkaError._FENCED, fatal=True)]

    with pytest.raises(FencedError):
        once.commit()


def test_a_failed_delivery_is_what_a_commit_reports_as_its_cause(once: Producing) -> None:
    once.producer.send([record(b"1")])
    once.client.errors["commit"] = [failure(KafkaError._STATE, abort=True)]
    once.client.properties["on_delivery"](KafkaError(UNSUPPORTED), RawRecord("out", 0, 0, None, None, 0))

    with pytest.raises(AbortableError, match="cannot write to topic out"):
        once.commit()


def test_a_failed_delivery_loses_the_transaction_and_the_one_after_the_next_asks_the_handler(
    client: FakeClient, once: Producing
) -> None:
    refused: OutputRecord = ("out", b"v", b"k", -1, None, None, 9, None)
    once.client.reports = [KafkaError(UNSUPPORTED)]
    with pytest.raises(AbortableError, match="cannot write to topic out"):
        once.producer.poll()

    second = Producing(client, exactly_once=True, refusals=once.refusals)
    assert second.producer.send([record(b"1"), refused, record(b"2")]) == []
    ((*_, told, _, _, _),) = [it for it in client.produced if it[1] == b"v"]
    told(KafkaError(UNSUPPORTED), RawRecord("out", 3, 0, b"k", b"v", -1))
    with pytest.raises(AbortableError, match="partition 3, key b'k', time 9 "):
        second.producer.poll()

    client.produced.clear()
    third = Producing(client, exactly_once=True, refusals=once.refusals)
    assert third.producer.send([record(b"1"), refused, record(b"2")]) == []
    assert [it.handled for it in (once, second, third)] == [[], [], [(UNSUPPORTED, "out", b"k", b"v")]]
    assert [it[1] for it in client.produced] == [b"1", b"2"]

    third.commit()
    third.producer.send([refused])
    assert [it[1] for it in client.produced] == [b"1", b"2", b"v"], "it may be well by then"


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KafkaError(KafkaError._MSG_TIMED_OUT), AbortableError),
        (KafkaError(KafkaError.INVALID_TXN_STATE), AbortableError),
        (KafkaError(KafkaError.PRODUCER_FENCED), FencedError),
        (KafkaError(KafkaError.INVALID_PRODUCER_EPOCH), FencedError),
    ],
)
def test_a_delivery_that_fails_with_its_transaction_says_which_of_the_two_it_is(
    once: Producing, error: KafkaError, expected: type[Exception]
) -> None:
    once.client.reports = [error]

    with pytest.raises(expected):
        once.producer.poll()


def test_a_transaction_that_takes_no_more_records_is_lost(once: Producing) -> None:
    once.client.errors["produce"] = [failure(KafkaError._STATE)]

    with pytest.raises(AbortableError, match="takes no more records"):
        once.producer.send([record(b"1")])


def test_a_client_that_failed_for_good_says_why_it_takes_no_more_records(once: Producing) -> None:
    once.client.errors = {
        "produce": [failure(KafkaError._FATAL, fatal=True)],
        "poll": [failure(KafkaError._FENCED, fatal=True)],
    }

    with pytest.raises(FencedError):
        once.producer.send([record(b"1")])


def test_a_record_that_the_client_refuses_goes_to_the_handler_under_exactly_once_too(once: Producing) -> None:
    once.client.errors["produce"] = [failure(TOO_LARGE)]

    once.producer.send([record(b"large"), record(b"2")])

    assert once.handled == [(TOO_LARGE, "out", b"k", b"large")]
    assert once.client.produced == [record(b"2")]


def test_starting_waits_for_the_coordinator(once: Producing) -> None:
    once.client.errors["init"] = [failure(KafkaError.COORDINATOR_NOT_AVAILABLE)]

    once.producer.start()

    assert once.client.calls == ["init", "init"]


def test_a_transaction_timeout_that_the_broker_does_not_allow_is_told_with_the_remedy(once: Producing) -> None:
    once.client.errors["init"] = [failure(KafkaError.INVALID_TRANSACTION_TIMEOUT, fatal=True)]

    with pytest.raises(ConfigError, match=r"transaction\.timeout\.ms.* 10000; set it to no more than .*\.max\.timeout"):
        once.producer.start()


def test_a_transactional_id_that_may_not_be_used_is_an_error_that_says_so(once: Producing) -> None:
    once.client.errors["init"] = [failure(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]

    with pytest.raises(CommitError, match="cannot start a transactional producer: so it is"):
        once.producer.start()
