"""The admin client's reading of the broker's answers about topics."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition as KafkaPartition
from confluent_kafka.admin import NewTopic

from streamsapp import TopicPartition
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka import topics as module
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.topology.internal_topics import InternalTopic, InternalTopicKind

CHANGELOG = InternalTopic("app-s-changelog", InternalTopicKind.CHANGELOG, 4, {"cleanup.policy": "compact"})
UNAVAILABLE = KafkaException(KafkaError(KafkaError._TRANSPORT, "nobody there"))


@dataclass
class Topic:
    partitions: dict[int, None]
    error: KafkaError | None = None


@dataclass
class Metadata:
    topics: dict[str, Topic]


@dataclass
class FakeAdmin:
    """``AdminClient`` as far as it is used."""

    topics: dict[str, Topic] = field(default_factory=dict)
    unavailable: KafkaException | None = None
    created: list[NewTopic] = field(default_factory=list)
    answer: Future[None] = field(default_factory=Future)
    deleted: list[KafkaPartition] = field(default_factory=list)

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Metadata:
        if self.unavailable is not None:
            raise self.unavailable
        return Metadata(self.topics)

    def poll(self, timeout: float) -> None:
        """Nothing to serve."""

    def create_topics(self, topics: list[NewTopic], operation_timeout: float) -> dict[str, Future[None]]:
        self.created += topics
        return {topic.topic: self.answer for topic in topics}

    def delete_records(self, partitions: list[KafkaPartition]) -> dict[KafkaPartition, Future[None]]:
        self.deleted += partitions
        return dict.fromkeys(partitions, self.answer)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()

    def make(properties: Any) -> FakeAdmin:
        return fake

    monkeypatch.setattr(module, "Admin", make)
    monkeypatch.setattr(module, "TIMEOUT", 0.01)
    return fake


@pytest.fixture
def admin(client: FakeAdmin) -> TopicAdmin:
    return TopicAdmin({})


def error(code: int) -> KafkaError:
    return KafkaError(code, "so it is")


def test_topics_that_may_not_be_seen_do_not_exist(client: FakeAdmin, admin: TopicAdmin) -> None:
    denied = error(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    client.topics = {"in": Topic({0: None, 1: None}), "secret": Topic({}, denied)}

    assert admin.partition_counts() == {"in": 2}


def test_a_cluster_that_cannot_be_reached_is_an_error_that_says_what_to_check(
    client: FakeAdmin, admin: TopicAdmin
) -> None:
    client.unavailable = UNAVAILABLE

    with pytest.raises(TopicError, match="nobody there; check bootstrap_servers"):
        admin.partition_counts()


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (None, "topic in does not exist: create it before the application starts"),
        (
            error(KafkaError.UNKNOWN_TOPIC_OR_PART),
            "topic in does not exist: create it before the application starts",
        ),
        (
            error(KafkaError.TOPIC_AUTHORIZATION_FAILED),
            "not authorised to describe topic in: grant DESCRIBE and READ on it",
        ),
    ],
)
def test_a_missing_topic_is_told_from_one_that_may_not_be_seen(
    client: FakeAdmin, admin: TopicAdmin, problem: KafkaError | None, why: str
) -> None:
    client.topics = {"in": Topic({}, problem)}

    assert admin.why_missing("in") == why


def test_a_missing_topic_is_told_from_one_that_may_not_be_seen_when_the_request_itself_is_refused(
    client: FakeAdmin, admin: TopicAdmin
) -> None:
    client.unavailable = KafkaException(error(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    assert admin.why_missing("in") == "not authorised to describe topic in: grant DESCRIBE and READ on it"


def test_internal_topics_are_created_as_they_were_laid_out(client: FakeAdmin, admin: TopicAdmin) -> None:
    client.answer.set_result(None)

    admin.create([CHANGELOG], 3)

    (made,) = client.created
    assert (made.topic, made.num_partitions, made.replication_factor) == ("app-s-changelog", 4, 3)
    assert made.config == {"cleanup.policy": "compact"}


def test_nothing_is_asked_of_the_broker_when_no_topic_is_missing(client: FakeAdmin, admin: TopicAdmin) -> None:
    admin.create([], 3)

    assert client.created == []


def test_a_topic_that_another_instance_created_meanwhile_is_as_good(client: FakeAdmin, admin: TopicAdmin) -> None:
    client.answer.set_exception(KafkaException(error(KafkaError.TOPIC_ALREADY_EXISTS)))

    admin.create([CHANGELOG], 3)


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "grant CREATE on it, or create it"),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, "grant CREATE on it, or create it"),
        (KafkaError.INVALID_REPLICATION_FACTOR, "see the broker's log"),
    ],
)
def test_a_topic_that_cannot_be_created_is_an_error_with_a_remedy(
    client: FakeAdmin, admin: TopicAdmin, code: int, remedy: str
) -> None:
    client.answer.set_exception(KafkaException(error(code)))

    with pytest.raises(TopicError) as raised:
        admin.create([CHANGELOG], 3)
    assert str(raised.value) == f"cannot create internal topic app-s-changelog: so it is; {remedy}"


def test_a_broker_that_does_not_answer_is_an_error_with_a_remedy(client: FakeAdmin, admin: TopicAdmin) -> None:
    with pytest.raises(TopicError, match="cannot create internal topic app-s-changelog: no answer within"):
        admin.create([CHANGELOG], 3)


def test_consumed_records_are_deleted_before_an_offset(client: FakeAdmin, admin: TopicAdmin) -> None:
    client.answer.set_result(None)

    admin.delete_records({TopicPartition("app-r-repartition", 2): 17})

    (asked,) = client.deleted
    assert (asked.topic, asked.partition, asked.offset) == ("app-r-repartition", 2, 17)


def test_records_that_cannot_be_deleted_are_only_logged(
    client: FakeAdmin, admin: TopicAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    admin.delete_records({TopicPartition("app-r-repartition", 2): 17})

    client.answer.set_exception(KafkaException(error(KafkaError.TOPIC_AUTHORIZATION_FAILED)))

    assert "consumed records of app-r-repartition-2 were not deleted" in caplog.text


def test_a_broker_is_waited_for_until_the_instance_gives_up(
    client: FakeAdmin, admin: TopicAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    client.unavailable = UNAVAILABLE

    admin.wait_for_broker(lambda: True)
    assert caplog.messages == []

    with pytest.raises(StreamsError, match=r"no broker answers at .*check bootstrap_servers"):
        admin.wait_for_broker(lambda: False)
    assert all("trying again" in message for message in caplog.messages)
