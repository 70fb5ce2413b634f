"""Restoring tasks, pass by pass, from changelogs that a fake broker keeps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from restoring import Restoring, keys
from streamsapp import TaskId, TopicPartition
from streamsapp.clock import SystemClock
from streamsapp.deadline import Deadline
from streamsapp.errors import StateStoreError, StreamsError, TopicError
from streamsapp.runtime import restoration
from streamsapp.state.api import Engine
from streamsapp.state.engine.rocksdb import DatabaseBatch, TaskDatabase
from streamsapp.tasks.states import TaskState
from streamsapp.tasks.stream_task import StreamTask

S, T = TopicPartition("app-s-changelog", 0), TopicPartition("app-t-changelog", 0)
OTHER = TopicPartition("app-s-changelog", 1)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restoration, "WORK_WAIT", 0)


@pytest.fixture
def it(tmp_path: Path) -> Restoring:
    return Restoring(tmp_path)


def test_a_new_store_is_restored_from_the_beginning_and_the_listener_follows(it: Restoring) -> None:
    it.log(S, 0, 1, 2)
    it.consumer.limit = 2
    task = it.task()

    it.restore(task)

    assert it.restored == [TaskId(0, 0)]
    assert keys(task) == ["0", "1", "2"]
    assert task.changelog_positions == {"s": 3}
    assert it.listener.told == [
        "start app-s-changelog-0 s 0 3",
        "batch app-s-changelog-0 s 1 2",
        "batch app-s-changelog-0 s 2 1",
        "end app-s-changelog-0 s 3",
    ]
    assert it.consumer.positions == {}


def test_the_polling_thread_is_told_of_each_restored_task_when_it_can_be_taken(it: Restoring) -> None:
    it.log(S, 0)
    it.log(OTHER, 0)

    it.restore(it.task(0))
    it.restore(it.task(1))

    assert it.told == [True, True]


def test_a_changelog_whose_beginning_was_deleted_is_restored_from_what_is_left(it: Restoring) -> None:
    it.log(S, 5, 6, low=5)
    task = it.task()

    it.restore(task)

    assert keys(task) == ["5", "6"]
    assert it.listener.told[0] == "start app-s-changelog-0 s 5 7"


def test_restoring_goes_on_from_the_offset_on_disk(it: Restoring) -> None:
    it.leave_on_disk("old", offset=2)
    it.log(S, 0, 1, 2)
    task = it.task()

    it.restore(task)

    assert keys(task) == ["2", "old"]
    assert it.listener.told[0] == "start app-s-changelog-0 s 2 3"


def test_where_restoring_ended_is_on_disk(it: Restoring) -> None:
    it.log(S, 0, 1)
    task = it.task()
    it.restore(task)
    task.stores.close()

    again = it.task()
    it.listener.told.clear()
    it.restore(again)

    assert it.listener.told == []
    assert keys(again) == ["0", "1"]


def test_a_task_with_empty_changelogs_is_complete_at_once_and_the_listener_hears_nothing(it: Restoring) -> None:
    it.log(S)
    it.log(T)
    task = it.task(0, "s", "t")
    it.thread.add(task)

    it.passes()

    assert it.restored == [TaskId(0, 0)]
    assert task.state is TaskState.RESTORING
    assert task.changelog_positions == {"s": 0, "t": 0}
    assert it.listener.told == []


def test_a_task_is_complete_only_when_all_its_stores_are(it: Restoring) -> None:
    it.log(S, 0)
    it.log(T, 0, 1)
    it.consumer.limit = 1
    it.thread.add(it.task(0, "s", "t"))

    it.passes()
    assert it.restored == []
    assert it.restoring == [T]

    it.passes()
    assert it.restored == [TaskId(0, 0)]


def test_the_end_is_where_the_broker_says_so_when_the_last_offsets_hold_no_records(it: Restoring) -> None:
    it.log(S, 0, 2, end=6)
    task = it.task()

    it.restore(task)

    assert it.restored == [TaskId(0, 0)]
    assert keys(task) == ["0", "2"]
    assert task.changelog_positions == {"s": 6}
    assert it.listener.told[-1] == "end app-s-changelog-0 s 2"


def test_a_changelog_of_control_records_only_is_complete(it: Restoring) -> None:
    it.log(S, end=2)

    it.restore(it.task())

    assert it.restored == [TaskId(0, 0)]
    assert it.listener.told == ["start app-s-changelog-0 s 0 2", "end app-s-changelog-0 s 0"]


def test_what_is_written_after_restoring_began_is_left_out(it: Restoring) -> None:
    it.log(S, 0, 1)
    it.consumer.limit = 1
    task = it.task()
    it.thread.add(task)
    it.passes()
    it.log(S, 0, 1, 2, 3)
    it.consumer.limit = 1000

    it.passes()

    assert it.restored == [TaskId(0, 0)]
    assert keys(task) == ["0", "1"]
    assert task.stores.changelog_offset("s") == 2


class TestSourceTopicAsChangelog:
    """A table's source topic serves as changelog: the store is complete where processing goes on."""

    SOURCE = TopicPartition("in", 0)

    def task(self, it: Restoring, committed: int | None) -> StreamTask:
        task = it.task()
        task.plan = replace(task.plan, changelogs={}, source_changelogs={"s": self.SOURCE})
        if committed is not None:
            it.consumer.offsets[self.SOURCE] = committed
        return task

    def test_restoring_stops_at_the_committed_offset(self, it: Restoring) -> None:
        it.log(self.SOURCE, 0, 1, 2, 3)
        task = self.task(it, committed=2)

        it.restore(task)

        assert keys(task) == ["0", "1"]
        assert task.changelog_positions == {"s": 2}
        assert it.listener.told[0] == "start in-0 s 0 2"

    def test_nothing_is_restored_when_nothing_was_committed(self, it: Restoring) -> None:
        it.log(self.SOURCE, 4, 5, low=4)
        task = self.task(it, committed=None)

        it.restore(task)

        assert it.restored == [TaskId(0, 0)]
        assert keys(task) == []
        assert task.changelog_positions == {"s": 4}

    def test_a_committed_offset_beyond_the_end_is_not_waited_for(self, it: Restoring) -> None:
        it.log(self.SOURCE, 0, 1)

        it.restore(self.task(it, committed=9))

        assert it.restored == [TaskId(0, 0)]

    def test_a_committed_offset_whose_records_are_deleted_leaves_nothing_to_restore(self, it: Restoring) -> None:
        it.log(self.SOURCE, 4, 5, low=4)

        it.restore(self.task(it, committed=2))

        assert it.restored == [TaskId(0, 0)]


