"""The consumer's reading of librdkafka's messages, events and errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition as KafkaPartition

from streamsapp import TopicPartition
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka import consumer as module
from streamsapp.kafka.consumer import END, PartitionConsumer
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.kafka.librdkafka import consumer as librdkafka, fetching

A, A1, B = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@dataclass
class FakeMessage:
    """A record, or an event when it has an error."""

    at: TopicPartition
    number: int
    problem: KafkaError | None = None

    def topic(self) -> str:
        return self.at.topic

    def partition(self) -> int:
        return self.at.partition

    def offset(self) -> int:
        return self.number

    def error(self) -> KafkaError | None:
        return self.problem


def event(at: TopicPartition, code: int, number: int = 0, *, fatal: bool = False) -> FakeMessage:
    return FakeMessage(at, number, KafkaError(code, "so it is", fatal))


@dataclass
class FakeClient:
    """``confluent_kafka.Consumer`` as far as it is used; ``answers`` are given in turn, exceptions raised."""

    properties: dict[str, Any]
    messages: list[FakeMessage] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    questions: list[Any] = field(default_factory=list)
    assigned: dict[TopicPartition, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    resumed: list[TopicPartition] = field(default_factory=list)
    delivered: dict[TopicPartition, int] = field(default_factory=dict)
    away: bool = False

    def poll(self, timeout: float) -> FakeMessage | None:
        return self.messages.pop(0) if self.messages else None

    def consume(self, limit: int, timeout: float) -> list[FakeMessage]:
        taken, self.messages = self.messages[:limit], self.messages[limit:]
        return taken

    def list_topics(self, topic: str, timeout: float) -> None:
        self.calls.append(f"look up {topic}")
        if self.away:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def incremental_assign(self, partitions: list[KafkaPartition]) -> None:
        self.assigned |= {TopicPartition(each.topic, each.partition): each.offset for each in partitions}
        self.calls.append("assign")

    def incremental_unassign(self, partitions: list[KafkaPartition]) -> None:
        for each in partitions:
            del self.assigned[TopicPartition(each.topic, each.partition)]
        self.calls.append("unassign")

    def position(self, partitions: list[KafkaPartition]) -> list[KafkaPartition]:
        return [
            KafkaPartition(each.topic, each.partition, self.delivered[TopicPartition(each.topic, each.partition)])
            for each in partitions
        ]

    def resume(self, partitions: list[KafkaPartition]) -> None:
        self.resumed = [TopicPartition(each.topic, each.partition) for each in partitions]

    def get_watermark_offsets(self, partition: KafkaPartition, *, cached: bool) -> Any:
        return self.answer(partition) if self.answers else (OFFSET_INVALID, OFFSET_INVALID)

    def answer(self, asked: Any) -> Any:
        self.questions.append(asked)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass
class FakeCluster:
    """``kafka.cluster.Cluster``, with the client's answers."""

    client: FakeClient

    def topics(self, names: Any, timeout: float) -> dict[str, Any]:
        return {}

    def committed(self, partitions: Any, timeout: float) -> Any:
        return self.client.answer(partitions)

    def bounds(self, partition: Any, timeout: float) -> Any:
        return self.client.answer(partition)

    def offsets_at(self, wanted: Any, timeout: float) -> Any:
        return self.client.answer(wanted)

    def commit(self, offsets: Any) -> Any:
        return self.client.answer(offsets)

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeClient:
    fake = FakeClient({})

    def make(properties: dict[str, Any], logger: object) -> FakeClient:
        fake.properties = properties
        return fake

    monkeypatch.setattr(librdkafka, "Consumer", make)
    monkeypatch.setattr(module, "Cluster", lambda properties: FakeCluster(fake))
    monkeypatch.setattr("streamsapp.kafka.retry.FIRST_PAUSE", 0.0)
    return fake


@pytest.fixture
def consumer(client: FakeClient) -> PartitionConsumer:
    return PartitionConsumer({"client": "librdkafka", "client.id": "app-consumer"})


def offsets_of(fetched: Fetched) -> list[tuple[TopicPartition, list[int]]]:
    return [(partition, [record.offset() for record in records]) for partition, records in fetched.records]


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


# ---- fetching ------------------------------------------------------------------------------------------------------


def test_records_come_in_batches_per_partition_in_their_order(client: FakeClient, consumer: PartitionConsumer) -> None:
    client.messages = [FakeMessage(at, number) for at, number in [(A, 1), (A, 2), (A1, 7), (B, 3), (B, 5), (A, 3)]]

    fetched = consumer.poll(100, 0)

    assert offsets_of(fetched) == [(A, [1, 2]), (A1, [7]), (B, [3, 5]), (A, [3])]
    assert fetched.ends == {}
    assert fetched.out_of_range == []


