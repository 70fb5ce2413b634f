"""An instance after a failure: who is asked, which tasks start again, when, and with which producer."""

from __future__ import annotations

from typing import Any, cast

import pytest

from lifecycle_parts import REPLACE, SHUT_DOWN, FakeProducer, Life
from streamsapp import ClientState, TopicPartition
from streamsapp.errors import (
    ConfigError,
    FencedError,
    ProcessingError,
    ReplicaLostError,
    StateOutOfReachError,
    StateStoreError,
    StreamsError,
    TaskCorruptedError,
    TopicError,
)
from streamsapp.runtime import streams_producer
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.application_topics import PURGE_PERIOD
from streamsapp.tasks.states import TaskRole


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_producer, "AtLeastOnceProducer", FakeProducer)
    monkeypatch.setattr(streams_producer, "ExactlyOnceProducer", FakeProducer)


def test_at_least_once_only_the_failed_task_starts_again() -> None:
    it = Life()
    producer = it.producer.client

    it.fail(ProcessingError("boom"))
    assert it.life.may_commit
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_1"]
    assert it.producer.client is producer


def test_under_exactly_once_all_tasks_start_again_with_a_new_producer() -> None:
    it = Life(guarantee="exactly_once")
    old = cast(FakeProducer, it.producer.client)
    it.collector.add([("out", b"of the lost transaction", None, -1, None, None, 0, None)], epoch=0)

    it.fail(ProcessingError("boom"))
    assert not it.life.may_commit, "the failed task's output may be in the transaction"
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_0", "0_1"]
    assert old.closed
    new = cast(FakeProducer, it.producer.client)
    assert new is not old
    assert new.started
    assert len(it.collector) == 0
    assert it.life.may_commit
    assert it.tasks.take(0) is not None, "processing goes on"


def test_nothing_is_revived_while_a_commit_is_under_way() -> None:
    it = Life()
    it.fail(ProcessingError("boom"))

    it.life.advance(committing=True)
    assert it.owned.revived == []

    it.life.advance(committing=False)
    it.life.advance(committing=False)
    assert it.owned.revived == ["0_1"]


def test_a_lost_transaction_revives_all_tasks_without_asking_anybody() -> None:
    it = Life(guarantee="exactly_once")

    it.life.abort(StreamsError("lost"))
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_0", "0_1"]
    assert it.asked == []
    assert cast(Any, it.producer.client).reports  # if the reason was a record, it will be named


def test_a_failure_of_a_thread_without_a_task_revives_all_tasks() -> None:
    it = Life()

    it.fail(StreamsError("polling"), in_task=False)
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_0", "0_1"]


@pytest.mark.parametrize(
    ("guarantee", "revived"),
    [("at_least_once", ["0_1 wiped"]), ("exactly_once", ["0_1 wiped", "0_0", "0_1"])],
)
def test_a_corrupted_task_is_wiped_without_asking_and_takes_its_transaction_with_it(
    guarantee: str, revived: list[str]
) -> None:
    it = Life(SHUT_DOWN, guarantee)

    it.fail(TaskCorruptedError("damaged"))
    it.life.advance(committing=True)
    assert it.owned.revived == []
    it.life.advance(committing=False)

    assert it.owned.revived == revived
    assert it.asked == []


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (TaskCorruptedError("damaged"), ["damaged"]),
        (ReplicaLostError("it failed meanwhile"), []),
        (StateOutOfReachError("the object store is away"), []),
    ],
)
def test_the_disk_is_to_blame_for_damage_and_for_nothing_else(error: TaskCorruptedError, told: list[str]) -> None:
    it = Life(SHUT_DOWN, "at_least_once")

    it.fail(error)
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_1 wiped"]
    assert [text for _, text in it.restoration.told_damaged] == told


def test_the_handlers_answer_ends_the_instance_with_the_error() -> None:
    it = Life(SHUT_DOWN)
    error = ProcessingError("boom")

    it.fail(error)

    assert it.asked == [error]
    assert it.life.ended
    assert it.life.error is error
    assert it.state.state is ClientState.PENDING_ERROR
    assert it.owned.revived == []


def test_the_first_error_is_the_one_that_ended_the_instance() -> None:
    it = Life(SHUT_DOWN)
    first = ProcessingError("first")

    it.fail(first)
    it.fail(ProcessingError("second"))

    assert it.life.error is first


@pytest.mark.parametrize("error", [TopicError("gone"), ConfigError("wrong"), FencedError("taken over"), SystemExit()])
def test_what_would_only_fail_again_ends_the_instance_without_asking(error: BaseException) -> None:
    it = Life(REPLACE)

    it.fail(error)

    assert it.life.ended
    assert it.asked == []


def test_a_handler_that_raises_ends_the_instance() -> None:
    it = Life(RuntimeError("the handler is broken"))

    it.fail(ProcessingError("boom"))

    assert it.life.ended
    assert isinstance(it.life.error, ProcessingError)


def test_a_paused_application_stays_paused_when_its_tasks_are_revived() -> None:
    it = Life(guarantee="exactly_once")
    it.tasks.pause()

    it.fail(ProcessingError("boom"))
    it.life.advance(committing=False)

    assert it.owned.revived == ["0_0", "0_1"]
    assert it.tasks.take(0) is None


def test_consumed_records_of_repartition_topics_are_deleted_now_and_then() -> None:
    it = Life()
    it.life.layout = ApplicationLayout(plans={}, sources={}, repartition_topics=frozenset({"in"}))
    for task in it.owned.all.values():
        task._committed[TopicPartition("in", task.id.partition)] = 7
        task._committed[TopicPartition("users", task.id.partition)] = 9

    it.life.committed(now=0.0)
    it.life.committed(now=PURGE_PERIOD - 1)
    assert it.admin.deleted == [{TopicPartition("in", 0): 7, TopicPartition("in", 1): 7}]

    it.life.committed(now=PURGE_PERIOD)
    assert len(it.admin.deleted) == 2


def test_the_others_get_the_tasks_without_waiting_for_rocksdb() -> None:
    it = Life()

    it.life.close(None, leave_group=True)

    assert it.membership.asked == ["last snapshots", "close", "leave", "wait until closed"]
    assert it.life.error is None


def test_stores_are_waited_for_also_when_leaving_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    it = Life()

    def fail(*, stay: bool) -> None:
        raise OSError("no route")

    monkeypatch.setattr(it.membership, "leave", fail)

    with pytest.raises(OSError, match="no route"):
        it.life.close(None, leave_group=True)

    assert it.membership.asked[-1] == "wait until closed"


def test_an_instance_whose_stores_could_not_be_closed_leaves_all_the_same_and_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = Life()

    def fail() -> None:
        raise StateStoreError("the disk is full")

    monkeypatch.setattr(it.owned, "wait_until_closed", fail)

    it.life.close(None, leave_group=True)

    assert it.membership.asked[-1] == "leave"
    assert "the disk is full" in str(it.life.error)


def test_replicas_that_failed_or_that_nobody_restores_start_again_with_all_the_others() -> None:
    it = Life(REPLACE)
    dropped, failed = it.owned.all.values()
    failed.role = dropped.role = TaskRole.STANDBY
    it.restoration.dropped = [dropped]
    it.fail(StateStoreError("of one task"))
    it.fail(StreamsError("of the restoration thread"), in_task=False)

    it.life.advance(committing=False)

    assert sorted(it.owned.revived) == ["0_0", "0_1"]
