"""Partition counts, partition groups, and the internal topics an application needs."""

from __future__ import annotations

import pytest

from streamsapp.errors import TopicError, TopologyError
from streamsapp.processor.api import Processor
from streamsapp.record import Record, TaskId, TopicPartition
from streamsapp.state.api import StoreBuilder
from streamsapp.state.kinds.key_value import KEY_VALUE, TIMESTAMPED_KEY_VALUE
from streamsapp.state.kinds.session import SessionType
from streamsapp.state.kinds.store_type import StoreType
from streamsapp.state.kinds.versioned import VersionedType
from streamsapp.state.kinds.window import WindowType
from streamsapp.topology.builder import Topology
from streamsapp.topology.internal_topics import InternalTopic, InternalTopicKind, internal_topics, missing_topics
from streamsapp.topology.partition_grouper import group_by_partition
from streamsapp.topology.partitioning import fewer_than_upstream, partition_counts, source_topics

APP = "app"


class Idle(Processor):
    def process(self, record: Record) -> None:
        pass


def counts(topology: Topology, **existing: int) -> dict[str, int]:
    return partition_counts(topology.sub_topologies(existing), APP, existing)


def hop(topology: Topology, source: str, internal: str, partitions: int | None = None) -> Topology:
    """Repartitions what ``source`` reads into ``internal``, which the source ``from-<internal>`` reads."""
    topology.add_internal_topic(internal, partitions).add_sink(f"to-{internal}", internal, source)
    return topology.add_source(f"from-{internal}", internal)


def test_a_repartition_topic_gets_the_largest_count_upstream_along_a_chain() -> None:
    topology = Topology().add_source("in", "a", "b")
    hop(hop(topology, "in", "x"), "from-x", "y")
    assert counts(topology, a=2, b=5) == {"a": 2, "b": 5, "app-x": 5, "app-y": 5}


def test_a_chain_is_followed_whatever_the_order_of_adding() -> None:
    topology = Topology().add_internal_topic("x").add_internal_topic("y")
    topology.add_source("from-y", "y").add_source("from-x", "x").add_sink("to-y", "y", "from-x")
    topology.add_source("in", "a").add_sink("to-x", "x", "in")
    assert counts(topology, a=3) == {"a": 3, "app-x": 3, "app-y": 3}


def test_a_declared_count_wins_and_counts_downstream() -> None:
    topology = Topology().add_source("in", "a")
    hop(hop(topology, "in", "x", 7), "from-x", "y")
    assert counts(topology, a=2) == {"a": 2, "app-x": 7, "app-y": 7}


def test_a_loop_of_repartition_topics_goes_by_what_enters_it() -> None:
    topology = Topology().add_internal_topic("x").add_internal_topic("y").add_source("in", "a", "x")
    topology.add_sink("to-y", "y", "in").add_source("from-y", "y").add_sink("to-x", "x", "from-y")
    assert counts(topology, a=4) == {"a": 4, "app-x": 4, "app-y": 4}


def test_a_joined_repartition_topic_takes_the_count_of_the_topic_it_is_joined_with() -> None:
    topology = hop(Topology().add_source("in", "a"), "in", "x").add_source("table", "t")
    topology.add_processor("join", Idle, "from-x", "table").copartition_sources(["from-x", "table"])
    assert counts(topology, a=8, t=3)["app-x"] == 3


def test_joined_repartition_topics_take_the_largest_or_the_declared_count() -> None:
    def joined(left: int | None) -> Topology:
        topology = hop(Topology().add_source("one", "a"), "one", "x", left).add_source("two", "b")
        hop(topology, "two", "y").add_processor("join", Idle, "from-x", "from-y")
        return topology.copartition_sources(["from-x", "from-y"])

    assert counts(joined(None), a=2, b=6) == {"a": 2, "b": 6, "app-x": 6, "app-y": 6}
    assert counts(joined(3), a=2, b=6) == {"a": 2, "b": 6, "app-x": 3, "app-y": 3}


def test_joined_topics_with_different_counts_are_refused_with_topics_and_counts() -> None:
    topology = Topology().add_source("one", "a").add_source("two", "b").add_processor("join", Idle, "one", "two")
    topology.copartition_sources(["one", "two"])
    with pytest.raises(TopicError, match=r"not co-partitioned \(a: 2, b: 3\)"):
        counts(topology, a=2, b=3)
    assert counts(topology, a=3, b=3) == {"a": 3, "b": 3}


def test_a_declared_count_that_does_not_fit_the_joined_topic_is_refused() -> None:
    topology = hop(Topology().add_source("in", "a"), "in", "x", 5).add_source("table", "t")
    topology.add_processor("join", Idle, "from-x", "table").copartition_sources(["from-x", "table"])
    with pytest.raises(TopicError, match=r"not co-partitioned \(app-x: 5, t: 3\)"):
        counts(topology, a=5, t=3)


