"""The tasks of a commit that it is the last one of here: their offsets carry the cut from which their heirs go on.

Used by the commit, on the polling thread. Once a cut is sent, its task is the heir's: the instance does not say any
more that it has the task, also where no answer comes. So the cut is sent only by a commit that a join waits for, and
such a commit is not tried again in another generation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from confluent_kafka import KafkaException

from streamsapp.kafka.sending import AbortableError, NothingCommittedError
from streamsapp.record import TopicPartition
from streamsapp.tasks.stream_task import TaskEpoch

#: A commit's offsets with their metadata.
Offsets: TypeAlias = dict[TopicPartition, tuple[int, str]]
#: Says if the commit under way may have the cut of this number.
Cuts: TypeAlias = Callable[[int], bool]


class LastCommits:
    """The offsets of one commit, from try to try."""

    def __init__(self, epochs: Sequence[TaskEpoch], cuts: Cuts, *, transactional: bool) -> None:
        self._epochs = list(epochs)
        self._cuts = cuts
        self._transactional = transactional
        self._tried = False

    def offsets(self) -> Offsets:
        """The offsets to be committed now. Raises ``AbortableError`` if the group has assigned anew since the try
        before, and that one had a cut."""
        for epoch in self._epochs:
            may = bool(epoch.cut and epoch.offsets) and self._cuts(epoch.cut)
            if epoch.task.control.handed_over and not may:
                raise AbortableError("the group assigns anew, and tasks that go to others are not committed yet")
            # Of a transaction, the offsets of the first try count.
            if may and not (self._tried and self._transactional):
                epoch.task.control.handed_over = True
        self._tried = True
        return {
            partition: (consumed.offset, consumed.metadata_with(epoch.cut if epoch.task.control.handed_over else 0))
            for epoch in self._epochs
            for partition, consumed in epoch.offsets.items()
        }

    def refused(self, error: KafkaException) -> None:
        """A try did not go through. Where the coordinator has refused it the tasks are still this instance's. Where it
        did not answer their heirs may go on already, and another try would take them back to this one's offsets."""
        if self._transactional:
            return
        if isinstance(error, NothingCommittedError):
            for epoch in self._epochs:
                epoch.task.control.handed_over = False
        else:
            self._epochs = [epoch for epoch in self._epochs if not epoch.task.control.handed_over]
