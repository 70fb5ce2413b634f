"""Instances after a bootstrap: tasks without snapshots go on at the right place, and none starts on half a state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from memory_objects import MemoryObjects
from restoring import keys
from snapshotting import CHANGELOG, IN, Heir, Owner, away
from streamsapp import TaskId
from streamsapp.errors import StateStoreError
from streamsapp.remote.bootstraps import (
    TABLE,
    VERSION,
    BootstrapBegun,
    BootstrapDone,
    Bootstraps,
    BootstrapState,
    HistoryRange,
    TaskDone,
)
from streamsapp.remote.object_store import ObjectExistsError
from streamsapp.remote.snapshot import InputPoint
from streamsapp.state.api import Engine
from streamsapp.tasks.task_plan import ConsumedOffset

TASK = TaskId(0, 0)
BEGUN = BootstrapBegun(VERSION, "2026-01-01T00:00:00.000Z", "kafka", (HistoryRange(IN.topic, 0, 0, 7),), {"0_0": "f"})
WENT_ON = TaskDone(VERSION, "0_0", (InputPoint(*IN, 7, ConsumedOffset(7, 55).metadata),), 7, 7, 1.0)


@pytest.fixture
def objects() -> MemoryObjects:
    return MemoryObjects()


@pytest.fixture
def begun(objects: MemoryObjects) -> BootstrapState:
    return Bootstraps(objects, "app").begin(1, BEGUN)


@pytest.fixture
def heir(tmp_path: Path, objects: MemoryObjects) -> Iterator[Heir]:
    made = Heir(tmp_path / "heir", objects)
    yield made
    made.close()


def test_a_task_without_snapshots_goes_on_where_history_ended(heir: Heir, begun: BootstrapState) -> None:
    begun.finish_task(WENT_ON)
    begun.finish(BootstrapDone(VERSION, "2026-01-01T01:00:00.000Z", (WENT_ON,)))
    heir.thread.log(CHANGELOG, 0, 1)
    task = heir.thread.task(engine=Engine.MEMORY)

    heir.restore(task)

    assert task.start_offsets == {IN: ConsumedOffset(7, 55, in_group=False)}
    assert keys(task) == ["0", "1"]


def test_what_the_group_has_committed_since_wins(heir: Heir, begun: BootstrapState) -> None:
    begun.finish(BootstrapDone(VERSION, "2026-01-01T01:00:00.000Z", (WENT_ON,)))
    heir.thread.consumer.offsets[IN] = 9
    heir.thread.log(CHANGELOG)
    task = heir.thread.task(engine=Engine.MEMORY)

    heir.restore(task)

    assert task.start_offsets[IN].offset == 9


def test_a_task_without_snapshots_does_not_wait_for_an_object_store_that_is_away(
    heir: Heir, objects: MemoryObjects
) -> None:
    objects.before = away
    heir.thread.log(CHANGELOG, 0)
    heir.thread.consumer.offsets[IN] = 1
    task = heir.thread.task(engine=Engine.MEMORY)

    heir.restore(task)

    assert heir.thread.restored == [TASK]
    assert task.start_offsets[IN].offset == 1


def test_a_task_without_offsets_does_not_begin_anew_while_nobody_tells_whether_there_was_a_bootstrap(
    heir: Heir, objects: MemoryObjects
) -> None:
    objects.before = away
    heir.thread.log(CHANGELOG, 0)
    heir.thread.log(IN, end=1)

    heir.restore(heir.thread.task(engine=Engine.MEMORY))

    ((failed, error),) = heir.thread.failed
    assert failed == TASK
    assert "The object store does not report the task's position (no answer)" in error


@pytest.mark.parametrize("engine", Engine)
def test_no_task_starts_while_a_bootstrap_is_not_done(
    heir: Heir, begun: BootstrapState, tmp_path: Path, objects: MemoryObjects, engine: Engine
) -> None:
    Owner(tmp_path / "owner", objects).publish("a")
    begun.finish_task(WENT_ON)
    heir.thread.log(CHANGELOG, 0, 1)

    heir.restore(heir.thread.task(engine=engine))

    failure = heir.thread.failures.get_nowait()
    assert isinstance(failure.error, StateStoreError)
    assert "a bootstrap of app was begun and is not done" in str(failure.error)
    assert failure.task_id == TASK


def test_a_table_that_is_not_written_whole_is_written_again_and_no_bootstrap_is_called_for(
    heir: Heir, objects: MemoryObjects
) -> None:
    Bootstraps(objects, "app").begin(1, replace(BEGUN, history=TABLE))
    heir.thread.log(CHANGELOG, 0, 1)

    heir.restore(heir.thread.task(engine=Engine.MEMORY))

    told = str(heir.thread.failures.get_nowait().error)
    assert "run `streamsapp reset`, and then write it again, with df.write" in told
    assert "streamsapp bootstrap" not in told


def test_a_bootstrap_is_begun_once_and_remembers_what_is_finished(
    objects: MemoryObjects, begun: BootstrapState
) -> None:
    bootstraps = Bootstraps(objects, "app")
    with pytest.raises(ObjectExistsError):
        bootstraps.begin(1, BEGUN)
    begun.finish_task(WENT_ON)
    found = bootstraps.newest()
    assert found is not None
    assert (found.number, found.begun(), found.finished, found.is_done) == (1, BEGUN, frozenset({TASK}), False)
    assert found.task(TASK) == WENT_ON
    begun.withdraw()
    assert bootstraps.newest() is None


def test_a_damaged_document_is_told_with_what_to_do(objects: MemoryObjects, begun: BootstrapState) -> None:
    objects.put_new("app/bootstrap/00000001-done.json", b'{"version": 1, "tasks": "none"}')
    found = Bootstraps(objects, "app").newest()
    assert found is not None
    with pytest.raises(StateStoreError, match=r"00000001-done.json is damaged: .*streamsapp reset"):
        found.done()


def test_the_places_of_many_tables_are_read_as_they_were_written(objects: MemoryObjects) -> None:
    many = ", ".join(f"topic-{number}=delta:s3a://lake/tables/topic-{number}@v{number}" for number in range(100))
    Bootstraps(objects, "app").begin(1, msgspec.structs.replace(BEGUN, history=many))
    newest = Bootstraps(objects, "app").newest()
    assert newest is not None
    assert newest.begun().history == many