def test_missing_source_topics_are_named() -> None:
    topology = Topology().add_source("one", "b", "a", "c")
    with pytest.raises(TopicError, match="source topics are missing: a, b; create them"):
        counts(topology, c=1)


def test_a_repartition_topic_behind_a_pattern_without_topics_has_no_partitions_yet() -> None:
    topology = hop(Topology().add_source("in", pattern="orders-.*"), "in", "x")
    assert counts(topology, other=1) == {"app-x": 0}
    assert needed(topology, other=1) == ()


def test_a_repartition_topic_behind_a_pattern_keeps_its_partitions_when_larger_topics_match() -> None:
    topology = hop(Topology().add_source("in", pattern="orders-.*"), "in", "x")
    subs = topology.sub_topologies({"orders-a": 1, "orders-b": 5})

    assert partition_counts(subs, APP, {"orders-a": 1, "orders-b": 5})["app-x"] == 5
    assert partition_counts(subs, APP, {"orders-a": 1, "orders-b": 5}, {"app-x": 2})["app-x"] == 2
    named = hop(Topology().add_source("in", "orders-a", "orders-b"), "in", "x").sub_topologies()
    assert partition_counts(named, APP, {"orders-a": 1, "orders-b": 5}, {"app-x": 2})["app-x"] == 5


def merged_behind_a_topic() -> Topology:
    """A repartition topic and another topic flow into the repartition topic "y" together."""
    topology = hop(Topology().add_source("one", "a"), "one", "x").add_source("two", "b")
    topology.add_internal_topic("y").add_processor("merge", Idle, "two", "from-x")
    return topology.add_sink("to-y", "y", "merge").add_source("from-y", "y")


def test_a_topic_that_kafka_streams_made_with_too_few_partitions_where_streams_meet_keeps_them() -> None:
    subs, existing = merged_behind_a_topic().sub_topologies(), {"a": 3, "b": 1}

    assert partition_counts(subs, APP, existing)["app-y"] == 3
    counted = partition_counts(subs, APP, existing, {"app-x": 3, "app-y": 1})
    assert counted == {"a": 3, "b": 1, "app-x": 3, "app-y": 1}
    assert fewer_than_upstream(subs, APP, counted) == {"app-y": (1, 3)}
    assert fewer_than_upstream(subs, APP, partition_counts(subs, APP, existing)) == {}


@pytest.mark.parametrize(("there", "needed"), [(2, 3), (5, 3)])
def test_a_topic_with_partitions_that_kafka_streams_would_not_have_made_is_not_taken_for_one(
    there: int, needed: int
) -> None:
    subs = merged_behind_a_topic().sub_topologies()
    assert partition_counts(subs, APP, {"a": 3, "b": 1}, {"app-x": 3, "app-y": there})["app-y"] == needed


def test_a_topic_behind_topics_that_the_broker_knows_never_has_too_few_partitions() -> None:
    subs = hop(Topology().add_source("in", "a", "b"), "in", "x").sub_topologies()
    assert partition_counts(subs, APP, {"a": 3, "b": 1}, {"app-x": 1})["app-x"] == 3


def test_a_declared_topic_with_few_partitions_is_as_it_was_meant() -> None:
    subs = hop(Topology().add_source("in", "a"), "in", "x", 1).sub_topologies()
    assert fewer_than_upstream(subs, APP, partition_counts(subs, APP, {"a": 3})) == {}


def test_a_task_exists_for_every_partition_number_of_the_largest_topic() -> None:
    groups = group_by_partition(
        {0: frozenset({"a", "b"}), 2: frozenset({"c"}), 3: frozenset()}, {"a": 2, "b": 1, "c": 1}
    )
    assert groups == {
        TaskId(0, 0): frozenset({TopicPartition("a", 0), TopicPartition("b", 0)}),
        TaskId(0, 1): frozenset({TopicPartition("a", 1)}),
        TaskId(2, 0): frozenset({TopicPartition("c", 0)}),
    }


def needed(topology: Topology, overrides: dict[str, str] | None = None, **existing: int) -> tuple[InternalTopic, ...]:
    subs = topology.sub_topologies(existing)
    partitions = partition_counts(subs, APP, existing)
    tasks = group_by_partition(source_topics(subs, APP), partitions)
    return internal_topics(subs, APP, partitions, tasks, overrides)


def counting(store: StoreBuilder) -> Topology:
    topology = hop(Topology().add_source("in", "a"), "in", "counts-repartition")
    return topology.add_processor("count", Idle, "from-counts-repartition").add_state_store(store, "count")


