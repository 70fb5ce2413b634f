"""Which stores an application has, and by which serdes and partitions their keys are found. Pure.

Made by the runtime once it knows its topics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.query.api import StoreInfo
from streamsapp.tasks.stream_task import TaskPlan


def stores_of(plans: Iterable[TaskPlan], config: StreamsConfig) -> Mapping[str, StoreInfo]:
    """Every store of the tasks, by name.

    A key is where its record was: in the partition of the sub-topology's topics that the default partitioner gives it.
    """
    partitions: dict[int, int] = {}
    newest: dict[int, TaskPlan] = {}
    for plan in plans:
        part = plan.id.subtopology
        partitions[part] = max(partitions.get(part, 0), plan.id.partition + 1)
        newest[part] = plan
    return {info.name: info for part, plan in newest.items() for info in _stores_of_one(plan, partitions[part], config)}


def _stores_of_one(plan: TaskPlan, partitions: int, config: StreamsConfig) -> Iterable[StoreInfo]:
    topics = plan.changelog_topics
    for store in plan.sub_topology.stores:
        topic = topics.get(store.name, store.name)
        yield StoreInfo(
            store.name,
            plan.id.subtopology,
            partitions,
            (store.key_serde or config.default_key_serde).bind(topic, is_key=True),
            (store.value_serde or config.default_value_serde).bind(topic, is_key=False),
        )
