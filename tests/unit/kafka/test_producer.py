"""Sending, acknowledging and committing, and what becomes of each way in which that fails."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError

from producer_parts import (
    OFFSETS,
    TOO_LARGE,
    FakeClient,
    Producing,
    failure,
    record,
)
from streamsapp.errors import CommitError, ProductionError
from streamsapp.kafka.sending import AbortableError

UNSUPPORTED = KafkaError.UNSUPPORTED_COMPRESSION_TYPE

# ---- sending -------------------------------------------------------------------------------------------------------


def test_records_go_to_the_client_as_they_are(least: Producing) -> None:
    assert least.producer.send([record(b"1"), record(b"2")]) == []

    assert least.client.produced == [record(b"1"), record(b"2")]


def test_the_time_zero_does_not_become_the_current_time(least: Producing) -> None:
    least.producer.send([record(b"1", timestamp=0)])

    assert least.client.produced == [record(b"1", timestamp=1)]


def test_a_record_without_a_time_gets_the_one_at_which_it_is_sent(least: Producing) -> None:
    least.producer.send([record(b"1", timestamp=-1)])
    # Nought is the client's word for none.
    assert least.client.produced == [record(b"1", timestamp=0)]


def test_a_full_queue_leaves_the_rest_in_its_order(least: Producing) -> None:
    least.client.room = 2
    records = [record(b"%d" % number) for number in range(5)]

    assert least.producer.send(records) == records[2:]
    assert least.client.produced == records[:2]


def test_a_record_that_the_client_refuses_goes_to_the_handler_and_the_others_are_sent(least: Producing) -> None:
    least.client.errors["produce"] = [failure(TOO_LARGE)]

    assert least.producer.send([record(b"large"), record(b"2")]) == []

    assert least.handled == [(TOO_LARGE, "out", b"k", b"large")]
    assert least.client.produced == [record(b"2")]
    least.producer.poll()


def test_a_handler_that_fails_a_refused_record_fails_the_next_call_once(least: Producing) -> None:
    least.client.errors["produce"] = [failure(TOO_LARGE)]
    least.answer = ProductionError("too large")
    least.producer.send([record(b"large")])

    with pytest.raises(ProductionError, match="too large"):
        least.producer.poll()
    least.producer.poll()


@pytest.mark.parametrize("wait", [lambda it: it.producer.poll(), lambda it: it.producer.flush(0)])
def test_a_failed_delivery_goes_to_the_handler_whose_failure_is_raised(
    least: Producing, wait: Callable[[Producing], object]
) -> None:
    least.client.reports = [KafkaError(UNSUPPORTED)]
    wait(least)
    assert least.handled == [(UNSUPPORTED, "out", b"k", b"v")]

    least.answer = ProductionError("first")
    least.client.reports = [KafkaError(UNSUPPORTED)] * 2
    with pytest.raises(ProductionError, match="first"):
        wait(least)


@pytest.mark.parametrize("code", [TOO_LARGE, KafkaError.INVALID_TIMESTAMP, KafkaError._INVALID_DIFFERENT_RECORD])
def test_a_batch_that_is_refused_is_nothing_for_the_handler(least: Producing, code: int) -> None:
    least.client.reports = [KafkaError(code)] * 3

    with pytest.raises(AbortableError, match=r"topic out refused records that were sent together: .*; fewer are sent"):
        least.producer.poll()
    assert least.handled == []
    least.producer.poll()


def test_flushed_is_when_nothing_is_outstanding(least: Producing) -> None:
    least.client.left = 3
    assert not least.producer.flush(0)

    least.client.left = 0
    assert least.producer.flush(0)


@pytest.mark.parametrize("exactly_once", [False, True])
def test_what_is_dropped_at_the_end_is_no_failure(client: FakeClient, *, exactly_once: bool) -> None:
    it = Producing(client, exactly_once=exactly_once)

    it.producer.close()

    assert client.calls == ["purge"]
    assert client.reports == [], "the purged records were reported"
    assert it.handled == []
    it.producer.poll()


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_client_that_failed_for_good_can_be_closed(client: FakeClient, *, exactly_once: bool) -> None:
    it = Producing(client, exactly_once=exactly_once)
    client.errors["poll"] = [failure(KafkaError._FENCED, fatal=True)]

    it.producer.close()

    assert client.errors["poll"] == []


# ---- at least once -------------------------------------------------------------------------------------------------


def test_at_least_once_the_group_commits_the_offsets(least: Producing) -> None:
    least.producer.start()
    least.commit()
    least.producer.commit({}, least.group)

    assert least.group.committed == [OFFSETS]
    assert least.client.calls == []


def test_a_client_that_failed_for_good_is_an_error_that_says_so(least: Producing) -> None:
    least.client.errors["poll"] = [failure(KafkaError._FATAL, fatal=True)]

    with pytest.raises(CommitError, match="cannot write: so it is"):
        least.producer.poll()
