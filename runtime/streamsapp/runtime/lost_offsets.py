"""An application whose group has lost its offsets: whether all of its tasks know where to go on.

Called where the tasks are laid out, before any of them starts: on an instance's polling thread, and on the main thread
of Spark's driver. The broker deletes a group's offsets a week after its last member has left
(``offsets.retention.minutes``).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from streamsapp.config import client_properties
from streamsapp.config.client_properties import ClientProperties
from streamsapp.config.remote_state import RemoteStateConfig
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import TopicError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TaskId, TopicPartition
from streamsapp.remote.manifest_chain import chains_of
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.object_store_factory import open_store
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.remote_state.remote_store import RemoteStore
from streamsapp.state.api import Engine
from streamsapp.tasks.stream_task import TaskPlan

log = logging.getLogger(__name__)

#: Partitions that an error names.
_NAMED = 3


def refuse_lost_offsets(layout: ApplicationLayout, config: StreamsConfig, admin: TopicAdmin) -> None:
    """Raises ``TopicError`` if the group has no offset at all, snapshots show that the application ran, and there are
    tasks without stores, or with such in memory only, of which no snapshot tells where they stood: what they read again
    would count twice, in the state of others or in their own, which a changelog restores. Under ``at_least_once`` that
    is allowed."""
    remote = config.remote_state
    if remote is None or not config.exactly_once:
        return
    without_snapshots = {task_id for task_id, plan in layout.plans.items() if not _is_on_disk(plan)}
    if not without_snapshots:
        return
    inputs = [partition for plan in layout.plans.values() for partition in plan.inputs]
    properties = client_properties.main_consumer(config)
    # A transaction that a killed process left open is fenced later, and not waited for if there is anything beside it.
    at_once = properties | {"isolation.level": "read_uncommitted"}
    # Twice: another instance may have committed for the first time, and taken a snapshot, in between.
    if _has_offsets(inputs, at_once) or not _has_run(config, remote) or _has_offsets(inputs, properties):
        return
    if unknown := _with_records(layout, admin, without_snapshots):
        named = ", ".join(map(str, unknown[:_NAMED])) + (", ..." if len(unknown) > _NAMED else "")
        raise TopicError(
            f"group {config.application_id} has no offsets any more, and its snapshots show that it had: nothing tells "
            f"how far {named} were read, and what is read again would count twice. Set the group's offsets to where "
            "the application had stopped (kafka-consumer-groups --reset-offsets), or begin anew (streamsapp reset)"
        )


def _has_offsets(inputs: Sequence[TopicPartition], properties: ClientProperties) -> bool:
    consumer = PartitionConsumer(properties)
    try:
        return bool(consumer.committed(inputs))
    finally:
        consumer.close()


def _is_on_disk(plan: TaskPlan) -> bool:
    """Return whether snapshots are taken of the task's stores."""
    changelogs = plan.all_changelogs
    return any(each.engine is Engine.ROCKSDB and each.name in changelogs for each in plan.sub_topology.stores)


def _has_run(config: StreamsConfig, remote: RemoteStateConfig) -> bool:
    """Return whether a snapshot stands at other offsets than a bootstrap left."""
    objects = open_store(remote)
    try:
        bootstrap = RemoteStore(objects, config.application_id, remote).bootstrap()
        for chain in chains_of(objects, config.application_id):
            _, newest = chain.newest()
            begun = () if bootstrap is None else bootstrap.inputs(chain.task_id)
            if newest is not None and newest.inputs not in ((), begun):
                return True
    except ObjectStoreError as error:
        log.warning("whether the application ran before is not known: %s", error)
    return False


def _with_records(layout: ApplicationLayout, admin: TopicAdmin, tasks: set[TaskId]) -> list[TopicPartition]:
    inputs = [partition for task_id in tasks for partition in layout.plans[task_id].inputs]

    def ask() -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        low = admin.request_offsets(inputs, earliest=True)
        return low.result(), admin.request_offsets(inputs).result()

    lows, highs = repeated(ask, "looking up where topics begin and end")
    return sorted(each for each in inputs if lows[each] < highs[each])
