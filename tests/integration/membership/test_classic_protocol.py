"""Members come, go and die; tasks follow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kafka_cluster import Kafka
from members import ENDLESS, Members, tasks_of
from streamsapp import TopicPartition
from streamsapp.errors import FencedError, StreamsError
from streamsapp.membership.api import Assignment, Holdings, ShutdownRequested


def test_the_first_member_gets_every_task(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=4), 4)

    one = members.join(kafka.unique("app"), tasks, kafka=ENDLESS)
    members.settled(one, partitions=range(4))

    assert [type(news) for news in one.news] == [Assignment]
    assert one.member.safe_until > time.monotonic()


def test_a_task_moves_in_two_steps_and_is_never_assigned_twice(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=4), 4)
    app = kafka.unique("app")
    one = members.join(app, tasks, kafka=ENDLESS)
    members.settled(one, partitions=range(4))

    one.gives_up = False
    two = members.join(app, tasks, kafka=ENDLESS)
    members.until(lambda: two.news and one.generation == two.generation, "the second member's first assignment")
    assert len(one.assignment.active) == 2
    assert not two.assignment.active

    one.held = Holdings(one.assignment.generation, one.assignment.active)
    one.gives_up = True
    one.member.rejoin()
    members.settled(one, two, partitions=range(4))


def test_a_member_that_leaves_is_replaced_before_its_session_ends(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=6), 6)
    app = kafka.unique("app")
    one, two, three = (members.join(app, tasks, kafka=ENDLESS) for _ in range(3))
    members.settled(one, two, three, partitions=range(6))
    kept = {instance: set(instance.active) for instance in (one, three)}

    members.leave(two)

    members.settled(one, three, partitions=range(6))
    assert all(kept[instance] <= instance.active for instance in (one, three))
    members.leave(two)  # once more does nothing


def test_members_that_leave_at_any_moment_of_their_first_join_hold_nobody_up(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=4), 4)
    app = kafka.unique("app")
    one = members.join(app, tasks, kafka=ENDLESS)
    members.settled(one, partitions=range(4))

    for moment in range(12):
        passing = members.join(app, tasks, kafka=ENDLESS)
        time.sleep(moment * 0.004)
        members.leave(passing)

    two = members.join(app, tasks, kafka=ENDLESS)
    members.settled(one, two, partitions=range(4))


def test_a_member_that_dies_is_replaced_when_its_session_ends(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=6), 6)
    app = kafka.unique("app")
    one = members.join(app, tasks)
    two, three = (members.join(app, tasks, kafka=ENDLESS) for _ in range(2))
    members.settled(one, two, three, partitions=range(6))

    one.kill()

    members.settled(two, three, partitions=range(6))
    assert not two.losses
    assert not three.losses


@pytest.mark.parametrize("leads", [True, False], ids=["the leader", "another member"])
def test_a_member_that_dies_is_replaced_before_its_session_ends_by_who_has_its_directory(
    kafka: Kafka, members: Members, tmp_path: Path, leads: bool
) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=6), 6)
    app = kafka.unique("app")
    order = [tmp_path, None] if leads else [None, tmp_path]
    one, two = (members.join(app, tasks, directory=each, kafka=ENDLESS) for each in order)
    members.settled(one, two, partitions=range(6))
    dying, staying = (one, two) if leads else (two, one)

    dying.kill()
    successor = members.join(app, tasks, directory=tmp_path, kafka=ENDLESS)

    members.settled(staying, successor, partitions=range(6))
    assert not staying.losses
    assert not successor.losses


def test_a_member_that_dies_is_replaced_as_soon_as_another_hears_of_its_end(kafka: Kafka, members: Members) -> None:
    """It says twice that the same one has ended, and once that one has which never was: that moves nothing."""
    tasks = tasks_of(kafka.create_topic(partitions=6), 6)
    app = kafka.unique("app")
    one, two, three = (members.join(app, tasks, kafka=ENDLESS) for _ in range(3))
    members.settled(one, two, three, partitions=range(6))
    assert one.member._rebalance is not None
    ended = one.member._rebalance.group._member_id.value

    one.kill()
    two.member.take_out(ended)

    members.settled(two, three, partitions=range(6))
    assert two.member._rebalance is not None
    for each in (ended, f"{ended}-of-another"):
        two.member.take_out(each)
        assert two.member._rebalance.group._rejoin is None
    assert not two.losses
    assert not three.losses


def test_members_know_each_other(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=2), 2)
    app = kafka.unique("app")
    one = members.join(app, tasks, application_server="host-1:8080")
    two = members.join(app, tasks, application_server="host-2:8080")

    members.settled(one, two, partitions=range(2))

    for instance in (one, two):
        known = {peer.endpoint: {task.partition for task in peer.active} for peer in instance.assignment.peers.values()}
        assert known == {"host-1:8080": one.active, "host-2:8080": two.active}


def test_a_member_that_drains_says_so(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(), 1)
    one = members.join(kafka.unique("app"), tasks)
    members.settled(one, partitions=[0])

    one.member.drain()

    members.until(lambda: all(peer.draining for peer in one.assignment.peers.values()), "the draining member")


def test_a_request_to_stop_reaches_every_member_once(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=2), 2)
    app = kafka.unique("app")
    one, two = members.join(app, tasks), members.join(app, tasks)
    members.settled(one, two, partitions=range(2))

    one.member.request_shutdown()
    members.until(lambda: ShutdownRequested() in one.news and ShutdownRequested() in two.news, "the request")

    generation = one.generation
    two.member.rejoin()
    members.until(lambda: one.generation > generation and two.generation > generation, "the next generation")
    assert one.news.count(ShutdownRequested()) == two.news.count(ShutdownRequested()) == 1


def test_a_member_whose_polling_thread_hangs_leaves_and_comes_back(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=2), 2)
    app = kafka.unique("app")
    one = members.join(app, tasks, max_poll_interval_ms=1000, kafka=ENDLESS)
    two = members.join(app, tasks, kafka=ENDLESS)
    members.settled(one, two, partitions=range(2))

    one.polls = False
    members.settled(two, partitions=range(2))
    # The other may have its tasks before it has the answer to its farewell.
    members.until(lambda: not one.member.may_commit, "the end of its membership")
    assert not one.member.begin_commit()

    one.polls = True
    members.settled(one, two, partitions=range(2))
    assert "max_poll_interval_ms" in one.losses[0].reason


def test_a_static_member_keeps_its_tasks_over_a_restart(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(partitions=4), 4)
    app = kafka.unique("app")
    one = members.join(app, tasks, group_instance_id="one", kafka=ENDLESS)
    two = members.join(app, tasks, group_instance_id="two", kafka=ENDLESS)
    members.settled(one, two, partitions=range(4))
    before, known = set(one.active), len(two.news)

    members.leave(one)
    again = members.join(app, tasks, group_instance_id="one", kafka=ENDLESS)
    members.settled(again, two, partitions=range(4))

    assert again.active == before
    assert again.member.transactional_id == one.member.transactional_id
    assert all(news.active == two.held.active for news in two.news[known:] if isinstance(news, Assignment))


def test_two_instances_with_one_instance_id_are_told_apart(kafka: Kafka, members: Members) -> None:
    tasks = tasks_of(kafka.create_topic(), 1)
    app = kafka.unique("app")
    one = members.join(app, tasks, group_instance_id="same", kafka=ENDLESS)
    members.settled(one, partitions=[0])
    one.polls = False

    two = members.join(app, tasks, group_instance_id="same", kafka=ENDLESS)
    members.settled(two, partitions=[0])

    members.until(lambda: one.member.safe_until < 0, "the end of the first one's membership")
    with pytest.raises(FencedError, match="'same'"):
        members.until(one.member.poll, "the error")


def test_tools_see_members_and_partitions(kafka: Kafka, members: Members) -> None:
    topic = kafka.create_topic(partitions=4)
    app = kafka.unique("app")
    one, two = (members.join(app, tasks_of(topic, 4), client_id=name, kafka=ENDLESS) for name in ("first", "second"))
    members.settled(one, two, partitions=range(4))

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    group = admin.describe_consumer_groups([app])[app].result()

    assert group.partition_assignor == "streamsapp"
    seen = {
        member.client_id: {(each.topic, each.partition) for each in member.assignment.topic_partitions}
        for member in group.members
    }
    assert seen == {
        "first-member": {(topic, each) for each in one.active},
        "second-member": {(topic, each) for each in two.active},
    }


def test_another_kind_of_application_in_the_group_is_an_error_that_says_so(kafka: Kafka, members: Members) -> None:
    topic = kafka.create_topic()
    app = kafka.unique("app")
    consumer = kafka.consumer_in_group(app, topic)
    try:
        one = members.join(app, tasks_of(topic, 1))
        with pytest.raises(StreamsError, match=f"another kind of application runs under application id {app}"):
            members.until(lambda: one.news, "the error")
    finally:
        consumer.close()


def test_nothing_of_a_commit_is_allowed_without_a_generation(kafka: Kafka, members: Members) -> None:
    one = members.join(kafka.unique("app"), tasks_of("nowhere", 1), bootstrap_servers="127.0.0.1:1")

    assert not one.member.begin_commit()
    with pytest.raises(KafkaException, match="no member"):
        one.member.metadata()
    with pytest.raises(KafkaException, match="no member"):
        one.member.commit({TopicPartition("topic", 0): (1, "")})
