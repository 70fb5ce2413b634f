"""Topics that match a pattern come and go while the application runs; the findings of the group's leader hold for
all."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from streamsapp import Consumed, Materialized, Serdes, StreamsBuilder, TaskId, TopicPartition, Topology
from streamsapp.errors import TopicError
from streamsapp.membership import member_messages
from streamsapp.membership.leader_decision import SubscriptionReader
from streamsapp.membership.member_messages import GroupView, Subscription
from streamsapp.membership.wire import subscription
from streamsapp.runtime.application_layout import ApplicationLayout, make_layout
from streamsapp.runtime.layouts import Layouts
from streamsapp.topology.internal_topics import InternalTopic
from task_parts import config

FIRST = TaskId(0, 0)


class Broker:
    """Topics that a test makes and deletes."""

    def __init__(self, **topics: int) -> None:
        self.topics = {"out": 1} | {name.replace("_", "-"): count for name, count in topics.items()}
        self.refuses = False

    def partition_counts(self) -> dict[str, int]:
        return dict(self.topics)

    def why_missing(self, topic: str) -> str:
        return f"topic {topic} does not exist"

    def create(self, topics: Sequence[InternalTopic], replication_factor: int) -> None:
        if self.refuses:
            raise TopicError("cannot create internal topics")
        self.topics |= {topic.name: topic.partitions for topic in topics}


def copying(reset: str | None = None, pattern: str = "in-.*") -> Topology:
    builder = StreamsBuilder()
    builder.stream(re.compile(pattern), Consumed(offset_reset=reset)).to("out")
    return builder.build()


def counting(*, by_value: bool = False) -> Topology:
    text = Serdes.string()
    builder = StreamsBuilder()
    read = builder.stream(re.compile("in-.*"), Consumed(text, text))
    grouped = read.group_by(lambda _, value: value) if by_value else read.group_by_key()
    grouped.count(Materialized("counts"))
    return builder.build()


class Instance:
    """One instance, and the topics that it knows."""

    def __init__(self, topology: Topology, broker: Broker, **settings: Any) -> None:
        self.admin = cast(Any, broker)
        configured = config(**settings)
        self.layouts = Layouts(topology, configured, make_layout(topology, configured, self.admin))

    def look(self) -> ApplicationLayout:
        self.layouts.look(self.admin)
        return self.layouts.following(self.layouts.found().matched)


def test_a_topic_that_comes_is_read_by_the_tasks_there_are_and_by_new_ones() -> None:
    broker = Broker(in_a=1)
    instance = Instance(copying(), broker)
    broker.topics["in-b"] = 2

    plans = instance.look().plans

    assert list(plans[FIRST].inputs) == [TopicPartition("in-a", 0), TopicPartition("in-b", 0)]
    assert list(plans[TaskId(0, 1)].inputs) == [TopicPartition("in-b", 1)]


def test_the_first_topic_that_matches_makes_the_first_tasks_and_their_internal_topics() -> None:
    broker = Broker()
    instance = Instance(counting(by_value=True), broker)
    assert instance.layouts.found().tasks == {}
    broker.topics["in-a"] = 3

    assert len(instance.look().plans) == 6
    assert broker.topics["app-counts-repartition"] == broker.topics["app-counts-changelog"] == 3


def test_internal_topics_that_cannot_be_made_now_are_made_later(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker()
    instance = Instance(counting(), broker)
    broker.topics["in-a"], broker.refuses = 1, True
    assert instance.look().plans == {}
    assert "topics that came are not read yet: cannot create internal topics" in caplog.text

    broker.refuses = False
    assert instance.look().plans.keys() == {FIRST}


def test_a_topic_that_goes_leaves_its_tasks_the_others_and_the_last_one_leaves_no_task() -> None:
    broker = Broker(in_a=1, in_b=2)
    instance = Instance(copying(), broker)

    del broker.topics["in-b"]
    plans = instance.look().plans
    assert {task: list(plan.inputs) for task, plan in plans.items()} == {FIRST: [TopicPartition("in-a", 0)]}

    del broker.topics["in-a"]
    assert instance.look().plans == {}


def test_a_topic_that_gains_partitions_is_refused_as_one_that_a_source_names() -> None:
    broker = Broker(in_a=1)
    instance = Instance(copying(), broker)
    broker.topics["in-a"] = 2

    with pytest.raises(TopicError, match="in-a had 1 partitions when the application started and now has 2"):
        instance.look()


def test_a_topic_with_more_partitions_than_the_changelog_is_refused_by_name() -> None:
    broker = Broker(in_a=1)
    instance = Instance(counting(), broker)
    broker.topics["in-b"] = 3

    with pytest.raises(TopicError, match=r"in-b.*app-counts-changelog has 1 partitions and needs 3"):
        instance.look()


def test_a_repartition_topic_keeps_its_partitions_whatever_comes() -> None:
    broker = Broker(in_a=1)
    instance = Instance(counting(by_value=True), broker)
    broker.topics["in-b"] = 3

    plans = instance.look().plans

    assert sorted(map(str, plans)) == ["0_0", "0_1", "0_2", "1_0"]
    assert plans[FIRST].partition_count("app-counts-repartition") == 1


def test_a_partition_grouper_that_moves_a_partition_to_another_task_is_refused() -> None:
    def by_rank(sources: Any, partitions: Any) -> Any:
        return {
            TaskId(number, rank): frozenset({TopicPartition(topic, 0)})
            for number, topics in sources.items()
            for rank, topic in enumerate(sorted(topics))
        }

    broker = Broker(in_b=1)
    instance = Instance(copying(), broker, partition_grouper=by_rank)
    broker.topics["in-a"] = 1

    with pytest.raises(TopicError, match=r"in-a.*moves in-b-0 from task 0_0 to 0_1"):
        instance.look()


@pytest.mark.parametrize(("reset", "late"), [("latest", "earliest"), ("earliest", "earliest"), ("none", "none")])
def test_a_topic_that_comes_late_is_read_whole_where_those_before_are_read_from_their_end(
    reset: str, late: str
) -> None:
    broker = Broker(in_a=1)
    instance = Instance(copying(reset), broker)
    broker.topics["in-b"] = 1

    inputs = instance.look().plans[FIRST].inputs

    assert {each.topic: node.offset_reset for each, node in inputs.items()} == {"in-a": reset, "in-b": late}


# ---- the leader's word -------------------------------------------------------------------------------------------


def told(instance: Instance) -> Any:
    """The topics that the leader sends to the others, as they read them."""
    matched = member_messages.pack_matched(instance.layouts.found().matched)
    view = GroupView(1, [], [], shutdown=False, matched=matched)
    return member_messages.unpack_matched(GroupView.decode(view.encode()).matched)


def test_members_follow_the_topics_that_the_leader_found_whether_they_saw_fewer_or_more() -> None:
    broker = Broker(in_a=1)
    old = Instance(copying("latest"), broker)
    broker.topics["in-b"] = 2
    leader = Instance(copying("latest"), broker)
    broker.topics["in-c"] = 1
    new = Instance(copying("latest"), broker)

    for member in (old, new):
        plans = member.layouts.following(told(leader)).plans
        assert {each.topic for plan in plans.values() for each in plan.inputs} == {"in-a", "in-b"}
        assert member.layouts.decided(told(leader)).tasks == leader.layouts.found().tasks


def test_who_joins_a_group_reads_a_late_topic_whole_as_the_others_do() -> None:
    broker = Broker(in_a=1)
    leader = Instance(copying("latest"), broker)
    broker.topics["in-b"] = 1
    leader.look()

    inputs = Instance(copying("latest"), broker).layouts.following(told(leader)).plans[FIRST].inputs

    assert {each.topic: node.offset_reset for each, node in inputs.items()} == {"in-a": "latest", "in-b": "earliest"}


def test_a_member_with_another_pattern_keeps_what_it_found_itself() -> None:
    broker = Broker(in_a=1, on_a=1)
    leader, other = Instance(copying(), broker), Instance(copying(pattern="on-.*"), broker)

    assert other.layouts.following(told(leader)) is other.layouts.following({})
    assert known_to(leader, other)[FIRST].partitions == {TopicPartition("on-a", 0)}


def known_to(leader: Instance, member: Instance) -> Any:
    """The tasks of a member as the leader reads its subscription."""
    known = member.layouts.found()
    said = Subscription(
        1, 7, "", "", "", {}, 1, False, False, {}, {}, {},
        member_messages.pack_definitions(known.tasks), member_messages.pack_patterns(known),
    )  # fmt: skip
    read = SubscriptionReader(leader.layouts.found()).read("member", subscription(["in-a"], said.encode()))
    assert read is not None
    return read.tasks


@pytest.mark.parametrize("topology", [copying, counting])
def test_the_leader_gives_all_members_the_tasks_of_the_topics_it_found(topology: Callable[[], Topology]) -> None:
    broker = Broker()
    without = Instance(topology(), broker)
    broker.topics["in-a"] = 2
    leader = Instance(topology(), broker)

    assert known_to(leader, without) == leader.layouts.found().tasks
    assert known_to(without, leader) == {}