@pytest.mark.parametrize(
    ("stored", "low"), [pytest.param(9, 0, id="beyond the end"), pytest.param(2, 4, id="before the beginning")]
)
def test_a_store_that_stands_where_the_changelog_is_not_is_wiped_and_restored(
    it: Restoring, stored: int, low: int
) -> None:
    it.leave_on_disk("stale", offset=stored)
    it.log(S, 4, 5, low=low)
    task = it.task()

    it.restore(task)

    assert it.failed == []
    assert it.restored == [TaskId(0, 0)]
    assert keys(task) == ["4", "5"]


def test_a_damaged_database_is_wiped_and_restored(it: Restoring) -> None:
    it.leave_on_disk("old", offset=2)
    (it.directory / "0_0" / "rocksdb" / "CURRENT").write_text("nonsense")
    it.log(S, 0, 1)
    task = it.task()

    it.restore(task)

    assert it.failed == []
    assert keys(task) == ["0", "1"]


def test_a_store_that_cannot_be_opened_even_when_wiped_fails_its_task_only(it: Restoring) -> None:
    (it.directory / "0_0").write_text("a file where a directory should be")
    it.log(S, 0)
    it.log(OTHER, 0)

    it.restore(it.task(0), it.task(1))

    assert [task_id for task_id, _ in it.failed] == [TaskId(0, 0)]
    assert it.restored == [TaskId(0, 1)]


def test_a_task_whose_changelog_does_not_answer_fails_and_says_which(it: Restoring) -> None:
    it.log(OTHER, 0)

    it.restore(it.task(0), it.task(1))

    assert it.failed == [
        (
            TaskId(0, 0),
            (
                "the broker does not report where the changelogs of task 0_0 end: "
                "not allowed to describe app-s-changelog-0"
            ),
        ),
    ]
    assert it.restored == [TaskId(0, 1)]


