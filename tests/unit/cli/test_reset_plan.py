"""The plan of a reset, worked out without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from streamsapp import Consumed, Materialized, StreamsBuilder
from streamsapp.cli.reset_plan import (
    InputOffsets,
    ResetPlan,
    ResetTarget,
    SnapshotsToDelete,
    internal_topics,
    new_offset,
)
from streamsapp.cli.topology_topics import topics_of
from streamsapp.errors import ManifestError
from streamsapp.record import TopicPartition

BOUNDS = InputOffsets(earliest=10, latest=100, committed=40, at_time=60)


@pytest.mark.parametrize(
    ("target", "amount", "offset"),
    [
        (ResetTarget.EARLIEST, 0, 10),
        (ResetTarget.LATEST, 0, 100),
        (ResetTarget.OFFSET, 55, 55),
        (ResetTarget.DATETIME, 0, 60),
        (ResetTarget.SHIFT, -5, 35),
        (ResetTarget.SHIFT, 5, 45),
    ],
)
def test_input_is_read_from_where_it_was_asked_for(target: ResetTarget, amount: int, offset: int) -> None:
    assert new_offset(target, BOUNDS, amount) == offset


def test_a_time_after_the_last_record_means_the_end() -> None:
    assert new_offset(ResetTarget.DATETIME, InputOffsets(earliest=0, latest=9)) == 9


def test_shifting_what_was_never_committed_starts_at_the_beginning() -> None:
    assert new_offset(ResetTarget.SHIFT, InputOffsets(earliest=3, latest=9), 2) == 5


@given(st.sampled_from(ResetTarget), st.integers(-1000, 1000))
def test_no_offset_lies_outside_of_what_the_partition_holds(target: ResetTarget, amount: int) -> None:
    assert BOUNDS.earliest <= new_offset(target, BOUNDS, amount) <= BOUNDS.latest


def test_topics_of_an_application_whose_id_starts_alike_are_left_alone() -> None:
    own = {"orders-count-changelog", "orders-by-key-repartition"}
    existing = {"orders-count-changelog", "orders-audit-count-changelog", "orders", "orders-out", "other-x-changelog"}
    delete, unsure = internal_topics("orders", own, [], existing)
    assert delete == ("orders-count-changelog",)
    assert unsure == ("orders-audit-count-changelog",)


def test_a_topic_of_an_earlier_topology_is_deleted_when_asked_for() -> None:
    delete, unsure = internal_topics("orders", [], ["orders-old-changelog"], {"orders-old-changelog"})
    assert (delete, unsure) == (("orders-old-changelog",), ())


@pytest.mark.parametrize("asked_for", ["missing", "orders-out", "other-x-changelog"])
def test_only_existing_internal_topics_can_be_asked_for(asked_for: str) -> None:
    with pytest.raises(ManifestError, match=r"^--internal-topics: "):
        internal_topics("orders", [], [asked_for], {"orders-out", "other-x-changelog"})


def test_the_plan_reads_in_the_order_in_which_it_is_carried_out() -> None:
    plan = ResetPlan(
        application_id="a",
        delete_topics=("a-s-changelog",),
        offsets={TopicPartition("in", 1): 5, TopicPartition("in", 0): 3},
        state_dir=Path("state/a"),
        unsure=("a-b-s-changelog",),
    )
    assert [line.partition(" (")[0] for line in plan.lines()] == [
        "set committed offset of in-0 to 3",
        "set committed offset of in-1 to 5",
        "delete internal topic a-s-changelog",
        "delete local state state/a",
        "left alone: a-b-s-changelog",
    ]


def test_time_markers_are_kept_and_the_plan_says_how_to_delete_them() -> None:
    builder = StreamsBuilder()
    builder.stream("in", Consumed("visits", idle_after=1000)).group_by_key().count(Materialized("counts"))
    topics = topics_of(builder.build(), "orders")
    assert topics.time_markers == {"orders-visits-time-markers-changelog"} < topics.internal
    plan = ResetPlan("orders", (), {}, None, kept=tuple(topics.time_markers))
    (line,) = plan.lines()
    assert line.startswith(
        "keep time markers orders-visits-time-markers-changelog (delete them with --internal-topics "
    )


def test_snapshots_go_before_what_could_come_back_from_them() -> None:
    snapshots = SnapshotsToDelete("s3://bucket/prefix/orders", ("orders/0_0/manifests/1", "orders/0_1/files/x"), 2)
    plan = ResetPlan("orders", ("orders-counts-changelog",), {}, None, snapshots)

    assert list(plan.lines()) == [
        "delete snapshots in s3://bucket/prefix/orders: 2 objects of 2 tasks",
        "delete internal topic orders-counts-changelog",
    ]


def test_programs_are_told_the_whole_plan() -> None:
    plan = ResetPlan(
        application_id="orders",
        delete_topics=("orders-counts-changelog",),
        offsets={TopicPartition("in", 1): 7, TopicPartition("in", 0): 3},
        state_dir=Path("/state/orders"),
        snapshots=SnapshotsToDelete("s3://b/orders", ("a", "b"), 1),
        unsure=("orders-x-changelog",),
    )
    assert plan.as_data() == {
        "applicationId": "orders",
        "snapshots": {"where": "s3://b/orders", "objects": 2, "tasks": 1, "objectsOfTables": 0},
        "deleteTopics": ["orders-counts-changelog"],
        "offsets": [
            {"topic": "in", "partition": 0, "offset": 3},
            {"topic": "in", "partition": 1, "offset": 7},
        ],
        "stateDir": "/state/orders",
        "leftAlone": ["orders-x-changelog"],
        "kept": [],
    }
    empty = ResetPlan("orders", (), {}, None).as_data()
    assert (empty["snapshots"], empty["stateDir"], empty["offsets"]) == (None, None, [])
