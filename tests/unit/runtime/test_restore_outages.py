"""Restores while the object store is away: how long they wait for it, and what they report of it."""

from __future__ import annotations

import pytest

from memory_objects import MemoryObjects
from restoring import keys
from snapshotting import CHANGELOG, IN, Heir, Owner, away
from streamsapp import TaskId
from streamsapp.runtime.remote_state import restore_progress
from streamsapp.tasks.stream_task import StreamTask

TASK = TaskId(0, 0)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restore_progress, "PAUSE", 0.01)


def restore_without_the_store(heir: Heir, objects: MemoryObjects) -> StreamTask:
    """The object store is away for so long that the changelog is read."""
    objects.before = away
    heir.thread.log(CHANGELOG, 1)
    heir.thread.consumer.offsets[IN] = 2
    task = heir.thread.task()
    heir.thread.thread.add(task)
    heir.passes_until(lambda: len(objects.asked("probe")) > 2)
    heir.thread.clock.advance(31_000)
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())
    heir.thread.thread.restored.get_nowait()
    return task


def test_an_outage_that_one_task_has_waited_for_is_not_waited_for_again_until_it_may_be_over(
    owner: Owner, heir: Heir, objects: MemoryObjects
) -> None:
    snapshot = owner.publish("a")
    objects.before = away
    for partition in range(2):
        heir.thread.log(CHANGELOG._replace(partition=partition), 1)
        heir.thread.consumer.offsets[IN._replace(partition=partition)] = 2
    first, second, later = heir.thread.task(), heir.thread.task(1), heir.thread.task()
    heir.thread.thread.add(first)
    heir.passes_until(lambda: len(objects.asked("probe")) > 2)
    heir.thread.clock.advance(31_000)
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())
    heir.thread.thread.restored.get_nowait()
    asked = len(objects.calls)

    heir.restore(second)

    assert keys(second) == ["1"]
    assert len(objects.calls) == asked
    first.stores.wipe()
    heir.thread.thread.restored.get_nowait()
    objects.before = lambda operation, key: None
    heir.thread.clock.advance(31_000)
    heir.restore(later)
    assert heir.restores.snapshots[TASK] == snapshot


def test_an_outage_of_long_ago_is_not_that_of_a_request_that_fails_now(
    owner: Owner, heir: Heir, objects: MemoryObjects
) -> None:
    snapshot = owner.publish("a")
    restore_without_the_store(heir, objects).stores.wipe()
    heir.thread.clock.advance(3_600_000)
    asked = len(objects.asked("probe"))

    def fails_twice(operation: str, key: str) -> None:
        if len(objects.asked("probe")) <= asked + 2:
            away(operation, key)

    objects.before = fails_twice
    heir.restore(heir.thread.task())

    assert heir.restores.snapshots[TASK] == snapshot


def test_a_store_that_a_restore_cannot_reach_is_an_outage_until_it_can(
    owner: Owner, heir: Heir, objects: MemoryObjects
) -> None:
    owner.publish("a")
    objects.before = away
    heir.thread.log(CHANGELOG, 1)
    heir.thread.consumer.offsets[IN] = 2
    began = heir.thread.clock.monotonic()
    task = heir.thread.task()
    heir.thread.thread.add(task)
    heir.passes_until(lambda: len(objects.asked("probe")) > 2)
    heir.thread.clock.advance(10_000)
    asked = len(objects.asked("probe"))
    heir.passes_until(lambda: len(objects.asked("probe")) > asked + 2)
    assert heir.restores.outage == (began, "no answer")

    objects.before = lambda operation, key: None
    heir.passes_until(lambda: not heir.thread.thread.restored.empty())

    assert heir.restores.outage is None


def test_an_outage_that_no_restore_has_asked_about_for_a_while_is_told_no_more(
    owner: Owner, heir: Heir, objects: MemoryObjects
) -> None:
    owner.publish("a")
    restore_without_the_store(heir, objects)
    assert heir.restores.outage is not None

    heir.thread.clock.advance(31_000)

    assert heir.restores.outage is None