def test_partitions_of_the_same_number_in_different_topics_are_told_apart(
    client: FakeClient, consumer: PartitionConsumer
) -> None:
    client.messages = [FakeMessage(A, 1), FakeMessage(B, 2)]

    assert offsets_of(consumer.poll(100, 0)) == [(A, [1]), (B, [2])]


def test_no_more_than_asked_for_is_taken(client: FakeClient, consumer: PartitionConsumer) -> None:
    client.messages = [FakeMessage(A, number) for number in range(5)]

    assert offsets_of(consumer.poll(3, 0)) == [(A, [0, 1, 2])]
    assert offsets_of(consumer.poll(3, 0)) == [(A, [3, 4])]
    assert consumer.poll(3, 0) == Fetched()


def test_the_end_of_a_partition_comes_with_the_records_before_it(
    client: FakeClient, consumer: PartitionConsumer
) -> None:
    client.messages = [FakeMessage(A, 4), event(A, KafkaError._PARTITION_EOF, 6), FakeMessage(B, 1)]

    fetched = consumer.poll(100, 0)

    assert offsets_of(fetched) == [(A, [4]), (B, [1])]
    assert fetched.ends == {A: 6}


@pytest.mark.parametrize("code", [KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE])
def test_a_position_that_the_broker_does_not_have_is_reported(
    client: FakeClient, consumer: PartitionConsumer, code: int
) -> None:
    consumer.assign({A1: 0})
    client.messages = [event(A1, code), FakeMessage(B, 1)]

    fetched = consumer.poll(100, 0)

    assert fetched.out_of_range == [A1]
    assert offsets_of(fetched) == [(B, [1])]


@pytest.mark.parametrize(("delivered", "goes_on"), [(OFFSET_INVALID, 9), (12, 12)])
def test_a_position_that_was_gone_before_the_partition_was_assigned_anew_is_not_reported_but_logged_and_read_on(
    client: FakeClient, caplog: pytest.LogCaptureFixture, delivered: int, goes_on: int
) -> None:
    # A name of its own: alike messages of one client are logged once.
    consumer = PartitionConsumer({"client": "librdkafka", "client.id": "delivered" if delivered > 0 else "begun"})
    consumer.assign({A1: 9, B: 9})
    client.delivered[A1] = delivered
    client.messages = [event(A1, KafkaError._AUTO_OFFSET_RESET, 5), event(B, KafkaError._AUTO_OFFSET_RESET, 9)]
    client.calls.clear()

    fetched = consumer.poll(100, 0)

    assert fetched.out_of_range == [B]
    assert client.calls == ["unassign", "assign"]
    assert client.assigned == {A1: goes_on, B: 9}
    assert (
        f"no offset 5 of a-1, where it was read before; fetching it again where it stands, at {goes_on}" in caplog.text
    )


def test_a_position_that_was_gone_is_not_reported_once_the_partition_is_unassigned(
    client: FakeClient, consumer: PartitionConsumer
) -> None:
    consumer.assign({A1: 9})
    consumer.unassign([A1])
    client.messages = [event(A1, KafkaError._AUTO_OFFSET_RESET, 5), event(A1, KafkaError._AUTO_OFFSET_RESET, 9)]

    assert consumer.poll(100, 0) == Fetched()
    assert client.assigned == {}


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "not authorised to read a-0: so it is; grant READ on the topic"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "topic a no longer exists: so it is; create it again, then restart"),
        (KafkaError._UNKNOWN_PARTITION, "topic a no longer exists: so it is; create it again, then restart"),
    ],
)
def test_a_topic_that_cannot_be_read_is_an_error_that_says_what_to_do(
    client: FakeClient, consumer: PartitionConsumer, code: int, says: str
) -> None:
    client.messages = [event(A, code)]

    with pytest.raises(TopicError) as raised:
        consumer.poll(100, 0)
    assert str(raised.value) == says


def test_a_client_that_failed_for_good_raises(client: FakeClient, consumer: PartitionConsumer) -> None:
    client.messages = [event(A, KafkaError._FATAL, fatal=True)]

    with pytest.raises(StreamsError, match="app-consumer failed for good: so it is"):
        consumer.poll(100, 0)


@pytest.mark.parametrize(
    "code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.NOT_LEADER_FOR_PARTITION]
)
def test_what_the_client_recovers_from_is_passed_over(
    client: FakeClient, consumer: PartitionConsumer, code: int
) -> None:
    client.messages = [event(A, code), FakeMessage(B, 1)]

    assert offsets_of(consumer.poll(100, 0)) == [(B, [1])]


# ---- assignment ----------------------------------------------------------------------------------------------------


def test_partitions_are_assigned_beside_the_others(client: FakeClient, consumer: PartitionConsumer) -> None:
    consumer.assign({A: 3})
    consumer.assign({B: END})
    consumer.unassign([A])

    assert client.assigned == {B: END}