def test_internal_topics_have_the_names_partitions_and_settings_of_kafka_streams() -> None:
    store = StoreBuilder("counts", TIMESTAMPED_KEY_VALUE)
    assert needed(counting(store), a=3) == (
        InternalTopic(
            name="app-counts-repartition",
            kind=InternalTopicKind.REPARTITION,
            partitions=3,
            config={
                "cleanup.policy": "delete",
                "message.timestamp.type": "CreateTime",
                "retention.ms": "-1",
                "segment.bytes": "52428800",
            },
        ),
        InternalTopic(
            name="app-counts-changelog",
            kind=InternalTopicKind.CHANGELOG,
            partitions=3,
            config={"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"},
        ),
    )


def test_configured_settings_win_over_the_librarys_and_a_stores_own_over_both() -> None:
    store = StoreBuilder("counts", KEY_VALUE, log_config={"segment.bytes": "2", "max.message.bytes": "9"})
    repartition, changelog = needed(counting(store), {"segment.bytes": "1", "retention.ms": "5"}, a=1)
    assert repartition.config["segment.bytes"] == "1"
    assert repartition.config["retention.ms"] == "5"
    assert changelog.config == {
        "cleanup.policy": "compact",
        "max.message.bytes": "9",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "5",
        "segment.bytes": "2",
    }


@pytest.mark.parametrize(
    ("kind", "setting"),
    [
        (WindowType(1000, 100), "retention.ms"),
        (SessionType(1000), "retention.ms"),
        (VersionedType(1000), "min.compaction.lag.ms"),
    ],
)
def test_settings_that_are_meant_for_all_topics_let_no_changelog_forget_what_its_store_keeps(
    kind: StoreType, setting: str
) -> None:
    overrides = {"retention.ms": "5", "min.compaction.lag.ms": "6"}
    _, changelog = needed(counting(StoreBuilder("kept", kind)), overrides, a=1)
    assert changelog.config[setting] == str(1000 + 24 * 60 * 60 * 1000)

    _, changelog = needed(counting(StoreBuilder("kept", kind)), {setting: "1000000000"}, a=1)
    assert changelog.config[setting] == "1000000000"

    _, changelog = needed(counting(StoreBuilder("kept", kind)), {"retention.ms": "-1"}, a=1)
    assert changelog.config["retention.ms"] == "-1"

    _, changelog = needed(counting(StoreBuilder("kept", kind, log_config={setting: "7"})), overrides, a=1)
    assert changelog.config[setting] == "7"


@pytest.mark.parametrize("kind", [KEY_VALUE, WindowType(1000, 100), VersionedType(1000)])
def test_settings_that_are_meant_for_all_topics_make_the_broker_delete_from_no_changelog(kind: StoreType) -> None:
    overrides = {"cleanup.policy": "delete", "retention.bytes": "1000", "segment.ms": "5"}
    repartition, changelog = needed(counting(StoreBuilder("kept", kind)), overrides, a=1)
    assert repartition.config["retention.bytes"] == "1000"
    assert changelog.config["cleanup.policy"] == kind.changelog_settings.get("cleanup.policy", "compact")
    assert "retention.bytes" not in changelog.config
    assert changelog.config["segment.ms"] == "5"

    own = {"cleanup.policy": "delete", "retention.bytes": "1000"}
    _, changelog = needed(counting(StoreBuilder("kept", kind, log_config=own)), a=1)
    assert own.items() <= changelog.config.items()


def test_a_store_without_logging_or_with_a_source_topic_as_changelog_gets_no_topic() -> None:
    unlogged = counting(StoreBuilder("counts", KEY_VALUE, logging=False))
    assert [topic.kind for topic in needed(unlogged, a=1)] == [InternalTopicKind.REPARTITION]
    table = Topology().add_source("in", "a").add_processor("table", Idle, "in")
    table.add_state_store(StoreBuilder("rows", KEY_VALUE), "table").connect_source_store_and_topic("rows", "a")
    assert needed(table, a=1) == ()


def test_a_sub_topology_without_tasks_needs_no_changelog() -> None:
    topology = Topology().add_source("in", pattern="orders-.*").add_processor("count", Idle, "in")
    topology.add_state_store(StoreBuilder("counts", KEY_VALUE), "count")
    assert needed(topology, other=1) == ()


@pytest.mark.parametrize("name", ["my counts", "a/b", "x" * 240])
def test_a_store_whose_changelog_could_not_be_created_is_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="cannot be created: stores and repartitions that get a topic"):
        needed(counting(StoreBuilder(name, KEY_VALUE)), a=1)


def test_only_missing_internal_topics_are_created_and_wrong_counts_are_refused() -> None:
    topics = needed(counting(StoreBuilder("counts", KEY_VALUE)), a=3)
    assert missing_topics(topics, {"app-counts-changelog": 3}) == topics[:1]
    with pytest.raises(TopicError, match="internal topic app-counts-changelog has 2 partitions and needs 3"):
        missing_topics(topics, {"app-counts-changelog": 2})
