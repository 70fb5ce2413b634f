"""Which sub-topology is replayed after which, and which at all."""

from __future__ import annotations

import pytest

from streamsapp import Consumed, Grouped, Serdes, StreamsBuilder, StreamsConfig, TaskId, Topology
from streamsapp.dsl.ktable import KTable
from streamsapp.errors import TopologyError
from streamsapp.runtime.application_layout import lay_out
from streamsapp_spark.stages import Stages

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
    assert found.in_order.index(0) < found.in_order.index(1) < found.in_order.index(2)
    assert (found.upstream[2], found.upstream[3], found.downstream(0)) == (frozenset({1}), frozenset(), [1])


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
    assert set(stages(chain()).needed(finished)) == needed


def test_a_topic_that_is_written_and_read_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    builder.stream("out").foreach(lambda key, value: None)
    with pytest.raises(TopologyError, match=r"topic out is written and read by this application.*repartition\(\)"):
        stages(builder.build()).refuse_feedback()
    stages(chain()).refuse_feedback()


def test_an_application_with_a_foreign_key_join_is_refused() -> None:
    builder = StreamsBuilder()
    rows: KTable[str, str] = builder.table("table", Consumed(TEXT, TEXT))
    others: KTable[str, str] = builder.table("in", Consumed(TEXT, TEXT))
    rows.join(others, lambda row: row, lambda row, other: other)
    with pytest.raises(TopologyError, match="foreign-key join"):
        stages(builder.build()).in_order  # noqa: B018 - raises where there is no order
