"""A member that says what it likes joins a group: the good ones keep their tasks and go on committing."""

from __future__ import annotations

from uuid import uuid4

from confluent_kafka import Producer

from hostile_members import SUBSCRIPTIONS, Stranger, metadata
from kafka_cluster import Kafka
from members import ENDLESS, TIMEOUT, Instance, Members, tasks_of
from streamsapp import TopicPartition
from streamsapp.membership import leader_decision
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor


def _commit(members: Members, instance: Instance, topic: str, offset: int) -> None:
    members.until(instance.member.begin_commit, "the leave to commit")
    instance.member.commit({TopicPartition(topic, min(instance.active)): (offset, "")})
    instance.member.end_commit()


def test_whatever_a_member_says_the_good_ones_keep_processing(kafka: Kafka, members: Members) -> None:
    topic, app = kafka.create_topic(partitions=4), kafka.unique("app")
    # Without state, so that they are shared at once whichever of the two joins first.
    tasks = tasks_of(topic, 4, stateful=False)
    good = [members.join(app, tasks, HighAvailabilityTaskAssignor(), kafka=ENDLESS) for _ in range(2)]
    members.settled(*good, partitions=range(4))
    for offset, (what, says) in enumerate(SUBSCRIPTIONS.items(), start=1):
        stranger = Stranger(members.config(app, kafka=ENDLESS), says)
        members.until(stranger.heard.is_set, f"an assignment for a member that says {what}")
        members.settled(*good, partitions=range(4))

        assert stranger.told is not None
        assert leader_decision.read_assignment(stranger.told)[0].active == {}
        for each in good:
            _commit(members, each, topic, offset)
        stranger.leave()
        members.settled(*good, partitions=range(4))

    assert not any(each.losses for each in good)


def test_a_member_that_leaves_under_the_id_of_another_applications_producer_does_not_have_it_fenced(
    kafka: Kafka, members: Members
) -> None:
    topic, app = kafka.create_topic(partitions=4), kafka.unique("app")
    victim = f"{kafka.unique('other')}-{uuid4()}"
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": victim})
    producer.init_transactions(TIMEOUT)
    good = [members.join(app, tasks_of(topic, 4), kafka=ENDLESS) for _ in range(2)]
    members.settled(*good, partitions=range(4))
    stranger = Stranger(members.config(app, kafka=ENDLESS), metadata(transactional_id=victim))
    members.until(stranger.heard.is_set, "its assignment")
    members.settled(*good, partitions=range(4))

    stranger.leave()
    members.settled(*good, partitions=range(4))
    # A member that takes over tasks fences the dead first.
    members.leave(good[1])
    members.settled(good[0], partitions=range(4))

    producer.begin_transaction()
    producer.produce(topic, b"x")
    producer.commit_transaction(TIMEOUT)
