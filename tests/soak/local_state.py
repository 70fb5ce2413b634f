"""Reads the disks of a finished run's instances as the runtime reads them; on the driver's main thread."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import application
from application import Json
from streamsapp import Serdes, TaskId, Windowed
from streamsapp.state.api import StoreBuilder, ValueAndTimestamp
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.task_stores import TaskStores


class LocalStore(NamedTuple):
    """One store of one task in one instance's directory."""

    where: str
    task: TaskId
    store: str
    partition: int
    position: int
    content: dict[str, Json]


def local_stores(application_id: str, state_directory: Path) -> Iterator[LocalStore]:
    """Every store of ``STORES`` below an instance's state directory that has a position in its changelog."""
    sub_topologies = {each.id: each.stores for each in application.build(application_id, "reader").sub_topologies()}
    for directory in sorted((state_directory / application_id).glob("[0-9]*_[0-9]*")):
        task = TaskId.parse(directory.name)
        yield from _stores_of(task, directory, list(sub_topologies[task.subtopology]))


def _stores_of(task: TaskId, directory: Path, builders: list[StoreBuilder]) -> Iterator[LocalStore]:
    stores = TaskStores(
        task,
        directory,
        builders,
        StateResources(32 << 20),
        default_serdes=(Serdes.bytes(), Serdes.bytes()),
        context_timestamp=lambda: 0,
    )
    stores.open()
    for name, store in stores.stores.items():
        position = stores.changelog_offset(name)
        if position is not None and name in application.STORES:
            content = {_name(key): _value(value) for key, value in store.all()}
            where = f"{directory.parent.parent.name}'s {name} of task {task}"
            yield LocalStore(where, task, name, task.partition, position, content)
    stores.close()


def _name(key: str | Windowed[str]) -> str:
    return application.window_name(key.key, key.start_ms) if isinstance(key, Windowed) else key


def _value(stored: Json | ValueAndTimestamp) -> Json:
    value = stored.value if isinstance(stored, ValueAndTimestamp) else stored
    return {"cnt": value} if isinstance(value, int) else value
