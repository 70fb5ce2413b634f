"""An instance that is no member any more commits nothing, and what it left open is aborted at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition as ClientPartition,
)

from kafka_cluster import Kafka
from members import ENDLESS, TIMEOUT, Dealer, Instance, Members, tasks_of
from streamsapp import TopicPartition
from streamsapp.clock import SystemClock
from streamsapp.deadline import Deadline
from streamsapp.kafka import group_member
from streamsapp.kafka.librdkafka import group_metadata
from streamsapp.membership import wire
from streamsapp.membership.assignor.model import AssignorSettings, MemberState, Plan
from streamsapp.membership.wire import Identity

#: A session whose end a test waits for, yet longer than a busy machine stands still.
MORTAL = {"session.timeout.ms": "35000"}


@dataclass
class Scene:
    """A group in some state, and the credentials of the commit."""

    group: str
    topic: str
    identity: Identity
    instance_id: str | None = None

    @property
    def committer(self) -> group_member.Member:
        return group_member.Member(self.group, self.identity.generation, self.identity.member_id, self.instance_id)


Setting = Callable[[Kafka, Members], Scene]
Running = tuple[Scene, list[Instance]]


def _running(kafka: Kafka, members: Members, count: int = 1, session: dict[str, str] = ENDLESS) -> Running:
    topic = kafka.create_topic(partitions=2)
    app = kafka.unique("app")
    instances = [members.join(app, tasks_of(topic, 2), kafka=session) for _ in range(count)]
    members.settled(*instances, partitions=range(2))
    return Scene(app, topic, _identity(instances[0])), instances


def _identity(instance: Instance) -> Identity:
    member = instance.member
    assert member.begin_commit()
    identity = member._mailbox.committing
    member.end_commit()
    assert identity is not None
    return identity


def _present(kafka: Kafka, members: Members) -> Scene:
    return _running(kafka, members)[0]


def _earlier(kafka: Kafka, members: Members) -> Scene:
    scene = _present(kafka, members)
    return replace(scene, identity=replace(scene.identity, generation=scene.identity.generation - 1))


def _later(kafka: Kafka, members: Members) -> Scene:
    scene = _present(kafka, members)
    return replace(scene, identity=replace(scene.identity, generation=scene.identity.generation + 1))


def _stranger(kafka: Kafka, members: Members) -> Scene:
    scene = _present(kafka, members)
    return replace(scene, identity=replace(scene.identity, member_id="nobody"))


def _departed(kafka: Kafka, members: Members) -> Scene:
    scene, (one, two) = _running(kafka, members, 2)
    members.leave(one)
    members.settled(two, partitions=range(2))
    return scene


def _departed_in_new_generation(kafka: Kafka, members: Members) -> Scene:
    scene, (one, two) = _running(kafka, members, 2)
    members.leave(one)
    members.settled(two, partitions=range(2))
    return replace(scene, identity=replace(scene.identity, generation=_identity(two).generation))


def _last_of_all(kafka: Kafka, members: Members) -> Scene:
    scene, (one,) = _running(kafka, members)
    members.leave(one)
    return scene


def _replaced(kafka: Kafka, members: Members) -> Scene:
    topic = kafka.create_topic(partitions=2)
    app = kafka.unique("app")
    one = members.join(app, tasks_of(topic, 2), group_instance_id="same", kafka=ENDLESS)
    members.settled(one, partitions=range(2))
    identity = _identity(one)
    one.kill()
    two = members.join(app, tasks_of(topic, 2), group_instance_id="same", kafka=ENDLESS)
    members.settled(two, partitions=range(2))
    return Scene(app, topic, identity, "same")


def _while_the_group_waits(kafka: Kafka, members: Members) -> Scene:
    """The commit of a member that is asked to join, but has not yet: it may still end."""
    scene, (one,) = _running(kafka, members)
    assert one.member.begin_commit()
    two = members.join(scene.group, tasks_of(scene.topic, 2))
    members.until(lambda: not one.member.may_commit, "the rebalance")
    assert two.generation == 0
    return scene


def _while_the_leader_assigns(kafka: Kafka, members: Members) -> Scene:
    topic = kafka.create_topic(partitions=2)
    app = kafka.unique("app")
    dealer = Slow()
    one = members.join(app, tasks_of(topic, 2), dealer, kafka=ENDLESS)
    members.settled(one, partitions=range(2))
    identity = _identity(one)
    dealer.holds.clear()
    members.join(app, tasks_of(topic, 2), dealer, kafka=ENDLESS)
    members.until(dealer.asked.is_set, "the assignment")
    return Scene(app, topic, identity)


class Slow(Dealer):
    """An assignor that a test may make wait, for two seconds at most."""

    def __init__(self) -> None:
        self.holds = threading.Event()
        self.holds.set()
        self.asked = threading.Event()

    def assign(self, members: Mapping[str, MemberState], settings: AssignorSettings) -> Plan:
        if not self.holds.is_set():
            self.asked.set()
            self.holds.wait(2.0)
        return super().assign(members, settings)


ACCEPTED = KafkaError.NO_ERROR

MATRIX = pytest.mark.parametrize(
    ("setting", "expected"),
    [
        pytest.param(_present, ACCEPTED, id="a member in the present generation commits"),
        pytest.param(_while_the_group_waits, ACCEPTED, id="a member for which the group waits commits"),
        pytest.param(_earlier, KafkaError.ILLEGAL_GENERATION, id="a member of an earlier generation does not"),
        pytest.param(_later, KafkaError.ILLEGAL_GENERATION, id="a member of a later generation does not"),
        pytest.param(
            _while_the_leader_assigns, KafkaError.ILLEGAL_GENERATION, id="a member that joined does not by what it was"
        ),
        pytest.param(_stranger, KafkaError.UNKNOWN_MEMBER_ID, id="a stranger does not"),
        pytest.param(_departed, KafkaError.UNKNOWN_MEMBER_ID, id="a member that left does not"),
        pytest.param(
            _departed_in_new_generation, KafkaError.UNKNOWN_MEMBER_ID, id="a member that left does not guess right"
        ),
        pytest.param(_last_of_all, KafkaError.UNKNOWN_MEMBER_ID, id="the last member does not after it left"),
        pytest.param(_replaced, KafkaError.FENCED_INSTANCE_ID, id="a static member that was replaced does not"),
    ],
)


@MATRIX
def test_under_exactly_once(kafka: Kafka, members: Members, setting: Setting, expected: int) -> None:
    scene = setting(kafka, members)
    producer = _producer(kafka, kafka.unique("transactional"))
    producer.begin_transaction()

    offsets, committer = [ClientPartition(scene.topic, 0, 7)], group_metadata.group_metadata(scene.committer)
    code = _outcome(lambda: producer.send_offsets_to_transaction(offsets, committer, TIMEOUT))

    assert code == expected
    if code == ACCEPTED:
        producer.commit_transaction(TIMEOUT)
    else:
        producer.abort_transaction(TIMEOUT)
    assert (kafka.committed(scene.group, scene.topic).get(0) == (7, "")) == (code == ACCEPTED)


@MATRIX
def test_under_at_least_once(kafka: Kafka, members: Members, setting: Setting, expected: int) -> None:
    scene = setting(kafka, members)
    witness = members.join(kafka.unique("witness"), tasks_of(scene.topic, 2), group_instance_id=scene.instance_id)
    members.settled(witness, partitions=range(2))
    member = witness.member
    # The same way as a member's own commit, but with another committer's credentials.
    member._settings = replace(member._settings, group_id=scene.group)
    member._rebalance.group._settings = member._settings  # type: ignore[union-attr]
    member._rebalance.group._coordinator = None  # type: ignore[union-attr]
    member._mailbox._commits.under_way = scene.identity

    code = _outcome(lambda: member.commit({TopicPartition(scene.topic, 0): (7, "seven")}))

    assert code == expected
    assert (kafka.committed(scene.group, scene.topic).get(0) == (7, "seven")) == (code == ACCEPTED)


def _outcome(request: Callable[[], None]) -> int:
    try:
        request()
    except KafkaException as error:
        return int(error.args[0].code())
    return ACCEPTED


def _producer(kafka: Kafka, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 600_000,
        }
    )
    producer.init_transactions(TIMEOUT)
    return producer


# ---- what dead members left open ---------------------------------------------------------------------------------


def _leave_open(kafka: Kafka, group: str, topic: str, transactional_id: str, member: group_member.Member) -> Producer:
    """A transaction that carries an offset and is not ended."""
    producer = _producer(kafka, transactional_id)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.send_offsets_to_transaction([ClientPartition(topic, 0, 7)], group_metadata.group_metadata(member), TIMEOUT)
    return producer


def _is_readable(kafka: Kafka, group: str, topic: str) -> bool:
    """Says whether one question for the committed offset gets an answer: none of a transaction is pending."""
    asked = ConsumerGroupTopicPartitions(group, [ClientPartition(topic, 0)])
    answer = kafka.admin.list_consumer_group_offsets([asked], require_stable=True, request_timeout=30)[group]
    (found,) = answer.result().topic_partitions
    assert found.error is None or found.error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT, found.error
    return found.error is None


def test_what_a_dead_member_left_open_is_aborted_before_its_tasks_start_elsewhere(
    kafka: Kafka, members: Members
) -> None:
    scene, (one, two) = _running(kafka, members, 2, MORTAL)
    assert one.member.begin_commit()
    dead = _leave_open(kafka, scene.group, scene.topic, one.member.transactional_id, one.member.metadata())
    assert not _is_readable(kafka, scene.group, scene.topic)

    one.kill()
    members.settled(two, partitions=range(2))

    assert _is_readable(kafka, scene.group, scene.topic)
    with pytest.raises(KafkaException) as failure:
        dead.commit_transaction(TIMEOUT)
    assert failure.value.args[0].code() == KafkaError._FENCED


def test_when_all_died_at_once_the_next_finds_what_they_left_open(kafka: Kafka, members: Members) -> None:
    scene, instances = _running(kafka, members, 2, MORTAL)
    for instance in instances:
        assert instance.member.begin_commit()
        metadata = instance.member.metadata()
        _leave_open(kafka, scene.group, scene.topic, instance.member.transactional_id, metadata)
    for instance in instances:
        instance.kill()

    heir = members.join(scene.group, tasks_of(scene.topic, 2))
    members.settled(heir, partitions=range(2))

    assert _is_readable(kafka, scene.group, scene.topic)


def test_a_transaction_of_another_application_with_a_longer_name_is_left_alone(kafka: Kafka, members: Members) -> None:
    topic = kafka.create_topic(partitions=2)
    app = kafka.unique("app")
    other = members.join(f"{app}-eu", tasks_of(topic, 2), kafka=ENDLESS)
    members.settled(other, partitions=range(2))
    assert other.member.begin_commit()
    writer = _leave_open(kafka, f"{app}-eu", topic, other.member.transactional_id, other.member.metadata())

    one = members.join(app, tasks_of(topic, 2))
    members.settled(one, partitions=range(2))

    writer.commit_transaction(TIMEOUT)


def test_a_member_that_was_lost_writes_under_a_new_id(kafka: Kafka, members: Members) -> None:
    scene, (one, two) = _running(kafka, members, 2)
    before = one.member.transactional_id
    settings = two.member._settings
    farewell = wire.leave(settings, scene.identity.member_id, "the coordinator put it out")
    assert two.member._connection is not None
    assert two.member._rebalance is not None
    group = two.member._rebalance.group
    two.member._connection.run(lambda: group.coordinator.request(farewell, TIMEOUT), TIMEOUT, Deadline(SystemClock()))

    members.until(lambda: one.losses, "the loss")
    assert one.member.transactional_id != before
    assert not one.active
    members.settled(one, two, partitions=range(2))


# ---- the commit gate ---------------------------------------------------------------------------------------------


def test_a_join_waits_for_the_commit_under_way_and_no_other_begins(kafka: Kafka, members: Members) -> None:
    scene, (one,) = _running(kafka, members)
    assert one.member.begin_commit()

    two = members.join(scene.group, tasks_of(scene.topic, 2))
    members.until(lambda: not one.member.may_commit, "the rebalance")
    assert not one.member.begin_commit()
    one.member.commit({TopicPartition(scene.topic, 0): (5, "")})
    assert two.generation == 0

    one.member.end_commit()
    members.settled(one, two, partitions=range(2))
    assert kafka.committed(scene.group, scene.topic)[0] == (5, "")


def test_no_commit_is_refused_while_members_come_and_go(kafka: Kafka, members: Members) -> None:
    scene, (one,) = _running(kafka, members)
    stop = threading.Event()
    refused: list[object] = []
    commits = 0

    def commit() -> None:
        nonlocal commits
        while not stop.is_set():
            one.step()
            if not one.member.begin_commit():
                continue
            try:
                one.member.commit({TopicPartition(scene.topic, each): (1, "") for each in one.active})
                commits += 1
            except KafkaException as error:
                refused.append(error)
            finally:
                one.member.end_commit()

    members._all.remove(one)  # two threads that poll it would take over its news in any order
    thread = threading.Thread(target=commit)
    thread.start()
    try:
        for _ in range(8):
            before = commits
            two = members.join(scene.group, tasks_of(scene.topic, 2), kafka=ENDLESS)
            members.until(lambda two=two: two.active, "the second member's task")  # type: ignore[misc]
            members.until(lambda before=before: commits > before + 1, "commits meanwhile")  # type: ignore[misc]
            members.leave(two)
    finally:
        stop.set()
        thread.join(TIMEOUT)
        one.member.leave()

    assert refused == []
    assert one.generation > 8
    assert commits > 8


def test_a_commit_that_outlives_its_generation_is_refused(kafka: Kafka, members: Members) -> None:
    topic = kafka.create_topic(partitions=2)
    app = kafka.unique("app")
    # It waits half of that for the commit, and leaves if it is not polled for so long.
    one = members.join(app, tasks_of(topic, 2), max_poll_interval_ms=45_000, kafka=ENDLESS)
    members.settled(one, partitions=range(2))
    assert one.member.begin_commit()

    two = members.join(app, tasks_of(topic, 2), kafka=ENDLESS)
    members.until(lambda: two.generation > 0, "the second member")

    assert _outcome(lambda: one.member.commit({TopicPartition(topic, 0): (5, "")})) == KafkaError.ILLEGAL_GENERATION
    one.member.end_commit()


def test_group_metadata_names_generation_member_and_group(kafka: Kafka, members: Members) -> None:
    scene, (one,) = _running(kafka, members)
    assert one.member.begin_commit()

    assert one.member.metadata() == scene.committer
    assert scene.identity.generation == one.generation
    one.member.end_commit()
