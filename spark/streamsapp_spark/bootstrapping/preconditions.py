"""Checks the preconditions of a bootstrap: no process runs the application, and it has no state of its own yet.

Runs on the driver, before anything is written and once more after a bootstrap is begun: instances look for one when
they have joined their group, so one of both sees the other.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsapp.config import StreamsConfig
from streamsapp.errors import ManifestError, TopicError
from streamsapp.kafka.groups import GroupAdmin
from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import BootstrapBegun, BootstrapDone, Bootstraps, BootstrapState
from streamsapp.remote.manifest_chain import chains_of
from streamsapp.remote.object_store import ObjectStore
from streamsapp_spark.history.end_offsets import PartitionOffsets
from streamsapp_spark.snapshots.publisher import WRITER

INSTEAD = "stop every instance and run `streamsapp reset` to make the state again, or give it another application id"


def refuse_running(group: GroupAdmin, application_id: str) -> None:
    """Raises ``ManifestError`` if the application's group has members."""
    reason = group.activity()
    if reason is not None:
        raise ManifestError([f"{application_id} is running: {reason}; {INSTEAD}"])


def has_run(config: StreamsConfig, committed: Mapping[TopicPartition, int]) -> bool:
    """Says whether an application with these committed offsets has read anything. ``streamsapp reset`` sets them to the
    first records, which may have been deleted since."""
    read = {each: offset for each, offset in committed.items() if offset}
    try:
        firsts = PartitionOffsets(config, read).lows if read else {}
    except TopicError:  # one of them is not there any more
        return True
    return any(offset > firsts[each] for each, offset in read.items())


def refuse_used(
    config: StreamsConfig, group: GroupAdmin, objects: ObjectStore, internal: Mapping[TopicPartition, int]
) -> None:
    """Raises ``ManifestError`` if the application has state already. ``internal`` has the records of its internal
    topics."""
    application_id = config.application_id
    if has_run(config, group.committed()):
        raise ManifestError([f"{application_id} has run before: it has committed offsets; {INSTEAD}"])
    for partition, records in sorted(internal.items()):
        if records:
            raise ManifestError([f"{application_id} has run before: {partition} has records; {INSTEAD}"])
    for chain in chains_of(objects, application_id):
        _, newest = chain.newest()
        if newest is not None and newest.instance != WRITER:
            wrote = f"{newest.instance} wrote a snapshot of task {chain.task_id} at {newest.written_at}"
            raise ManifestError([f"{application_id} has run before: {wrote}; {INSTEAD}"])


def begin(bootstraps: Bootstraps, group: GroupAdmin, application_id: str, begun: BootstrapBegun) -> BootstrapState:
    """Begins the bootstrap, from where on no instance starts. Raises ``ManifestError``, and has begun nothing, if one
    joined meanwhile: it may not have seen that it began."""
    bootstrap = bootstraps.begin(1, begun)
    try:
        refuse_running(group, application_id)
    except BaseException:
        bootstrap.withdraw()
        raise
    return bootstrap


def has_gone_on(config: StreamsConfig, group: GroupAdmin, done: BootstrapDone) -> bool:
    """Says whether the application has run since its bootstrap."""
    adopted = {TopicPartition(each.topic, each.partition): each.offset for task in done.tasks for each in task.inputs}
    others = {each: offset for each, offset in group.committed().items() if adopted.get(each) != offset}
    return has_run(config, others)
