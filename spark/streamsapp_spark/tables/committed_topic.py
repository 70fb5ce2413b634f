"""The committed records of a topic, as ranges of offsets that a streaming source reads.

Used by the sources of this package: offsets are planned in a Python process of Spark's on the driver's machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

import msgspec
from confluent_kafka import KafkaException

from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import StreamsError, TopicError
from streamsapp.kafka.reachability import check_reachable
from streamsapp.kafka.retry import repeated
from streamsapp.kafka.topics import TopicAdmin
from streamsapp.record import TopicPartition
from streamsapp.remote.bootstraps import HistoryRange

T = TypeVar("T")


class TopicOffset(msgspec.Struct, frozen=True):
    """A place in a topic, as Spark's checkpoint has it."""

    #: The next record of each partition. A partition that is not there begins with its first record.
    offsets: dict[str, int] = {}
    #: The topic's id, and the time when it was asked, in milliseconds; none before the first batch.
    topic: str = ""
    at: int = 0

    @classmethod
    def of(cls, document: Any, source: str, anew: str) -> Self:
        """Raises ``StreamsError``, with the remedy ``anew``, for what no ``source`` of this kind has written."""
        try:
            found = msgspec.convert(document, cls)  # noqa: TID251 - a decoded document of one thread
        except msgspec.ValidationError as error:
            raise StreamsError(f"the checkpoint has no offsets of {source}: {error}; {anew}") from error
        if not all(name.isascii() and name.isdecimal() and offset >= 0 for name, offset in found.offsets.items()):
            raise StreamsError(f"the checkpoint has offsets that no topic has: {document!r:.200}; {anew}")
        return found

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class CommittedTopic:
    """The offsets and the settings of a topic, as Kafka has them."""

    def __init__(self, config: StreamsConfig, topic: str, *, missing: str, remedy: str, anew: str) -> None:
        """``missing`` and ``remedy`` are the message for a topic that does not exist; ``anew`` is the remedy where
        records are gone. Raises ``TopicError`` for a topic that does not exist."""
        self.topic = topic
        self._anew = anew
        check_reachable(config.bootstrap_servers)
        self._admin = TopicAdmin(client_properties.admin(config))
        count = self._admin.partition_counts().get(topic)
        if count is None:
            raise TopicError(f"{missing}: {self._admin.why_missing(topic)}. {remedy}")
        self._partitions = [TopicPartition(topic, number) for number in range(count)]

    @property
    def numbers(self) -> frozenset[str]:
        """Returns its partitions, as offsets name them."""
        return frozenset(str(each.partition) for each in self._partitions)

    def ends(self) -> dict[str, int]:
        """Returns by partition the offset behind the last record that is committed."""
        return self._offsets(earliest=False)

    def topic_id(self) -> str:
        return self._asked(lambda: self._admin.topic_ids([self.topic]))[self.topic]

    def setting(self, name: str) -> str:
        return self._asked(lambda: self._admin.setting(self.topic, name))

    def ranges(self, start: TopicOffset, end: TopicOffset) -> Iterator[HistoryRange]:
        """Yields the partitions that have something to read. Raises ``StreamsError`` if some of it is gone."""
        if len({end.topic, self.topic_id(), start.topic or end.topic}) > 1:
            raise StreamsError(f"topic {self.topic} was deleted and made anew since then; {self._anew}")
        firsts = self._offsets(earliest=True)
        for of in self._partitions:
            number = str(of.partition)
            first, until = firsts[number], end.offsets.get(number, 0)
            # Records of a first batch may be gone when it runs again.
            begin = start.offsets.get(number, min(first, until))
            if begin != until:
                self._check(of, begin, until, first)
                yield HistoryRange(of.topic, of.partition, begin, until)

    def _check(self, of: TopicPartition, begin: int, until: int, first: int) -> None:
        if begin < first:
            raise StreamsError(
                f"{of} begins with offset {first}, and {begin} is the next one to read: Kafka deleted records; "
                f"{self._anew}"
            )
        if begin > until:
            raise StreamsError(
                f"{of} ends at offset {until}, and {begin} is the next one to read: records are lost; {self._anew}"
            )

    def _offsets(self, *, earliest: bool) -> dict[str, int]:
        found = self._asked(
            lambda: self._admin.request_offsets(self._partitions, earliest=earliest, stable=not earliest).result()
        )
        return {str(partition.partition): offset for partition, offset in sorted(found.items())}

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return repeated(ask, f"asking for {self.topic}")
        except KafkaException as error:
            raise TopicError(f"Kafka does not describe {self.topic}: {error.args[0].str()}") from error
