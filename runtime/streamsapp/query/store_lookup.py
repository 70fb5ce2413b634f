"""Looks up an application's stores, with the serdes and partitions by which their keys are found. Pure.

Made by the runtime once it knows its topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.query.api import GLOBAL, StoreInfo
from streamsapp.serdes.api import or_configured
from streamsapp.state.kinds.versioned import VersionedType
from streamsapp.state.kinds.versions import VersionLayout
from streamsapp.tasks.task_plan import TaskPlan
from streamsapp.topology.nodes import GlobalStore
from streamsapp.topology.partitioning import placed_by_key


def stores_of(plans: Iterable[TaskPlan], config: StreamsConfig) -> Mapping[str, StoreInfo]:
    """Returns every store of the tasks, by name. A key is in the partition that its record was in."""
    plans = list(plans)
    partitions: dict[int, int] = {}
    newest: dict[int, TaskPlan] = {}
    for plan in plans:
        part = plan.id.subtopology
        partitions[part] = max(partitions.get(part, 0), plan.id.partition + 1)
        newest[part] = plan
    placed = placed_by_key(plan.sub_topology for plan in newest.values())
    return {
        info.name: info
        for part, plan in newest.items()
        for info in _stores_of_one(plan, partitions[part], config, part in placed)
    }


def global_stores_of(stores: Iterable[GlobalStore], config: StreamsConfig) -> Mapping[str, StoreInfo]:
    """Returns the stores that every instance fills from a whole topic, by name."""
    return {each.store.name: _global_store(each, config) for each in stores}


def _global_store(of: GlobalStore, config: StreamsConfig) -> StoreInfo:
    store = of.store
    return StoreInfo(
        store.name,
        GLOBAL.subtopology,
        1,
        (store.key_serde or config.default_key_serde).bind(of.topic, is_key=True),
        or_configured(store.value_serde, config.default_serdes).bind(of.topic, is_key=False),
        placed=True,
        window_of=store.type.window_of,
        key_of=VersionLayout.key_of if isinstance(store.type, VersionedType) else None,
    )


def _stores_of_one(plan: TaskPlan, partitions: int, config: StreamsConfig, placed: bool) -> Iterable[StoreInfo]:
    topics = plan.changelog_topics
    for store in plan.sub_topology.stores:
        topic = topics.get(store.name, store.name)
        yield StoreInfo(
            store.name,
            plan.id.subtopology,
            partitions,
            (store.key_serde or config.default_key_serde).bind(topic, is_key=True),
            or_configured(store.value_serde, config.default_serdes).bind(topic, is_key=False),
            placed,
            store.type.window_of,
            VersionLayout.key_of if isinstance(store.type, VersionedType) else None,
        )
