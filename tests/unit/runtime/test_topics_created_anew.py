"""A task goes on in its inputs by the topics that its positions belong to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamsapp import TopicPartition
from streamsapp.errors import TopicError
from streamsapp.record import UNKNOWN_TOPIC, TopicIdentity
from streamsapp.runtime.topics_created_anew import offsets_of_others, settle_inputs
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import ConsumedOffset
from streamsapp.topology.nodes import RepartitionTopic
from task_parts import task_of, through

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
FIRST, SECOND = TopicIdentity("AAAAAAAAAAAAAAAAAAAAAQ", "here"), TopicIdentity("AAAAAAAAAAAAAAAAAAAAAg", "here")


def task() -> StreamTask:
    made = task_of(through(topics=("a", "b")))
    made.topics = {"a": SECOND, "b": SECOND}
    return made


def settled(task: StreamTask, at: ConsumedOffset) -> ConsumedOffset | None:
    return settle_inputs(task, {A: at}, lambda partition: 3).get(A)


@pytest.mark.parametrize("in_group", [True, False])
@pytest.mark.parametrize("before", [SECOND, UNKNOWN_TOPIC, SECOND._replace(cluster_id="elsewhere")])
def test_a_position_in_the_topic_that_there_is_stays(before: TopicIdentity, in_group: bool) -> None:
    at = ConsumedOffset(7, 50, topic=before, in_group=in_group)
    assert settled(task(), at) == at


@pytest.mark.parametrize("in_group", [True, False])
def test_a_topic_that_was_created_anew_is_read_from_its_beginning_and_time_goes_on(
    in_group: bool, caplog: pytest.LogCaptureFixture
) -> None:
    at = ConsumedOffset(7, 50, {"kept": 1}, FIRST, in_group)

    assert settled(task(), at) == ConsumedOffset(3, 50, {"kept": 1}, SECOND)
    assert "topic a was deleted and created again (topic id AAAAAAAAAAAAAAAAAAAAAQ" in caplog.text


def test_an_offset_that_a_mirror_has_translated_is_used_and_a_snapshot_of_another_cluster_is_not() -> None:
    at = ConsumedOffset(7, 50, topic=FIRST._replace(cluster_id="elsewhere"))

    assert settled(task(), at) == at
    assert settled(task(), replace(at, in_group=False)) is None


def test_lost_records_of_a_repartition_topic_keep_an_active_task_from_starting() -> None:
    it = task()
    it.plan = replace(it.plan, sub_topology=replace(it.plan.sub_topology, repartition_sources=(RepartitionTopic("a"),)))
    at = ConsumedOffset(7, 50, topic=FIRST)

    with pytest.raises(TopicError, match="repartition topic a was deleted and created again"):
        settled(it, at)
    it.role = TaskRole.STANDBY
    assert settled(it, at) is not None


def test_committed_offsets_of_topics_that_were_created_anew_are_found() -> None:
    elsewhere = FIRST._replace(cluster_id="elsewhere")
    committed = {
        A: (7, ConsumedOffset(7, 50, topic=FIRST).metadata),
        B: (7, ConsumedOffset(7, 50, topic=elsewhere).metadata),
        TopicPartition("c", 0): (7, ""),
    }
    assert offsets_of_others(committed, {"a": SECOND, "b": SECOND, "c": SECOND}) == [A]
