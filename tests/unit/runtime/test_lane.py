"""A lane begins only where its tasks stand as the group does. Producer and broker are simulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamsapp.clock import SystemClock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.record import TaskId, TopicPartition
from streamsapp.runtime.micro_batches import lane as lane_module
from streamsapp.runtime.micro_batches.lane import Lane, MovedOnError
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.task_plan import ConsumedOffset

INPUT = TopicPartition("in", 0)
TASK = cast(Any, SimpleNamespace(id=TaskId(0, 0), topics={}, plan=SimpleNamespace(inputs={INPUT: None})))


class Producer:
    """Takes what a lane announces."""

    def __init__(self, *_: object, **__: object) -> None:
        self.announced: dict[TopicPartition, tuple[int, str]] = {}

    def start(self) -> None:
        pass

    def announce(self, offsets: dict[TopicPartition, tuple[int, str]], group: object) -> None:
        self.announced = offsets


def _lane(monkeypatch: pytest.MonkeyPatch, in_group: dict[TopicPartition, tuple[int, str]]) -> Lane:
    monkeypatch.setattr(lane_module, "ExactlyOnceProducer", Producer)
    layout = cast(Any, SimpleNamespace(dead_letters=DeadLetters(None), repartition_topics=frozenset()))
    inputs = cast(Any, SimpleNamespace(committed=lambda partitions: in_group, confirm=lambda: lambda: True))
    return Lane(
        0,
        StreamsConfig(application_id="app", bootstrap_servers="localhost:1"),
        layout,
        inputs,
        SystemClock(),
    )


def test_a_lane_begins_at_an_offset_that_a_tool_has_committed_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = _lane(monkeypatch, {INPUT: (7, "")})
    lane.committed = {INPUT: (7, ConsumedOffset.committed(7, "").metadata)}
    lane.begin([TASK], {INPUT: 7})
    assert lane._producer.announced[INPUT][0] == 7  # type: ignore[attr-defined]


def test_a_lane_begins_where_a_snapshot_stands_as_long_as_the_group_stands_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_group: dict[TopicPartition, tuple[int, str]] = {}
    lane = _lane(monkeypatch, in_group)
    lane.adopted = {INPUT: (7, "")}
    lane.begin([TASK], {INPUT: 0})
    assert lane._producer.announced == {INPUT: (7, "")}  # type: ignore[attr-defined]
    in_group[INPUT] = (8, "")
    with pytest.raises(MovedOnError):
        lane.begin([TASK], {INPUT: 0})


def test_a_lane_goes_on_where_an_input_had_no_record_beside_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a stretch of aborted records: the batch passes them over and commits the offset before them."""
    other = TopicPartition("other", 0)
    in_group: dict[TopicPartition, tuple[int, str]] = {}
    lane = _lane(monkeypatch, in_group)
    monkeypatch.setattr(lane_module, "Commit", lambda *_: SimpleNamespace(advance=lambda: True))
    epoch = SimpleNamespace(offsets={other: ConsumedOffset(5, 0)})
    task = cast(
        Any,
        SimpleNamespace(
            id=TaskId(0, 0),
            topics={},
            plan=SimpleNamespace(inputs={INPUT: None, other: None}),
            emit_all_held=lambda: None,
            has_output=False,
            freeze=lambda: epoch,
        ),
    )
    lane.begin([task], {INPUT: 0, other: 0})
    lane.commit([task])
    in_group |= {INPUT: (0, ""), other: (5, "")}
    lane.begin([task], {INPUT: 20, other: 5})
    announced: dict[TopicPartition, tuple[int, str]] = lane._producer.announced  # type: ignore[attr-defined]
    assert {each: offset for each, (offset, _) in announced.items()} == {INPUT: 0, other: 5}


@pytest.mark.parametrize("found", [{}, {INPUT: (8, "")}])
def test_a_lane_does_not_begin_where_the_group_has_moved_on(
    monkeypatch: pytest.MonkeyPatch, found: dict[TopicPartition, tuple[int, str]]
) -> None:
    lane = _lane(monkeypatch, found)
    lane.committed = {INPUT: (7, ConsumedOffset.committed(7, "").metadata)}
    with pytest.raises(MovedOnError):
        lane.begin([TASK], {INPUT: 7})
