"""The rules for topics that were deleted and created again (docs/decisions/0038-positions.md).

An offset belongs to one topic. If a name stands for another topic than the one that a position belongs to:

    source topic        all of its records are unread: it is read from its beginning, whatever the reset policy says; a
                        store that it restores begins empty
    repartition topic   records were lost for good: the task does not start, or the instance ends

Called on the polling and the restoration thread, and where tasks are run in batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from streamsapp.errors import TaskCorruptedError, TopicError
from streamsapp.record import UNKNOWN_TOPIC, TaskId, TopicIdentity, TopicPartition
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.tasks.states import TaskRole
from streamsapp.tasks.stream_task import StreamTask
from streamsapp.tasks.task_plan import ConsumedOffset

log = logging.getLogger(__name__)


def settle_inputs(
    task: StreamTask,
    positions: Mapping[TopicPartition, ConsumedOffset],
    beginning: Callable[[TopicPartition], int],
) -> dict[TopicPartition, ConsumedOffset]:
    """The positions from which a task goes on in its inputs, from the kept ones; ``beginning`` returns the first
    offset of a partition. Raises ``TopicError`` where records were lost."""
    return {
        each: at
        for each, kept in positions.items()
        if (at := _settled(task, each, kept, task.topics.get(each.topic), beginning)) is not None
    }


def _settled(
    task: StreamTask,
    partition: TopicPartition,
    kept: ConsumedOffset,
    now: TopicIdentity | None,
    beginning: Callable[[TopicPartition], int],
) -> ConsumedOffset | None:
    if now is None or not now.is_other(kept.topic):
        return kept
    told = task.role is TaskRole.ACTIVE
    if now.is_elsewhere(kept.topic):
        return _of_another_cluster(task, partition, kept, now, told=told)
    if told and partition.topic in task.plan.repartition_topics:
        raise lost_records(task.id, partition.topic)
    if told:
        tell_created_anew(task.id, partition, kept.topic, now)
    return replace(kept, offset=beginning(partition), topic=now, in_group=True)


def _of_another_cluster(
    task: StreamTask, partition: TopicPartition, kept: ConsumedOffset, now: TopicIdentity, *, told: bool
) -> ConsumedOffset | None:
    """A group's offsets are in its own cluster: a mirror has brought here, and translated, an offset that names another
    cluster. A snapshot's offsets were not translated."""
    if kept.in_group:
        if told:
            log.info("task %s: offset %d of %s was committed in %s, and brought here by a mirror: it is used in %s",
                     task.id, kept.offset, partition, kept.topic, now)  # fmt: skip
        return kept
    if told:
        log.warning("task %s: its snapshot stands at offset %d of %s in %s, and here it is %s: that is not used",
                    task.id, kept.offset, partition, kept.topic, now)  # fmt: skip
    return None


def offsets_of_others(
    committed: Mapping[TopicPartition, tuple[int, str]], topics: Mapping[str, TopicIdentity]
) -> list[TopicPartition]:
    """The partitions whose committed offsets belong to topics of the same cluster that were created anew since."""
    found = []
    for partition, (_, metadata) in committed.items():
        then, now = OffsetMetadata.decode(metadata).topic, topics.get(partition.topic, UNKNOWN_TOPIC)
        if now.is_other(then) and not now.is_elsewhere(then):
            found.append(partition)
    return found


def ended(topic: str) -> TopicError:
    """The error of a topic that is created anew while batches read it."""
    return TopicError(
        f"topic {topic} was deleted and created again while it was read; start again, and it is read from its beginning"
    )


def tell_created_anew(task_id: TaskId, partition: TopicPartition, before: TopicIdentity, now: TopicIdentity) -> None:
    """Log where a task goes on in a source topic."""
    log.warning(
        "task %s: topic %s was deleted and created again (%s before, %s now): %s is read from its beginning. "
        "Records of the topic before that were not read are lost; state that was made of it is kept",
        task_id, partition.topic, before, now, partition,
    )  # fmt: skip


def lost_records(task_id: TaskId, topic: str) -> TopicError:
    """The error of a repartition topic that was created anew."""
    return TopicError(
        f"task {task_id}: repartition topic {topic} was deleted and created again: records that the application had "
        "written to it and not read are lost. Start again from nothing (streamsapp reset); or, to go on without them, "
        "set the group's offsets of the topic (kafka-consumer-groups --reset-offsets --to-earliest), then restart"
    )


def table_replaced(task_id: TaskId, topic: str) -> TaskCorruptedError:
    """The error of a table whose source topic, which is its changelog, was created anew."""
    return TaskCorruptedError(
        f"topic {topic}, which restores a table of task {task_id}, was deleted and created again: it is read from its "
        "beginning"
    )
