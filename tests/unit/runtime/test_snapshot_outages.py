"""The object store is away: the reports of that, and how the snapshot threads find out that it is back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from memory_objects import MemoryObjects
from snapshotting import TIMEOUT, Owner, SnapshotThreads, away
from streamsapp import TaskId
from streamsapp.runtime.remote_state import snapshot_schedule, snapshots

TASK = TaskId(0, 0)


def test_a_store_that_does_not_answer_is_tried_again_and_told_of_once(
    owner: Owner, threads: SnapshotThreads, objects: MemoryObjects, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    caplog.set_level("INFO")
    monkeypatch.setattr(snapshots, "FIRST_PAUSE", 0.001)
    objects.before = away
    threads.start()
    threads.snapshots.own(owner.task)
    for _ in range(3):
        assert not threads.snapshots.take_all(TIMEOUT)
    assert threads.snapshots.outage is not None
    objects.before = lambda operation, key: None

    assert threads.snapshots.take_all(TIMEOUT)
    assert threads.snapshots.outage is None

    assert caplog.text.count("snapshots have not been written") == 1
    assert caplog.text.count("snapshots are written again") == 1
    it = threads.snapshots.of(TASK)
    assert it is not None
    assert it.figures.failures >= 3


def wait_until(holds: Callable[[], object]) -> None:
    give_up = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < give_up
        time.sleep(0.005)


def test_a_turn_in_which_the_store_was_not_asked_does_not_end_its_outage(
    owner: Owner, threads: SnapshotThreads, objects: MemoryObjects, caplog: pytest.LogCaptureFixture
) -> None:
    """It may come between two slices of a commit, or when others may have taken over."""
    caplog.set_level("INFO")
    threads.snapshots.own(owner.task)
    entry = threads.snapshots._schedule.take()
    assert entry is not None
    objects.before = away
    threads.snapshots._take(entry)
    outage = threads.snapshots.outage
    owner.may_claim = False

    threads.snapshots._take(entry)

    assert threads.snapshots.outage == outage is not None
    assert "snapshots are written again" not in caplog.text
    assert entry.work.attempts == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks that failed stay away, while the store is looked at all the time."""
    monkeypatch.setattr(snapshots, "FIRST_PAUSE", 3600.0)
    monkeypatch.setattr(snapshots, "LONGEST_PAUSE", 3600.0)
    monkeypatch.setattr(snapshots, "LOOK_AGAIN", 0.01)
    monkeypatch.setattr(snapshot_schedule, "_LOOK", 0.01)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("known", [False, True])
def test_an_outage_ends_also_when_the_tasks_that_met_it_have_left(
    owner: Owner, threads: SnapshotThreads, objects: MemoryObjects, caplog: pytest.LogCaptureFixture, known: bool
) -> None:
    caplog.set_level("INFO")
    owner.remote.fit = known
    objects.before = away
    threads.start()
    threads.snapshots.own(owner.task)
    assert not threads.snapshots.take_all(TIMEOUT)
    threads.snapshots.release(owner.task)
    assert threads.snapshots.outage is not None

    objects.before = lambda operation, key: None

    wait_until(lambda: threads.snapshots.outage is None)
    wait_until(lambda: re.search(r"the object store answers again, after \d+ s", caplog.text))


@pytest.mark.usefixtures("impatient")
def test_tasks_do_not_sit_out_their_pauses_once_the_store_is_back(
    owner: Owner, threads: SnapshotThreads, objects: MemoryObjects
) -> None:
    owner.remote.fit = True
    objects.before = away
    threads.start()
    threads.snapshots.own(owner.task)
    assert not threads.snapshots.take_all(TIMEOUT)
    looks = len(objects.asked("list"))
    wait_until(lambda: len(objects.asked("list")) > looks + 1)

    objects.before = lambda operation, key: None

    wait_until(lambda: threads.snapshots.outage is None)
    assert owner.chain.numbers() == [1]


@pytest.mark.usefixtures("impatient")
def test_a_store_that_answers_and_takes_no_snapshots_is_left_to_the_pauses(
    owner: Owner, threads: SnapshotThreads, objects: MemoryObjects
) -> None:
    def refuse(operation: str, key: str) -> None:
        if operation == "put_new":
            away(operation, key)

    owner.remote.fit = True
    objects.before = refuse
    threads.start()
    threads.snapshots.own(owner.task)
    assert not threads.snapshots.take_all(TIMEOUT)
    wait_until(lambda: sum(key == "app/reach/" for key in objects.asked("list")) > 5)

    it = threads.snapshots.of(TASK)
    assert it is not None
    assert it.attempts <= 2  # the attempt of the claim, and the attempt that was asked for
    assert threads.snapshots.outage is not None
