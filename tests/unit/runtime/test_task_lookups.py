"""Tasks come and go on the restoration thread while brokers are asked where other tasks begin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from restoring import Restoring, keys
from streamsapp import TaskId, TopicPartition
from streamsapp.errors import StreamsError
from streamsapp.runtime import restoration
from streamsapp.runtime.task_lookups import LookupAnswers, TaskLookups
from streamsapp.tasks.states import TaskRole, TaskState
from streamsapp.testing import MockClock

S, OTHER = TopicPartition("app-s-changelog", 0), TopicPartition("app-s-changelog", 1)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoration, "WORK_WAIT", 0)


@pytest.fixture
def it(tmp_path: Path) -> Restoring:
    made = Restoring(tmp_path)
    made.log(S, 0)
    made.log(OTHER, 0, 1)
    return made


def held_back(it: Restoring) -> Callable[[], None]:
    """The look-up of the tasks that have just been handed over; the next ones are made at once."""
    it.lookups = []
    it.thread._pass()
    (waiting,) = it.lookups
    it.lookups = None
    return waiting


def test_a_task_is_restored_while_a_broker_takes_long_to_say_where_another_begins(it: Restoring) -> None:
    first, second = it.task(0), it.task(1)
    it.thread.add(first)
    answer = held_back(it)

    it.restore(second)
    it.passes()
    assert it.restored == [TaskId(0, 1)]

    answer()
    it.passes(3)
    assert it.restored == [TaskId(0, 0)]
    assert keys(first) == ["0"]


def test_the_answer_for_a_task_that_is_gone_is_not_waited_for_and_does_nothing(it: Restoring) -> None:
    gone = it.task()
    it.thread.add(gone)
    answer = held_back(it)
    it.thread.close([gone])
    again = it.task()

    it.restore(again)
    it.passes()
    assert it.restored == [TaskId(0, 0)]

    answer()
    it.passes(2)
    assert it.restored == []
    assert it.failed == []
    assert (gone.state, gone.start_offsets, gone.changelog_positions) == (TaskState.CLOSED, {}, {})


def test_a_replica_that_is_promoted_while_it_is_asked_for_is_asked_for_anew(it: Restoring) -> None:
    replica = it.task(role=TaskRole.STANDBY)
    it.thread.add(replica)
    answer = held_back(it)
    active = replica.recycled(TaskRole.ACTIVE)
    it.thread.promote(active)

    it.passes()
    answer()
    it.passes(3)

    assert it.restored == [TaskId(0, 0)]
    assert keys(active) == ["0"]


def test_a_failed_look_up_concerns_the_tasks_that_it_was_for(it: Restoring, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = it.task(0), it.task(1)
    it.thread.add(first)
    answer = held_back(it)
    it.restore(second)

    def refuse(names: object) -> None:
        raise StreamsError("the brokers do not report the ids")

    monkeypatch.setattr(it.consumer, "topics", refuse)
    answer()
    it.passes(2)

    assert it.restored == [TaskId(0, 1)]
    assert it.failed == [(None, "the brokers do not report the ids")]
    assert it.thread.take_dropped() == [first]


def test_tasks_that_arrive_while_many_look_ups_are_under_way_share_the_next_one(it: Restoring) -> None:
    it.lookups = []
    for number in range(restoration.MOST_ROUNDS + 3):
        it.log(TopicPartition("app-s-changelog", number), 0)
        it.thread.add(it.task(number))
        it.thread._pass()
    waiting, it.lookups = it.lookups, []
    assert len(waiting) == restoration.MOST_ROUNDS

    it.lookups = None
    waiting[0]()
    it.passes(3)
    assert sorted(it.restored) == [TaskId(0, number) for number in (0, 4, 5, 6)]


def test_all_of_a_round_is_asked_at_the_same_time(it: Restoring) -> None:
    """None of the three questions is answered before all are asked."""
    together = threading.Barrier(3, timeout=60)

    class Slow:
        def topics(self, names: object) -> dict[str, object]:
            together.wait()
            return {}

        def committed(self, partitions: object) -> dict[TopicPartition, tuple[int, str]]:
            together.wait()
            return {}

        def ends(self, partitions: object) -> None:
            together.wait()
            raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))

    told: list[LookupAnswers | Exception] = []
    done = threading.Event()
    slow = cast(Any, Slow())
    task = it.task()

    def answered(found: LookupAnswers | Exception) -> None:
        told.append(found)
        done.set()

    TaskLookups(slow, slow, MockClock(7)).begin([task], answered)

    assert done.wait(60)
    (found,) = told
    assert isinstance(found, LookupAnswers)
    assert isinstance(found.ends[task.id], KafkaException)
    assert found.asked_at_ms == 7