def test_a_batch_that_cannot_be_applied_fails_its_task_and_the_others_go_on(
    it: Restoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    it.log(S, 0)
    it.log(T, 0)
    it.log(OTHER, 0)
    failing = it.task(0, "s", "t")

    def full(*_: object, **__: object) -> None:
        raise StateStoreError("the disk is full")

    for way in "restore", "restore_packed":
        monkeypatch.setattr(failing.stores, way, full)

    it.restore(failing, it.task(1))

    assert it.failed == [(TaskId(0, 0), "the disk is full")]
    assert it.restored == [TaskId(0, 1)]
    assert "suspended app-s-changelog-0 s 0" in it.listener.told
    assert "suspended app-t-changelog-0 t 0" in it.listener.told
    assert it.consumer.positions == {}


def test_entries_that_rocksdb_does_not_take_at_the_end_fail_their_task(
    it: Restoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    it.log(S, 0, 1)
    it.log(OTHER, 0)
    failing = it.task()
    write = TaskDatabase.write

    def full(database: TaskDatabase, batch: DatabaseBatch) -> None:
        if database._directory.parent.name == "0_0":
            raise StateStoreError("the disk is full")
        write(database, batch)

    monkeypatch.setattr(TaskDatabase, "write", full)
    it.restore(failing, it.task(1))
    assert it.failed == [(TaskId(0, 0), "the disk is full")]
    assert it.restored == [TaskId(0, 1)]


@pytest.mark.parametrize("callback", ["start", "batch", "end"])
def test_a_listener_that_raises_fails_the_task_and_not_the_thread(it: Restoring, callback: str) -> None:
    it.log(S, 0)
    it.log(T, 0)
    it.listener.raises_in = callback
    it.restore(it.task(0, "s", "t"))
    assert set(it.failed) == {(TaskId(0, 0), "the listener is broken")}
    assert it.restored == []
    assert it.consumer.positions == {}

    it.log(OTHER, 0)
    it.listener.raises_in = ""
    it.restore(it.task(1))

    assert it.restored == [TaskId(0, 1)]


def test_a_task_that_is_taken_back_is_forgotten_and_the_listener_told(it: Restoring) -> None:
    it.log(S, 0, 1, 2)
    it.log(OTHER, 0, 1, 2)
    it.consumer.limit = 1
    task = it.task(0)
    it.thread.add(task)
    it.thread.add(it.task(1))
    it.passes()

    it.thread.close([task])
    it.passes()

    assert it.listener.told[-2:] == ["suspended app-s-changelog-0 s 1", "batch app-s-changelog-1 s 1 1"]
    assert list(it.consumer.positions) == [OTHER]
    while it.restoring:
        it.passes()
    assert it.restored == [TaskId(0, 1)]


def test_a_task_that_is_taken_back_right_away_does_not_come_back(it: Restoring) -> None:
    it.log(S, 0)
    task = it.task()
    it.thread.add(task)
    it.thread.close([task])

    it.passes(2)

    assert it.restored == []
    assert it.consumer.positions == {}


def test_a_listener_that_raises_when_a_task_is_taken_back_changes_nothing(it: Restoring) -> None:
    it.log(S, 0, 1)
    it.consumer.limit = 1
    it.listener.raises_in = "suspended"
    task = it.task()
    it.thread.add(task)
    it.passes()

    it.thread.close([task])
    it.passes()

    assert it.failed == []
    assert it.consumer.positions == {}


def test_a_task_that_was_handed_back_can_be_asked_for_all_the_same(it: Restoring) -> None:
    it.log(S)
    task = it.task()
    it.restore(task)
    it.listener.told.clear()

    it.thread.close([task])
    it.passes()

    assert it.listener.told == []


@pytest.mark.parametrize("engine", list(Engine))
def test_a_changelog_that_is_truncated_while_it_is_restored_starts_over(it: Restoring, engine: Engine) -> None:
    it.log(S, 0, 1, 2, 3)
    it.consumer.limit = 1
    task = it.task(engine=engine)
    it.thread.add(task)
    it.passes()
    it.log(S, 3, low=3)

    it.passes(2)
    while it.restoring:
        it.passes()

    assert it.failed == []
    assert it.restored == [TaskId(0, 0)]
    assert keys(task) == ["3"]
    assert it.listener.told == [
        "start app-s-changelog-0 s 0 4",
        "batch app-s-changelog-0 s 0 1",
        "suspended app-s-changelog-0 s 1",
        "start app-s-changelog-0 s 3 4",
        "batch app-s-changelog-0 s 3 1",
        "end app-s-changelog-0 s 1",
    ]


@pytest.mark.parametrize("error", [TopicError("not authorised"), StreamsError("failed for good")])
def test_a_consumer_that_fails_is_a_failure_of_all_tasks_after_which_they_can_be_restored_again(
    it: Restoring, error: Exception
) -> None:
    it.log(S, 0)
    it.log(OTHER, 0)
    it.consumer.error = error
    it.thread.add(it.task(0))
    it.thread.add(it.task(1))
    it.passes(2)
    assert it.failed == [(None, str(error))]
    assert it.restored == []
    assert [task.id.partition for task in it.thread.take_dropped()] == [0, 1]
    assert it.thread.take_dropped() == []

    it.consumer.error = None
    it.log(TopicPartition("app-s-changelog", 2), 0, 1)
    it.restore(it.task(2))

    assert it.restored == [TaskId(0, 2)]


def test_the_thread_gives_a_task_back_on_request_and_closes_its_consumer_at_the_end(it: Restoring) -> None:
    it.log(S, 0, end=2**40)
    it.thread.start()
    task = it.task()
    it.thread.add(task)

    it.thread.close([task])
    assert it.thread.wait_until_done(100, Deadline(SystemClock()))
    it.thread.stop()
    it.thread.join(100)

    assert it.consumer.closed
    assert it.failed == []
    assert it.restored == []
