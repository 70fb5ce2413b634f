"""The cut of a planned hand-over: the mark in an owner's last commit of a task, from which its heir goes on at once.

    leader ── assignment: a number, the tasks on their way, the heir of each ──► all members
    owner  ── last commit of a task, with the number beside its offsets ───────► coordinator ◄── heir, again and again

So no rebalance stands between the owner's last result and the heir's first one (decision 55). Used on the membership's
thread; the answer is data of another member: only whether the number is there counts.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError

from streamsapp.brokers.errors import UnreachableError
from streamsapp.kafka.offset_fetch import OffsetFetchRequest
from streamsapp.membership.coordinator import ELSEWHERE, REQUEST, GroupCoordinator
from streamsapp.record import TaskId, TopicPartition
from streamsapp.serdes.offset_metadata import OffsetMetadata


def new_number() -> int:
    """The number of the next cut. It is drawn, so that no mark of an earlier hand-over is taken for this one's."""
    return 1 + random.getrandbits(62)


async def find(
    coordinator: GroupCoordinator, group: str, tasks: Mapping[TaskId, Collection[TopicPartition]], number: int
) -> frozenset[TaskId]:
    """The tasks among these whose last commit has this number. ``tasks`` has the partitions that each one reads.

    Offsets of an open transaction do not count before it is committed. A commit is seen whole or not at all, so the
    number beside one partition's offset says it for all. Raises ``UnreachableError``.
    """
    partitions = {each for reads in tasks.values() for each in reads}
    answer = await coordinator.request(OffsetFetchRequest(group, partitions, stable=True), REQUEST)
    if answer.error_code in ELSEWHERE:
        coordinator.forget()
    if answer.error_code:
        raise UnreachableError(f"the group's offsets are not known now: {KafkaError(answer.error_code).str()}")
    marked = {
        each.name
        for each in answer.offsets
        if not each.error_code and each.metadata and OffsetMetadata.decode(each.metadata).cut == number
    }
    return frozenset(task for task, reads in tasks.items() if not marked.isdisjoint(reads))
