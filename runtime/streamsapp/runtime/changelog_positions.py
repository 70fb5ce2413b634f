"""Looks up positions: those of stores, the ends of their changelogs, and the offsets where inputs continue.

Called on the restoration thread; ends of topics are also looked up where the tasks are laid out.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial

from streamsapp.errors import StateStoreError, TaskCorruptedError
from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.kafka.partition_offsets import Offsets
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.runtime.changelog_reader import ChangelogReader
from streamsapp.runtime.topics_created_anew import settle_inputs
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import ConsumedOffset

log = logging.getLogger(__name__)

#: An answer that takes longer may be that of a broker that stood still, and was replaced as the leader; it may also
#: have been asked who leads now, and learns that it does not within the time after which all is asked again. Seconds.
_LONG, _SETTLING = 2.0, 1.0


def ends(admin: TopicAdmin, partitions: Sequence[TopicPartition]) -> tuple[Offsets, Offsets]:
    """The first and the next offset of partitions; raises ``KafkaException`` if the broker does not answer for long.

    Open transactions count, too: the former owner's last one is committed, but its control records may not be there.
    """
    ask, began = partial(admin.ends, partitions), time.monotonic()
    found = repeated(ask, "looking up where topics begin and end")
    if time.monotonic() - began > _LONG:
        time.sleep(_SETTLING)
        found = repeated(ask, "looking up where topics begin and end once more")
    return found


def with_records(admin: TopicAdmin, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
    """The partitions that have records, in order; raises ``KafkaException`` as ``ends`` does."""
    lows, highs = ends(admin, partitions)
    return sorted(each for each in partitions if lows[each] < highs[each])


def settle_start(
    consumer: PartitionConsumer,
    task: StreamTask,
    committed: Mapping[TopicPartition, tuple[int, str]],
    snapshot: Mapping[TopicPartition, ConsumedOffset],
) -> None:
    """Set the offsets where an active task continues and up to which a replica of tables may go: those committed,
    unless the topic was created anew. For inputs without offsets in the group, it is the offset of the task's
    snapshot."""
    known = {each: ConsumedOffset.committed(*committed[each]) for each in task.plan.inputs if each in committed}
    snapshot = {each: at for each, at in snapshot.items() if each in task.plan.inputs}
    task.start_offsets = settle_inputs(task, {**snapshot, **known}, partial(_beginning, consumer))
    if adopted := sorted(snapshot.keys() - known.keys()):
        named = ", ".join(map(str, adopted))
        log.info("task %s: the group has no offsets of %s; it goes on where its snapshot stands", task.id, named)


def _beginning(consumer: PartitionConsumer, partition: TopicPartition) -> int:
    found = consumer.watermarks(partition, cached=False)
    return 0 if found is None else found[0]


def refuse_to_repeat(task: StreamTask, stores: Mapping[str, int]) -> None:
    """Raises ``StateStoreError`` if a restored task is to go on where its snapshot stands, as the group has no offsets,
    and has state of later records. These would count twice. ``stores`` are the snapshot's changelog offsets."""
    adopted = {each: at.offset for each, at in task.start_offsets.items() if not at.in_group}
    own = {store: offset for store, offset in stores.items() if store not in task.plan.source_changelogs}
    for store, offset in own.items() if adopted else ():
        stands = task.stores.changelog_offset(store) or 0
        if stands > offset:
            at = ", ".join(f"offset {position} of {each}" for each, position in sorted(adopted.items()))
            raise StateStoreError(
                f"task {task.id}: the group has no offsets of its inputs any more. Its last snapshot stands at {at}, "
                f"and its state goes further: store {store} stands at offset {stands} of its changelog, the snapshot "
                f"at {offset}. Records read since would count twice: set the group's offsets to where the application "
                "had stopped (kafka-consumer-groups --reset-offsets), or start again from nothing (streamsapp reset)"
            )


def refuse_to_begin_anew(admin: TopicAdmin, task: StreamTask, unknown: Exception | None) -> None:
    """Raises ``StateStoreError`` if no source says where a restored task goes on, its state shows that it ran, and the
    object store does not report (``unknown``) where its last snapshot stands. The reset policy would take read records
    for unread ones, or unread records for read ones."""
    if unknown is None or task.start_offsets:
        return
    stands = {store: task.stores.changelog_offset(store) or 0 for store in task.plan.changelogs}
    store = max(stands, key=stands.__getitem__, default="")
    # A punctuator writes state without having read anything.
    if stands.get(store) and (unread := with_records(admin, list(task.plan.inputs))):
        raise StateStoreError(
            f"task {task.id}: the group has no offsets of {', '.join(map(str, unread))}, and its state is not new: "
            f"store {store} stands at offset {stands[store]} of its changelog. The object store does not report "
            f"the task's position ({unknown}): start again when it does, if it was away, set the group's offsets to "
            "where the application had stopped (kafka-consumer-groups --reset-offsets), or start again from nothing "
            "(streamsapp reset)"
        )


def locate(task: StreamTask, lows: Offsets, highs: Offsets) -> list[ChangelogReader]:
    """A reader for each store of a task, at the store's position. Raises ``TaskCorruptedError`` for a store that stands
    where its changelog is not."""
    found = []
    for store, partition in task.plan.all_changelogs.items():
        low, high = lows[partition], highs[partition]
        shared = store in task.plan.source_changelogs
        if shared:
            consumed = task.start_offsets.get(partition)
            high = low if consumed is None else min(high, consumed.offset)
        stored = task.stores.changelog_offset(store)
        if stored is not None and not low <= stored <= max(high, low):
            raise TaskCorruptedError(
                f"store {store} stands at offset {stored} of {partition}, which has offsets {low} to {high}"
            )
        # A replica knows of control records that its store does not.
        position = max(low if stored is None else stored, task.changelog_positions.get(store, 0))
        if task.role is TaskRole.ACTIVE:
            found.append(ChangelogReader(task, store, partition, position, end=high))
        else:
            found.append(ChangelogReader(task, store, partition, position, limit=high if shared else None))
    return found
