"""Sending, acknowledging and committing, and what becomes of each way in which that fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from data_paths import take
from streamsapp import TopicPartition
from streamsapp.errors import CommitError, FencedError, ProductionError
from streamsapp.kafka import producer as module
from streamsapp.kafka.producer import AbortableError, AtLeastOnceProducer, ExactlyOnceProducer, production_error
from streamsapp.tasks.output import OutputRecord
from streamsapp.testing import MockClock

IN = TopicPartition("in", 0)
OFFSETS = {IN: (7, "time")}
TIMES_OUT_AFTER_MS = 10_000


class Report(NamedTuple):
    """A record as a delivery report has it."""

    record_topic: str
    record_key: bytes | None
    record_value: bytes | None

    def topic(self) -> str:
        return self.record_topic

    def key(self) -> bytes | None:
        return self.record_key

    def value(self) -> bytes | None:
        return self.record_value


@dataclass
class FakeClient:
    """``confluent_kafka.Producer`` as far as it is used. ``errors`` are raised by the call of that name, in turn."""

    properties: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, list[Exception]] = field(default_factory=dict)
    produced: list[tuple[Any, ...]] = field(default_factory=list)
    reports: list[KafkaError] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    room: int = 1000
    left: int = 0

    def produce(self, topic: str, value: bytes | None, key: bytes | None, *rest: Any) -> None:
        if len(self.produced) == self.room:
            raise BufferError("Local: Queue full")
        self._fail("produce")
        self.produced.append((topic, value, key, *rest))

    def poll(self, timeout: float) -> int:
        self._fail("poll")
        for error in self.reports:
            self.properties["on_delivery"](error, Report("out", b"k", b"v"))
        self.reports.clear()
        return 0

    def flush(self, timeout: float) -> int:
        self._fail("flush")
        self.poll(timeout)
        return self.left

    def purge(self) -> None:
        self.calls.append("purge")
        self.reports.append(KafkaError(KafkaError._PURGE_QUEUE))

    def init_transactions(self, timeout: float) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def send_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: object) -> None:
        sent = ", ".join(f"{partition}@{offset} {metadata}" for partition, (offset, metadata) in offsets.items())
        self._call("offsets", f"offsets {sent} of {group}")

    def commit_transaction(self, timeout: float) -> None:
        self._call("commit")

    def abort_transaction(self, timeout: float) -> None:
        self._call("abort")

    def _call(self, name: str, written: str = "") -> None:
        self.calls.append(written or name)
        self._fail(name)

    def _fail(self, name: str) -> None:
        if self.errors.get(name):
            raise self.errors[name].pop(0)


class Group:
    """The membership's side of a commit."""

    def __init__(self) -> None:
        self.committed: list[Any] = []

    def commit(self, offsets: Any) -> None:
        self.committed.append(offsets)

    def metadata(self) -> str:
        return "the group"


class Producing:
    """A producer over a fake client, with an ``on_failure`` that drops records or fails."""

    def __init__(self, client: FakeClient, *, exactly_once: bool = False) -> None:
        self.client = client
        self.clock = MockClock()
        self.group = Group()
        self.handled: list[tuple[int, str, bytes | None, bytes | None]] = []
        self.answer: Exception | None = None
        properties = {"transaction.timeout.ms": TIMES_OUT_AFTER_MS}
        self.producer: AtLeastOnceProducer | ExactlyOnceProducer = (
            ExactlyOnceProducer(cast(Any, properties), self._failed, self.clock, reports=True)
            if exactly_once
            else AtLeastOnceProducer({}, self._failed)
        )

    def _failed(self, error: KafkaError, topic: str, key: bytes | None, value: bytes | None) -> None:
        self.handled.append((error.code(), topic, key, value))
        if self.answer is not None:
            raise self.answer

    def commit(self) -> None:
        self.producer.commit(OFFSETS, self.group)


def record(value: bytes, timestamp: int = 5) -> OutputRecord:
    return ("out", value, b"k", 3, None, None, timestamp, [("h", b"1")])


def failure(code: int, *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "so it is", fatal, retriable, abort))


TOO_LARGE = KafkaError.MSG_SIZE_TOO_LARGE


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient()

    def make(properties: dict[str, Any], logger: object) -> FakeClient:
        fake.properties = properties
        return fake

    def send_to_transaction(producer: FakeClient, offsets: Any, group: object, timeout: float) -> None:
        producer.send_offsets(offsets, group)

    monkeypatch.setattr(module, "Producer", make)
    take(None, monkeypatch)  # the native data path wants a client of librdkafka's
    monkeypatch.setattr(module, "send_to_transaction", send_to_transaction)
    monkeypatch.setattr("streamsapp.kafka.retry.FIRST_PAUSE", 0.0)
    return fake


@pytest.fixture
def once(client: FakeClient) -> Producing:
    return Producing(client, exactly_once=True)


@pytest.fixture
def least(client: FakeClient) -> Producing:
    return Producing(client)


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
    least.client.reports = [KafkaError(TOO_LARGE)]
    wait(least)
    assert least.handled == [(TOO_LARGE, "out", b"k", b"v")]

    least.answer = ProductionError("first")
    least.client.reports = [KafkaError(TOO_LARGE)] * 2
    with pytest.raises(ProductionError, match="first"):
        wait(least)


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


# ---- exactly once --------------------------------------------------------------------------------------------------


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
    ExactlyOnceProducer({}, Producing(client)._failed, MockClock(), reports=reports)

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
    once.client.properties["on_delivery"](KafkaError(TOO_LARGE), Report("out", None, None))

    with pytest.raises(ProductionError, match="cannot write to topic out"):
        once.commit()


def test_a_failed_delivery_is_not_put_to_the_handler_since_the_transaction_is_lost(once: Producing) -> None:
    once.client.reports = [KafkaError(TOO_LARGE)]

    with pytest.raises(ProductionError):
        once.producer.poll()
    assert once.handled == []


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


def test_a_transactional_id_that_may_not_be_used_is_an_error_that_says_so(once: Producing) -> None:
    once.client.errors["init"] = [failure(KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]

    with pytest.raises(CommitError, match="cannot start a transactional producer: so it is"):
        once.producer.start()


# ---- words ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (TOO_LARGE, "raise message.max.bytes"),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "grant WRITE on the topic"),
        (KafkaError.INVALID_RECORD, "see the broker's log"),
    ],
)
def test_a_record_that_cannot_be_written_comes_with_a_remedy(code: int, remedy: str) -> None:
    error = production_error(KafkaError(code, "so it is"), "out")

    assert str(error).startswith("cannot write to topic out: so it is; ")
    assert remedy in str(error)
