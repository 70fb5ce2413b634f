"""Instances that can be queried, made of real stores and nothing else: no broker, no threads.

Called by the tests of queries, the HTTP port and the supervisor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from streamsapp.membership.api import Peer
from streamsapp.query import Queries
from streamsapp.query.api import StoreInfo, TaskView
from streamsapp.query.remote_reader import Fetch, HttpFetch
from streamsapp.record import TaskId
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.resources import StateResources
from streamsapp.state.kinds.key_value import TIMESTAMPED_KEY_VALUE
from streamsapp.state.kinds.store_type import StoreType
from streamsapp.state.task_stores import TaskStores
from streamsapp.tasks.states import TaskRole
from streamsapp.testing import MockClock

PARTITIONS = 4


def store_info(
    name: str = "counts",
    key_serde: AnySerde | None = None,
    value_serde: AnySerde | None = None,
    *,
    placed: bool = True,
) -> StoreInfo:
    """A store of sub-topology 0."""
    return StoreInfo(name, 0, PARTITIONS, key_serde or Serdes.string(), value_serde or Serdes.long(), placed)


class QueryHost:
    """One instance: the test decides what is on it and what it knows of others."""

    def __init__(self, info: StoreInfo | None = None, kind: StoreType = TIMESTAMPED_KEY_VALUE) -> None:
        self.info = info or store_info()
        self.kind = kind
        self.views: dict[TaskId, TaskView] = {}
        self.opened: dict[TaskId, TaskStores] = {}
        self.group: dict[str, Peer] = {}
        self.endpoint = ""
        self.safe_until = math.inf
        self.committed_only = True
        self.known = True
        self.clock = MockClock()

    def queries(self, fetch: Fetch | None = None) -> Queries:
        return Queries(self, self.clock, fetch or HttpFetch())

    def tasks(self) -> Mapping[TaskId, TaskView]:
        return self.views

    def stores(self) -> Mapping[str, StoreInfo]:
        return {self.info.name: self.info} if self.known else {}

    def peers(self) -> Mapping[str, Peer]:
        return self.group

    def add(self, partition: int, entries: Mapping[Any, Any] | None = None, role: TaskRole = TaskRole.ACTIVE) -> TaskId:
        """Put a task here whose store holds these entries, committed."""
        task_id = TaskId(0, partition)
        builder = StoreBuilder(self.info.name, self.kind, Engine.MEMORY, self.info.key_serde, self.info.value_serde)
        stores = TaskStores(
            task_id,
            Path("unused"),
            [builder],
            StateResources(16 << 20),
            default_serdes=(Serdes.bytes(), Serdes.bytes()),
            context_timestamp=lambda: 0,
        )
        stores.open()
        self.opened[task_id] = stores
        self.put(task_id, entries or {})
        for _ in stores.apply(stores.freeze(), {}):
            pass
        self.views[task_id] = TaskView(task_id, role, running=True, stores=stores.views)
        return task_id

    def put(self, task_id: TaskId, entries: Mapping[Any, Any]) -> None:
        """Write without committing; timestamps are 7."""
        for key, value in entries.items():
            timestamped = self.kind is TIMESTAMPED_KEY_VALUE
            self.opened[task_id].stores[self.info.name].put(key, (value, 7) if timestamped else value)

    def change(self, task_id: TaskId, **changes: Any) -> None:
        """Changes the instance's view of a task from now on."""
        self.views[task_id] = replace(self.views[task_id], **changes)
