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
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.remote.manifest_chain import chains_of
from streamsapp.remote.object_store import ObjectStoreError
from streamsapp.remote.object_store_factory import open_store
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.changelog_positions import ends, with_records
from streamsapp.runtime.remote_state.remote_store import RemoteStore
from streamsapp.state.api import Engine
from streamsapp.tasks.task_plan import TaskPlan

log = logging.getLogger(__name__)

#: Partitions that an error names.
_NAMED = 3


def refuse_lost_offsets(layout: ApplicationLayout, config: StreamsConfig, admin: TopicAdmin) -> None:
    """Raises ``TopicError`` if the group has no offset at all, snapshots show that the application ran, and no snapshot
    says where some tasks stood that have no stores, or stores in memory only. Records that they read again would count
    twice, in the state of others or in their own, which a changelog restores. Changelogs show that, too, while the
    object store does not answer. Under ``at_least_once`` that is allowed."""
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
    if _has_offsets(inputs, at_once) or not (shown := _has_run(layout, config, remote, admin)):
        return
    if _has_offsets(inputs, properties):
        return
    read_again = [partition for task_id in without_snapshots for partition in layout.plans[task_id].inputs]
    if unknown := with_records(admin, read_again):
        named = ", ".join(map(str, unknown[:_NAMED])) + (", ..." if len(unknown) > _NAMED else "")
        raise TopicError(
            f"group {config.application_id} has no offsets, and {shown}: nothing shows how far {named} were "
            "read, and what is read again would count twice. Set the group's offsets to where the application had "
            "stopped (kafka-consumer-groups --reset-offsets), or start again from nothing (streamsapp reset)"
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


def _has_run(
    layout: ApplicationLayout, config: StreamsConfig, remote: RemoteStateConfig, admin: TopicAdmin
) -> str | None:
    """Return how a snapshot shows that the group had offsets: it stands at others than a bootstrap left. Changelogs
    show it while the object store does not answer."""
    objects = open_store(remote)
    try:
        bootstrap = RemoteStore(objects, config.application_id, remote).bootstrap()
        for chain in chains_of(objects, config.application_id):
            _, newest = chain.newest()
            begun = () if bootstrap is None else bootstrap.inputs(chain.task_id)
            if newest is not None and newest.inputs not in ((), begun):
                return "its snapshots show that it had some"
    except ObjectStoreError as error:
        log.warning("whether the application has snapshots is not known: %s", error)
        _, highs = ends(admin, [each for plan in layout.plans.values() for each in plan.changelogs.values()])
        if any(highs.values()):
            return f"its changelogs are not empty (the object store does not answer, start again when it does: {error})"
    return None
