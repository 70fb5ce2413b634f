"""The records on their way to each partition, and the meaning of a broker's answer for them. Pure; the sender's thread.

One batch of a partition is on its way at a time, and its sequence number moves with the acknowledgement alone. So a
batch that is sent again has the number it had, and the broker recognises a batch that it has got already (KIP-98).
Records that a broker refuses leave no gap before the next ones.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from confluent_kafka import KafkaError

from streamsapp.kafka.producing.wire import Name, Producer
from streamsapp.kafka.refusals import OF_A_RECORD, OF_TOPIC

#: Sequence numbers begin again after this one.
_HIGHEST = 2**31 - 1


class Verdict(Enum):
    """The end of a batch's way, or of one try."""

    WRITTEN = auto()
    #: To be sent again, perhaps to another broker.
    AGAIN = auto()
    #: None of its records can be written.
    REFUSED = auto()
    #: A record in it cannot be written: alone it is refused, among others it has to be found.
    SEARCHED = auto()
    #: The broker and the producer do not agree any more about the records that were written.
    LOST = auto()


_PASSING = frozenset(
    {
        KafkaError.INVALID_MSG,  # damaged on its way
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
#: The partition has another leader than it was thought to have.
ELSEWHERE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


def verdict(code: int) -> Verdict:
    """The meaning of an error code for a batch."""
    if code in (KafkaError.NO_ERROR, KafkaError.DUPLICATE_SEQUENCE_NUMBER):
        return Verdict.WRITTEN
    if code in _PASSING:
        return Verdict.AGAIN
    if code in OF_TOPIC:
        return Verdict.REFUSED
    return Verdict.SEARCHED if code in OF_A_RECORD else Verdict.LOST


@dataclass(slots=True)
class RecordBatch:
    """Records that were taken out of the outbox, and are not acknowledged."""

    data: bytes
    count: int
    #: When the first of them was handed over, in monotonic seconds.
    since: float


@dataclass(slots=True)
class Partition:
    """A partition to which something was sent, or is to be."""

    name: Name
    #: That of the next record, as this producer counts them.
    sequence: int = 0
    producer: Producer | None = None
    #: To be sent before anything that waits in the outbox.
    batches: deque[RecordBatch] = field(default_factory=deque)
    #: Says whether the outbox may have more.
    more: bool = False
    #: Says whether it is its turn before long, or a broker has been asked.
    queued: bool = False
    #: Not to be sent before, in monotonic seconds.
    not_before: float = 0.0

    def sequence_of(self, producer: Producer) -> int:
        """Returns the number of the first batch, while nothing is on its way; an epoch begins with 0 (KIP-98)."""
        if producer != self.producer:
            self.producer, self.sequence = producer, 0
        return self.sequence

    def written(self) -> RecordBatch:
        """The first batch is acknowledged, and returned."""
        batch = self.batches.popleft()
        self.sequence = (self.sequence + batch.count) & _HIGHEST
        return batch