def test_nothing_is_asked_of_the_client_for_no_partitions(client: FakeClient, consumer: PartitionConsumer) -> None:
    consumer.assign({})
    consumer.unassign(iter(()))

    assert client.calls == []


def test_a_new_position_replaces_the_old_assignment(client: FakeClient, consumer: PartitionConsumer) -> None:
    consumer.assign({A: 3, B: 4})

    consumer.reposition({A: 9})

    assert client.assigned == {A: 9, B: 4}
    assert client.calls == ["look up a", "look up b", "assign", "unassign", "assign"]


def test_the_leaders_of_a_topic_are_looked_up_once(client: FakeClient, consumer: PartitionConsumer) -> None:
    consumer.assign({A: 3})
    consumer.reposition({A: 9})

    assert client.calls == [f"look up {A.topic}", "assign", "unassign", "assign"]


def test_partitions_are_assigned_while_the_broker_is_away(client: FakeClient, consumer: PartitionConsumer) -> None:
    client.away = True

    consumer.assign({A: 3})

    assert client.assigned == {A: 3}


# ---- positions -----------------------------------------------------------------------------------------------------


def test_leaders_are_looked_for_again_when_no_record_has_come_for_long(
    client: FakeClient, consumer: PartitionConsumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer.assign({A: 0})
    client.messages = [FakeMessage(A, 0)]
    assert consumer.poll(10, 0.0).count == 1
    consumer.poll(10, 0.0)
    assert client.calls.count("look up a") == 1

    monkeypatch.setattr(fetching, "_QUIET", 0.0)
    client.messages = [FakeMessage(A, 1)]
    consumer.poll(10, 0.0)
    consumer.poll(10, 0.0)
    assert client.calls.count("look up a") == 2


def test_no_committed_offsets_are_asked_for_when_there_are_no_inputs(
    client: FakeClient, consumer: PartitionConsumer
) -> None:
    assert consumer.committed([]) == {}
    assert client.questions == []


def test_committed_offsets_that_cannot_be_read_are_not_taken_for_none(
    client: FakeClient, consumer: PartitionConsumer
) -> None:
    client.answers = [KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, "not you"))]

    with pytest.raises(StreamsError, match="cannot read the committed offsets of a-0, b-0: not you"):
        consumer.committed([A, B])


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        pytest.param(lambda it: it.committed([A]), {A: (5, "")}, id="committed"),
        pytest.param(lambda it: it.watermarks(A, cached=False), (1, 2), id="watermarks"),
        pytest.param(lambda it: it.offsets_for_time([A], 0), {A: 5}, id="offsets_for_time"),
    ],
)
def test_requests_are_repeated_when_they_fail_for_a_passing_reason(
    client: FakeClient, consumer: PartitionConsumer, ask: Callable[[PartitionConsumer], Any], answer: Any
) -> None:
    client.answers = [failure(KafkaError._TIMED_OUT), failure(KafkaError.LEADER_NOT_AVAILABLE), answer]
    assert ask(consumer)
    assert client.answers == []

    client.answers = [failure(KafkaError.GROUP_AUTHORIZATION_FAILED), answer]
    with pytest.raises((KafkaException, StreamsError)):
        ask(consumer)
    assert client.answers == [answer]


@pytest.mark.parametrize(
    ("answer", "expected"), [((2, 9), (2, 9)), ((-1001, 9), (0, 9)), ((-1001, -1001), None), ((0, 0), (0, 0))]
)
def test_watermarks_are_none_when_they_are_not_known_yet(
    client: FakeClient, consumer: PartitionConsumer, answer: tuple[int, int], expected: tuple[int, int] | None
) -> None:
    client.answers = [answer]

    assert consumer.watermarks(A, cached=True) == expected


def test_the_offset_for_a_time_after_the_last_record_is_the_end(
    client: FakeClient, consumer: PartitionConsumer
) -> None:
    client.answers = [{A: 5, B: -1}]

    assert consumer.offsets_for_time([A, B], 1_000) == {A: 5, B: END}
    assert client.questions == [{A: 1_000, B: 1_000}]


def test_a_commit_that_failed_is_the_callers_to_repeat(client: FakeClient, consumer: PartitionConsumer) -> None:
    client.answers = [failure(KafkaError._TIMED_OUT), None]

    with pytest.raises(KafkaException):
        consumer.commit({A: (5, "time")})
    consumer.commit({A: (5, "time")})

    assert client.questions == [{A: (5, "time")}] * 2


def test_errors_that_concern_no_partition_are_only_logged(
    client: FakeClient, consumer: PartitionConsumer, caplog: pytest.LogCaptureFixture
) -> None:
    client.properties["error_cb"](KafkaError(KafkaError._ALL_BROKERS_DOWN, "nobody there"))

    assert "app-consumer: nobody there" in caplog.text
