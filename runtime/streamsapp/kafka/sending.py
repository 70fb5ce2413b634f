"""The sending of records as a producer has it, and the two ways to send them. The runtime's own client sends whole
record batches (``producing.client``), and librdkafka's producer sends records (``librdkafka.producer``).

One of them is chosen when a producer is made, by ``client`` of the configuration. Used on the producer's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from confluent_kafka import KafkaError, KafkaException

from streamsapp.errors import StreamsError
from streamsapp.kafka.group_member import Member
from streamsapp.outgoing import ChangelogSlice, OutputRecord
from streamsapp.record import InputRecord, TopicPartition

#: Called with a record that cannot be taken.
OnRefused: TypeAlias = Callable[[KafkaError, InputRecord], None]
#: A record that was not written, and why.
Failure: TypeAlias = tuple[KafkaError, InputRecord]
#: Offsets with their metadata.
Offsets: TypeAlias = Mapping[TopicPartition, tuple[int, str]]


class NothingCommittedError(KafkaException):
    """The coordinator has refused a commit of offsets as a whole."""


class AbortableError(StreamsError):
    """The transaction cannot be committed: abort it and go on from the last commit."""


class DeliveryTimeoutError(AbortableError):
    """A record could not be written in time, nor can it be any more."""


class Sending(Protocol):
    """Records on their way to the brokers, and the transaction that they are part of. Requests raise
    ``KafkaException``."""

    def send(self, records: list[OutputRecord], on_refused: OnRefused) -> list[OutputRecord]:
        """Take records; returns the records for which there is no room. They may wait for the next ``poll``, ``flush``,
        ``no_more`` or ``begin_commit``."""

    def send_changes(self, changes: ChangelogSlice, on_refused: OnRefused) -> ChangelogSlice:
        """Take entries of a store, for its changelog; returns as ``send`` does."""

    def poll(self, timeout: float) -> None:
        """Wait for something to happen, up to so many seconds. Raises ``AbortableError`` when another client has to
        take this one's place."""

    def flush(self, timeout: float) -> int:
        """Wait for everything to be acknowledged, up to so many seconds; returns how many records are not. If a commit
        has begun, its end is waited for."""

    def no_more(self) -> None:
        """Nothing follows for as long as records wait for others (``linger.ms``): they may be sent at once."""

    def take_failures(self) -> list[Failure]:
        """The records that could not be written since the last call."""

    def check_failure(self, error: KafkaError, record: InputRecord) -> None:
        """Raises ``AbortableError`` where the others cannot go on without a record that was not written."""

    def end_of(self, partition: TopicPartition) -> int | None:
        """The offset after the last record that was written to a partition; ``None`` where it is not known."""

    def purge(self) -> None:
        """Send nothing more, and forget unsent records."""

    def init_transactions(self, timeout: float) -> None:
        """Fence the producer that used the transactional id before."""

    def begin_transaction(self) -> None:
        """Begin one; all that is sent from now on is part of it."""

    def begin_commit(self, offsets: Offsets, member: Member) -> bool:
        """Begin ``send_offsets`` and ``commit_transaction`` without waiting, where that is possible; the latter gets
        the result. All records were sent, and none follows unless one of them cannot be written."""

    def send_offsets(self, offsets: Offsets, member: Member, timeout: float) -> None:
        """Commit offsets for a group with the transaction."""

    def commit_transaction(self, timeout: float) -> None:
        """End it; everything that was sent is acknowledged."""

    def abort_transaction(self, timeout: float) -> None:
        """End it without its records."""
