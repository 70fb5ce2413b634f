"""From a topology and the topics that exist to tasks: created topics, refusals, and later changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from streamsapp import Serdes, Stores, StreamsBuilder, TaskId, TopicPartition, Topology
from streamsapp.dsl.options import Consumed, Materialized, Produced, Repartitioned
from streamsapp.errors import TopicError
from streamsapp.runtime.application_layout import ApplicationLayout, make_layout
from streamsapp.state.api import StoreBuilder
from streamsapp.topology.internal_topics import InternalTopic
from streamsapp.topology.nodes import ProcessorNode
from task_parts import Each, config, forwards, through

text = Serdes.string()
consumed, produced = Consumed(key_serde=text, value_serde=text), Produced(key_serde=text, value_serde=Serdes.long())


class FakeAdmin:
    """A broker with these topics, and with the topics that the topologies write to."""

    def __init__(self, **topics: int) -> None:
        self.topics = {"out": 1, "totals": 1} | topics
        self.created: dict[str, int] = {}

    def partition_counts(self) -> dict[str, int]:
        return dict(self.topics)

    def why_missing(self, topic: str) -> str:
        return f"topic {topic} does not exist: create it"

    def max_message_bytes(self, topic: str) -> int | None:
        return None

    def create(self, topics: Sequence[InternalTopic], replication_factor: int) -> None:
        self.created |= {topic.name: topic.partitions for topic in topics}


def layout(topology: Topology, admin: FakeAdmin, **settings: Any) -> ApplicationLayout:
    return make_layout(topology, config(**settings), cast(Any, admin))


def word_count() -> Topology:
    builder = StreamsBuilder()
    words = builder.stream("lines", consumed).group_by(lambda _, value: value)
    words.count(Materialized("counts")).to_stream().to("totals", produced)
    return builder.build()


def test_every_partition_of_a_source_topic_becomes_a_task() -> None:
    plans = layout(through(), FakeAdmin(**{"in": 3})).plans

    assert [str(task_id) for task_id in plans] == ["0_0", "0_1", "0_2"]
    assert list(plans[TaskId(0, 1)].inputs) == [TopicPartition("in", 1)]


def test_a_sink_topic_that_is_missing_is_told_with_the_line_that_writes_to_it() -> None:
    admin = FakeAdmin(**{"in": 1})
    del admin.topics["out"]

    with pytest.raises(TopicError, match=r"^topic out does not exist: create it, sink sink \(added at .*:\d+\) writes"):
        layout(through(), admin)
    assert not admin.created


def test_topics_read_together_share_tasks_in_the_order_of_the_sources() -> None:
    plans = layout(through(topics=("b", "a")), FakeAdmin(a=1, b=2)).plans

    assert list(plans[TaskId(0, 0)].inputs) == [TopicPartition("b", 0), TopicPartition("a", 0)]
    assert list(plans[TaskId(0, 1)].inputs) == [TopicPartition("b", 1)]


def test_internal_topics_are_created_with_the_partitions_of_what_is_upstream() -> None:
    admin = FakeAdmin(lines=4)

    made = layout(word_count(), admin)

    assert admin.created == {"app-counts-repartition": 4, "app-counts-changelog": 4}
    assert made.repartition_topics == {"app-counts-repartition"}
    assert made.sources == {"lines": 4}
    plan = made.plans[TaskId(1, 2)]
    assert plan.changelogs == {"counts": TopicPartition("app-counts-changelog", 2)}
    assert list(plan.inputs) == [TopicPartition("app-counts-repartition", 2)]
    assert plan.topic_name("counts-repartition") == "app-counts-repartition"
    assert plan.topic_name("totals") == "totals"


def test_internal_topics_that_exist_are_used_as_they_are() -> None:
    admin = FakeAdmin(**{"lines": 4, "app-counts-repartition": 4})

    layout(word_count(), admin)

    assert admin.created == {"app-counts-changelog": 4}


def test_an_internal_topic_with_other_partitions_is_refused_by_name() -> None:
    """The source topic grew since the application ran before: keys would be looked up in the wrong partition."""
    admin = FakeAdmin(**{"lines": 6, "app-counts-repartition": 4})

    with pytest.raises(TopicError, match="app-counts-repartition has 4 partitions and needs 6"):
        layout(word_count(), admin)
    assert admin.created == {}


def test_missing_source_topics_are_all_named() -> None:
    with pytest.raises(TopicError, match=r"topic a does not exist.*; topic b does not exist"):
        layout(through(topics=("b", "a", "c")), FakeAdmin(c=1))


def by_pattern() -> Topology:
    return Topology().add_source("source", pattern="in-.*").add_sink("sink", "out", "source")


def test_a_pattern_that_matches_nothing_yet_is_told_and_makes_no_task(caplog: pytest.LogCaptureFixture) -> None:
    assert layout(by_pattern(), FakeAdmin(other=1)).plans == {}
    assert "no topic matches the topology's patterns yet" in caplog.text


def test_a_pattern_matches_no_topic_of_kafka_nor_the_application_s_own() -> None:
    builder = StreamsBuilder()
    builder.stream(re.compile(".*"), consumed).group_by_key().count(Materialized("counts"))
    own = {"app-counts-changelog": 1, "app-counts-repartition": 1, "__consumer_offsets": 50, "letters": 1}

    made = layout(builder.build(), FakeAdmin(**own, lines=1), dead_letter_queue_topic="letters")

    assert made.sources.keys() == {"lines", "out", "totals"}


def test_what_identifies_a_sub_topology_does_not_depend_on_the_topics_that_match() -> None:
    few, many = (layout(by_pattern(), FakeAdmin(**topics)) for topics in ({"in-a": 1}, {"in-a": 1, "in-b": 1}))

    assert few.task_infos[TaskId(0, 0)].definition == many.task_infos[TaskId(0, 0)].definition
    assert few.matched[0].sources == many.matched[0].sources


def test_a_pattern_reads_every_topic_that_matches() -> None:
    made = layout(by_pattern(), FakeAdmin(**{"in-b": 1, "in-a": 2, "other": 1}))

    assert made.sources == {"in-a": 2, "in-b": 1}
    assert list(made.plans[TaskId(0, 0)].inputs) == [TopicPartition("in-a", 0), TopicPartition("in-b", 0)]


def test_a_partition_grouper_of_the_user_decides_what_a_task_reads() -> None:
    def everything(
        sources: Mapping[int, frozenset[str]], partitions: Mapping[str, int]
    ) -> dict[TaskId, frozenset[TopicPartition]]:
        return {TaskId(0, 0): frozenset(TopicPartition("in", number) for number in range(partitions["in"]))}

    plans = layout(through(), FakeAdmin(**{"in": 3}), partition_grouper=everything).plans

    assert [partition.partition for partition in plans[TaskId(0, 0)].inputs] == [0, 1, 2]


def with_global_store(topology: Topology) -> Topology:
    builder = Stores.key_value_store_builder(Stores.in_memory_key_value_store("global"), text, text)
    return topology.add_global_store(builder, "global-source", "countries", "global-node", lambda: Each(forwards))


def test_a_global_store_makes_no_task_and_is_open_to_every_processor() -> None:
    made = layout(with_global_store(through()), FakeAdmin(**{"in": 1, "countries": 2}))

    (plan,) = made.plans.values()
    assert list(plan.inputs) == [TopicPartition("in", 0)]
    assert [node.stores for node in plan.sub_topology.nodes if isinstance(node, ProcessorNode)] == [("global",)]
    assert made.sources == {"in": 1, "countries": 2}


def test_an_application_may_consist_of_global_stores_only() -> None:
    assert layout(with_global_store(Topology()), FakeAdmin(countries=1)).plans == {}


def test_the_missing_topic_of_a_global_store_is_named() -> None:
    with pytest.raises(TopicError, match="countries"):
        layout(with_global_store(through()), FakeAdmin(**{"in": 1}))


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"a": 2, "b": 3, "new": 1}, None),
        ({"a": 4, "b": 3}, "source topic a had 2 partitions when the application started and now has 4"),
        ({"b": 3}, "source topic a is gone: create it again with 2 partitions"),
    ],
)
def test_changes_of_source_topics_are_told_in_a_sentence(now: dict[str, int], told: str | None) -> None:
    made = ApplicationLayout(plans={}, sources={"a": 2, "b": 3}, repartition_topics=frozenset())

    change = made.changes(now)

    assert (change is None) if told is None else (change or "").startswith(told)


def test_a_version_with_other_nodes_or_more_stores_can_take_over_from_one_without() -> None:
    def counting(*, nodes: int = 1, totals: bool = False, topic: str = "lines") -> ApplicationLayout:
        builder = StreamsBuilder()
        words = builder.stream(topic, consumed)
        for _ in range(nodes):
            words = words.filter(lambda key, value: True)
        grouped = words.group_by_key()
        grouped.count(Materialized("counts"))
        if totals:
            grouped.count(Materialized("totals"))
        return layout(builder.build(), FakeAdmin(**{topic: 2}))

    plain, longer, larger, elsewhere = (
        made.task_infos[TaskId(0, 1)]
        for made in (counting(), counting(nodes=2), counting(totals=True), counting(topic="words"))
    )

    assert plain.definition != longer.definition
    assert plain.covers(longer)
    assert longer.covers(plain)
    assert larger.covers(plain)
    assert not plain.covers(larger)
    assert not elsewhere.covers(plain)


def test_a_store_that_processors_of_several_sub_topologies_bring_is_told(caplog: pytest.LogCaptureFixture) -> None:
    store = Stores.key_value_store_builder(Stores.persistent_key_value_store("shared"), text, text)

    class Bringing(Each):
        @staticmethod
        def stores() -> list[StoreBuilder]:
            return [store]

        def __init__(self) -> None:
            super().__init__(forwards)

    def topology(bring: bool) -> Topology:
        builder = StreamsBuilder()
        if not bring:
            builder.add_state_store(store)
        supplier: Any = Bringing if bring else lambda: Each(forwards)
        for number, topic in enumerate(("in", "other")):
            builder.stream(topic, consumed).process(
                supplier, *([] if bring else ["shared"]), named=f"processor-{number}"
            )
        return builder.build()

    made = layout(topology(bring=True), FakeAdmin(**{"in": 1, "other": 1}))
    assert sorted(map(str, made.plans)) == ["0_0", "1_0"]
    assert "bring store shared (0: processor-0; 1: processor-1)" in caplog.text
    assert "(KAFKA-20464). Add the store once" in caplog.text
    caplog.clear()
    assert list(layout(topology(bring=False), FakeAdmin(**{"in": 1, "other": 1})).plans) == [TaskId(0, 0)]
    assert not caplog.records


def test_a_repartition_topic_that_kafka_streams_made_with_too_few_partitions_is_taken_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = StreamsBuilder()
    lines = builder.stream("lines", consumed).repartition(Repartitioned("first", text, text))
    merged = lines.merge(builder.stream("others", consumed))
    merged.repartition(Repartitioned("second", text, text)).group_by_key().count(Materialized("counts"))
    topology = builder.build()
    admin = FakeAdmin(**{"lines": 3, "others": 1, "app-first-repartition": 3, "app-second-repartition": 1})
    made = layout(topology, admin)
    assert admin.created == {"app-counts-changelog": 1}
    assert [str(task_id) for task_id in made.plans if task_id.subtopology == 2] == ["2_0"]
    assert "repartition topic app-second-repartition has 1 partitions, and a topic that flows" in caplog.text
    assert "Repartitioned(name, partitions=3)" in caplog.text

    caplog.clear()
    fresh = FakeAdmin(lines=3, others=1)
    layout(topology, fresh)
    assert fresh.created["app-second-repartition"] == 3
    assert not caplog.records
