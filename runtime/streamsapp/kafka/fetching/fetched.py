"""The records that a consumer fetches, and the client that it fetches them with.

Pure; used on the thread that a consumer belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from confluent_kafka import KafkaError

from streamsapp import native
from streamsapp.errors import TopicError, TopicGoneError
from streamsapp.record import InputRecord, TopicIdentity, TopicPartition

#: Errors of topics that may not be read.
NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


#: The topics that names stand for.
Topics: TypeAlias = Mapping[str, TopicIdentity]
NO_TOPICS: Topics = {}


@dataclass
class Fetched:
    """The result of one poll."""

    #: Records in offset order, per partition.
    records: list[tuple[TopicPartition, Sequence[InputRecord]]] = field(default_factory=list)
    #: The same of partitions that are fetched packed.
    packed: list[tuple[TopicPartition, native.PackedRecords]] = field(default_factory=list)
    #: Partitions whose end was reached, with the offset the next record will have.
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    #: Partitions whose position the broker no longer (or not yet) has.
    out_of_range: list[TopicPartition] = field(default_factory=list)
    #: Partitions of a topic that was deleted and created again since they were assigned. No record of the new topic is
    #: delivered before they are assigned anew.
    replaced: list[TopicPartition] = field(default_factory=list)
    #: Says whether brokers have more records of these partitions, or may have more and do not say.
    more: bool = False
    #: Bytes of the batches that these records were in.
    opened: int = 0

    @property
    def count(self) -> int:
        """The number of records."""
        return sum([len(records) for _, records in self.records]) + sum([len(packed) for _, packed in self.packed])

    def __bool__(self) -> bool:
        return bool(self.records or self.packed or self.ends or self.out_of_range or self.replaced)


#: Says which partitions are of other topics; ``None``: it is not known yet. Raises ``KafkaException`` when the brokers
#: do not answer.
Confirmation: TypeAlias = Callable[[], list[TopicPartition] | None]


class ConsumerClient(Protocol):
    """A client as ``PartitionConsumer`` has it; the configuration chooses which (``fetching.fetcher``,
    ``librdkafka.consumer``)."""

    def assign(
        self,
        positions: Mapping[TopicPartition, int],
        packed: Collection[TopicPartition] = (),
        topics: Topics = NO_TOPICS,
    ) -> None:
        """Begin with partitions that were not assigned. Partitions to be ``packed`` are delivered packed where that is
        possible, and like others elsewhere. ``topics`` are the topics that the positions belong to; by default the
        topics that exist now."""

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions, and that they were paused."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing of them."""

    def hold(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver nothing of them for a moment: a client that can keeps what it has fetched."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Deliver again."""

    def fetch(self, limit: int, timeout: float, *, at_once: bool) -> Fetched:
        """Up to ``limit`` records, or empty after ``timeout`` seconds, or when there is something else to do. With
        ``at_once``, what brokers have now."""

    def expect_partitions(self, seconds: float) -> None:
        """Within so many seconds partitions may be assigned that are to be asked for at once."""

    def confirm(self) -> Confirmation:
        """Begin to find out whether all records that were delivered so far are of the topics that their positions
        belong to."""

    def doubts(self, topic: str) -> bool:
        """Return whether the last records of a topic of this name may be of another one, as far as it is known."""

    def watermarks(self, partition: TopicPartition) -> tuple[int, int] | None:
        """The first offset and the end, as far as they are known here."""

    def close(self) -> None:
        """Stop."""


def not_authorised(what: object, text: str) -> TopicError:
    """The error of a topic that may not be read."""
    return TopicError(f"not authorised to read {what}: {text}; grant READ on the topic")


def gone(topic: str, text: str) -> TopicGoneError:
    """The error of a topic that was deleted."""
    return TopicGoneError(topic, f"topic {topic} no longer exists: {text}; create it again, then restart")


def without(partition: TopicPartition, count: int) -> TopicError:
    """The error of a topic that was made anew with fewer partitions."""
    return TopicError(
        f"topic {partition.topic} has no partition {partition.partition}, and {count} in all; create it again with as"
        " many as it had, then restart"
    )
