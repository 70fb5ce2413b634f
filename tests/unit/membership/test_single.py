"""The membership of an application that runs as one instance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from streamsapp import TaskId, TopicPartition
from streamsapp.membership.api import Assignment, Holdings, Membership, TaskInfo
from streamsapp.membership.single import SingleMember

TASKS = frozenset({TaskId(0, 0), TaskId(0, 1)})


class FakeConsumer:
    """Remembers what was committed."""

    def __init__(self) -> None:
        self.committed: list[Mapping[TopicPartition, tuple[int, str]]] = []

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        self.committed.append(offsets)

    def group_metadata(self) -> str:
        return "no generation"


def member(consumer: FakeConsumer | None = None) -> Membership:
    return SingleMember("app", cast(Any, consumer or FakeConsumer()))


def test_all_tasks_are_assigned_once() -> None:
    it = member()
    assert it.poll() is None

    it.start(dict.fromkeys(TASKS, TaskInfo(frozenset(), stateful=True)), Holdings)

    assert it.poll() == Assignment(active=TASKS)
    assert it.poll() is None


def test_two_instances_by_mistake_fence_each_other() -> None:
    assert member().transactional_id == member().transactional_id == "app-single"


def test_offsets_are_committed_by_the_consumer_or_with_its_metadata_in_a_transaction() -> None:
    consumer = FakeConsumer()
    it = member(consumer)
    offsets = {TopicPartition("in", 0): (7, "time")}

    it.commit(offsets)

    assert consumer.committed == [offsets]
    assert it.metadata() == "no generation"
