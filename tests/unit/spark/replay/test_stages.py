"""Which sub-topology is replayed after which, and which at all."""

from __future__ import annotations

import pytest

from streamsapp import Consumed, Grouped, Serdes, StreamsBuilder, StreamsConfig, TaskId, Topology
from streamsapp.dsl.ktable import KTable
from streamsapp.errors import TopologyError
from streamsapp.runtime.application_layout import lay_out
from streamsapp_spark.replay.stages import Stages

TEXT = Serdes.string()
CONFIG = StreamsConfig(application_id="app", bootstrap_servers="none:9092")


def stages(topology: Topology) -> Stages:
    layout, _ = lay_out(topology, CONFIG, {"in": 2, "table": 2, "out": 2}, str)
    return Stages(layout)


def chain() -> Topology:
    """0 → 1 → 2, and 3 for itself."""
    builder = StreamsBuilder()
    serdes = Grouped(key_serde=TEXT, value_serde=TEXT)
    first = builder.stream("in", Consumed(TEXT, TEXT)).group_by(lambda key, value: value, serdes)
    second = first.reduce(max).to_stream().group_by(lambda key, value: key, serdes)
    second.count()
    builder.table("table", Consumed(TEXT, TEXT))
    return builder.build()


def tasks(*parts: int) -> set[TaskId]:
    return {TaskId(part, partition) for part in parts for partition in range(2)}


def test_writers_come_before_readers() -> None:
    found = stages(chain())
    assert found.in_order.index((0,)) < found.in_order.index((1,)) < found.in_order.index((2,))
    assert (found.writers((2,)), found.writers((3,)), found.readers((0,))) == ([(1,)], [], [(1,)])
    assert found.groups((1,)) == [(TaskId(1, 0),), (TaskId(1, 1),)]


@pytest.mark.parametrize(
    ("finished", "needed"),
    [
        (tasks(), {0, 1, 2, 3}),
        (tasks(0, 1), {0, 1, 2, 3}),
        (tasks(0, 1, 2), {3}),
        (tasks(0, 1, 3) | {TaskId(2, 0)}, {0, 1, 2}),
        (tasks(1, 2, 3), {0}),
        (tasks(0, 1, 2, 3), set()),
    ],
)
def test_what_is_finished_is_replayed_only_for_those_that_read_it(finished: set[TaskId], needed: set[int]) -> None:
    assert {number for stage in stages(chain()).needed(finished) for number in stage} == needed


def test_a_topic_that_is_written_and_read_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    builder.stream("out").foreach(lambda key, value: None)
    with pytest.raises(TopologyError, match=r"topic out is written and read by this application.*repartition\(\)"):
        stages(builder.build()).refuse_feedback()
    stages(chain()).refuse_feedback()


def foreign_key_join() -> Topology:
    """0 → 1 ⇄ 2 → 3: rows that are counted before, and results that are counted by key."""
    builder = StreamsBuilder()
    serdes = Grouped(key_serde=TEXT, value_serde=TEXT)
    rows = builder.stream("table", Consumed(TEXT, TEXT)).group_by(lambda key, value: value, serdes).reduce(max)
    others: KTable[str, str] = builder.table("in", Consumed(TEXT, TEXT))
    joined = rows.join(others, lambda row: row, lambda row, other: other)
    joined.to_stream().group_by(lambda key, value: value, serdes).count()
    return builder.build()


def test_sub_topologies_that_read_each_others_internal_topics_are_one_stage() -> None:
    found = stages(foreign_key_join())
    first, loop, last = found.in_order
    assert sorted(map(len, (first, loop, last))) == [1, 1, 2]
    assert found.above(loop[0]) == found.above(loop[1]) == {*first, *loop}
    assert (found.writers(loop), found.readers(loop), found.readers(first)) == ([first], [last], [loop])
    # One Spark task has the tasks of both sides, and of all partitions.
    (group,) = found.groups(loop)
    assert set(group) == tasks(*loop)
    assert all(found.group(each) == group for each in group)
    kinds = ("SUBSCRIPTION-REGISTRATION", "SUBSCRIPTION-RESPONSE")
    assert {kind for kind in kinds for each in found.looped(group) if kind in each.topic} == set(kinds)
    assert set(found.looped(group).values()) == set(group)
    (onward,) = found.onward(group)
    assert onward.endswith("-repartition")
    # If one task is not finished, all are replayed, and the tasks that write for them.
    assert found.needed(tasks(*first, *last) | set(group[1:])) == [first, loop]
    assert found.needed(tasks(*first, *loop)) == [first, loop, last]
    assert found.needed(tasks(*first, *loop, *last)) == []
