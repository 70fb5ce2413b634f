"""The life of an instance's tasks: where they go on, how they start again after a failure, how they are closed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from owned_tasks import Counting, Owned, topology
from streamsapp import TaskId, TopicPartition
from streamsapp.errors import StateStoreError, TopicError
from streamsapp.kafka.consumer import BEGINNING, END
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.state.api import Engine
from streamsapp.tasks.states import TaskState
from task_parts import feed, raw

FIRST, SECOND = TaskId(0, 0), TaskId(0, 1)
IN, IN_1 = TopicPartition("in", 0), TopicPartition("in", 1)
HOUR = 60 * 60 * 1000


@pytest.fixture(autouse=True)
def _closed() -> None:
    Counting.closed = []
    Counting.raises_in_close = False


@pytest.fixture
def it(tmp_path: Path) -> Owned:
    return Owned(tmp_path)


# ---- assigned ------------------------------------------------------------------------------------------------------


def test_a_task_goes_on_from_the_committed_offset_and_partition_time(it: Owned) -> None:
    it.consumer.offsets[IN] = (7, OffsetMetadata(1234).encode())

    it.run(FIRST)

    queue = it.life.all[FIRST].queues[IN]
    assert it.consumer.positions == {IN: 7}
    assert (queue.position, queue.partition_time) == (7, 1234)
    assert it.life.all[FIRST].context.stream_time == 1234


@pytest.mark.parametrize("metadata", [None, "", "of another program"])
def test_an_offset_that_another_program_committed_counts_and_leaves_the_time_unknown(
    it: Owned, metadata: str | None
) -> None:
    it.consumer.offsets[IN] = (7, metadata)

    it.run(FIRST)

    assert it.consumer.positions == {IN: 7}
    assert it.life.all[FIRST].queues[IN].partition_time == -1


@pytest.mark.parametrize(
    ("policy", "position"), [(None, BEGINNING), ("earliest", BEGINNING), ("latest", END), ("by_duration:PT1H", 42)]
)
def test_without_a_committed_offset_the_reset_policy_decides(it: Owned, policy: str | None, position: int) -> None:
    it.clock.advance(5 * HOUR)
    it.consumer.by_time = {it.clock.now_ms() - HOUR: 42}

    it.run(FIRST, of=topology(policy))

    assert it.consumer.positions == {IN: position}


@pytest.mark.parametrize(
    ("duration", "milliseconds"),
    [("P7D", 7 * 24 * HOUR), ("PT1H30M", HOUR * 3 // 2), ("P1DT1H", 25 * HOUR), ("PT0.5S", 500)],
)
def test_durations_are_written_as_iso_8601_has_them(it: Owned, duration: str, milliseconds: int) -> None:
    it.consumer.by_time = {it.clock.now_ms() - milliseconds: 42}

    it.run(FIRST, of=topology(f"by_duration:{duration}"))

    assert it.consumer.positions == {IN: 42}


@pytest.mark.parametrize("duration", ["", "P", "PT", "1H", "PT1H junk", "-PT1H"])
def test_what_is_no_duration_is_said_to_be_none(it: Owned, duration: str) -> None:
    with pytest.raises(TopicError, match="is not an ISO 8601 duration such as PT1H or P7D"):
        it.run(FIRST, of=topology(f"by_duration:{duration}"))


def test_the_policy_none_asks_for_an_offset(it: Owned) -> None:
    with pytest.raises(TopicError, match="source source has no committed offset for in-0"):
        it.run(FIRST, of=topology("none"))


def test_a_new_assignment_keeps_what_stays_creates_what_is_new_and_closes_what_is_gone(it: Owned) -> None:
    it.run(FIRST)
    first = it.life.all[FIRST]

    it.assign(FIRST, SECOND)
    assert it.life.all[FIRST] is first
    assert list(it.restoration.here) == [SECOND]
    assert not it.life.all_running

    it.assign(SECOND)
    assert it.life.giving_up == {FIRST: None}
    assert list(it.tasks.tasks) == [FIRST], "it is not committed yet"
    it.life.give_up()
    assert first.state is TaskState.CLOSED
    assert list(it.life.all) == [SECOND]
    assert it.consumer.positions == {}
    it.restore()
    assert it.life.all_running
    assert list(it.tasks.tasks) == [SECOND]


def test_a_task_that_was_replaced_while_it_was_restored_is_not_run(it: Owned) -> None:
    it.assign(FIRST)
    it.restoration.begin()
    it.restoration.finish()
    it.life.revive([it.life.all[FIRST]])

    assert not it.life.take_restored()
    assert it.tasks.tasks == {}

    it.restore()
    assert it.life.all_running


# ---- out of range --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "position"), [(None, BEGINNING), ("latest", END)])
def test_records_that_are_gone_are_skipped_as_the_reset_policy_says(
    it: Owned, policy: str | None, position: int
) -> None:
    it.consumer.offsets.update({IN: (7, None), IN_1: (8, None)})
    it.run(FIRST, SECOND, of=topology(policy))

    it.deleted(IN)

    assert it.consumer.positions == {IN: position, IN_1: 8}


def test_records_that_are_gone_of_a_task_that_does_not_run_change_nothing(it: Owned) -> None:
    it.assign(FIRST)

    it.deleted(IN)

    assert it.consumer.positions == {}


# ---- failed --------------------------------------------------------------------------------------------------------


def test_a_revived_task_is_restored_to_the_last_commit_and_reads_again_from_there(it: Owned) -> None:
    it.run(FIRST, SECOND, of=topology(engine=Engine.ROCKSDB))
    it.process(FIRST, "committed", offset=0)
    it.commit(FIRST)
    it.process(FIRST, "+lost", offset=1)
    assert it.stored(FIRST) == {"k": "committed+lost"}
    failed = it.life.all[FIRST]

    it.life.revive([failed])
    assert not it.life.all_running
    assert FIRST not in it.tasks.tasks
    it.restore()

    revived = it.life.all[FIRST]
    assert revived is not failed
    assert it.stored(FIRST) == {"k": "committed"}
    assert it.consumer.positions == {IN: 1, IN_1: BEGINNING}
    assert revived.buffered_records == 0
    assert it.life.all_running
    assert it.tasks.tasks[FIRST] is revived
    assert Counting.closed == [FIRST]

    it.process(FIRST, "+again", offset=1)
    assert it.stored(FIRST) == {"k": "committed+again"}


def test_a_revived_task_has_its_stream_time_as_of_the_last_commit(it: Owned) -> None:
    it.run(FIRST)
    task = it.life.all[FIRST]
    feed(task, [raw(0, 10_000)])
    task.process(task.control, 1)

    it.life.revive([task])

    assert it.life.all[FIRST].context.stream_time == -1


def test_a_task_that_fails_again_and_again_is_revived_each_time(it: Owned) -> None:
    it.run(FIRST)

    for offset in range(3):
        it.process(FIRST, "x", offset)
        it.life.revive([it.life.all[FIRST]])
        it.restore()

    assert it.life.all_running
    assert it.consumer.positions == {IN: BEGINNING}
    assert it.stored(FIRST) == {}


@pytest.mark.parametrize("ran", [False, True])
def test_a_task_whose_failure_was_reported_twice_is_revived_once(it: Owned, *, ran: bool) -> None:
    it.assign(FIRST, of=topology(engine=Engine.ROCKSDB))
    it.restoration.begin()
    if ran:
        it.restoration.finish()
        it.life.take_restored()
    failed = it.life.all[FIRST]

    it.life.revive([failed])
    again = it.life.all[FIRST]
    it.life.revive([failed])

    assert it.life.all[FIRST] is again


def test_a_task_that_failed_and_was_taken_away_is_not_revived(it: Owned) -> None:
    it.run(FIRST)
    failed = it.life.all[FIRST]
    it.assign()
    it.life.give_up()

    it.life.revive([failed])

    assert it.life.all == {}
    assert it.restoration.here == {}


def test_the_directory_of_a_task_that_leaves_counts_as_left_now_however_old_its_files_are(it: Owned) -> None:
    it.run(FIRST, of=topology(engine=Engine.ROCKSDB))
    directory = it.directory / "0_0"
    os.utime(directory, (0, 0))

    it.life.close([it.life.all[FIRST]])

    assert it.life.all == {}
    assert directory.stat().st_mtime > 0


def test_a_corrupted_task_is_wiped_and_handed_over_to_be_restored(it: Owned) -> None:
    it.run(FIRST, of=topology(engine=Engine.ROCKSDB))
    it.process(FIRST, "corrupted")
    it.commit(FIRST)
    corrupted = it.life.all[FIRST]
    database = it.directory / "0_0" / "rocksdb"
    assert database.exists()

    it.life.revive([corrupted], wipe=True)

    assert not database.exists()
    assert it.restoration.here == {FIRST: it.life.all[FIRST]}
    assert it.life.all[FIRST] is not corrupted
    assert it.tasks.tasks == {}
    assert it.consumer.positions == {}
    it.restore()
    assert it.stored(FIRST) == {}
    assert it.consumer.positions == {IN: 1}


@pytest.mark.parametrize("begun", [False, True])
def test_a_task_that_failed_before_it_ran_is_restored_again_and_keeps_what_is_on_disk(it: Owned, begun: bool) -> None:
    rocksdb = topology(engine=Engine.ROCKSDB)
    it.run(FIRST, of=rocksdb)
    it.process(FIRST, "kept")
    it.commit(FIRST)
    it.assign(of=rocksdb)
    it.assign(FIRST, of=rocksdb)
    if begun:
        it.restoration.begin()

    it.life.revive([it.life.all[FIRST]])
    it.restore()

    assert it.life.all_running
    assert it.stored(FIRST) == {"k": "kept"}


# ---- closed --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["CREATED", "RESTORING", "restored", "RUNNING", "failed"])
def test_a_task_can_be_closed_wherever_it_is(it: Owned, state: str) -> None:
    rocksdb = topology(engine=Engine.ROCKSDB)
    it.assign(FIRST, of=rocksdb)
    task = it.life.all[FIRST]
    if state != "CREATED":
        it.restoration.begin()
    if state in ("restored", "RUNNING", "failed"):
        it.restoration.finish()
    if state in ("RUNNING", "failed"):
        it.life.take_restored()
    if state == "failed":
        assert it.tasks.take(0) is task
        it.tasks.failed(task)
        it.tasks.give_back(task, more=False)

    it.life.close([task])

    assert task.state is TaskState.CLOSED
    assert it.life.all == {}
    assert it.restoration.here == {}
    assert it.tasks.tasks == {}
    assert it.consumer.positions == {}
    assert not it.life.take_restored()
    it.run(FIRST, of=rocksdb)
    assert it.life.all_running, "the directory was given back"


def test_what_was_not_committed_is_dropped_when_a_task_is_closed(it: Owned) -> None:
    rocksdb = topology(engine=Engine.ROCKSDB)
    it.run(FIRST, of=rocksdb)
    it.process(FIRST, "committed")
    it.commit(FIRST)
    it.process(FIRST, "+not", offset=1)

    it.life.close(list(it.life.all.values()))

    it.run(FIRST, of=rocksdb)
    assert it.stored(FIRST) == {"k": "committed"}
    assert it.consumer.positions == {IN: 1}


def test_a_processor_that_raises_in_close_keeps_nothing_from_being_closed(it: Owned) -> None:
    it.run(FIRST, SECOND)
    tasks = list(it.life.all.values())
    Counting.raises_in_close = True

    it.life.close(tasks)

    assert Counting.closed == [FIRST, SECOND]
    assert [task.state for task in tasks] == [TaskState.CLOSED, TaskState.CLOSED]
    assert it.life.all == {}


def test_a_processor_that_raises_in_close_is_revived_all_the_same(it: Owned) -> None:
    it.run(FIRST)
    Counting.raises_in_close = True

    it.life.revive([it.life.all[FIRST]])
    it.restore()

    assert it.life.all_running


def test_an_instance_does_not_end_in_silence_when_the_restoration_thread_does_not(it: Owned) -> None:
    it.assign(FIRST)
    it.restoration.settles = False

    with pytest.raises(StateStoreError, match="does not come to an end; stores may be open"):
        it.life.wait_until_closed()
