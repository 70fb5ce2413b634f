"""Records on their way to the brokers, as tasks and stores hand them over and a producer takes them. Plain data.

Made on processing threads and, for changelogs, on the polling thread; the thread of the producer sends them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from streamsapp.record import Headers

#: ``(topic, value, key, partition, None, None, timestamp_ms, headers)``: the positional arguments of the producer's
#: ``produce``, so that sending is one starred call per record. Partition -1 leaves the choice to the producer, which
#: hashes the key's bytes as Kafka's Java producer does.
OutputRecord: TypeAlias = tuple[str, bytes | None, bytes | None, int, None, None, int, Headers | None]


class ChangelogFormat(Protocol):
    """The form that the entries of a store have in its changelog."""

    #: Says whether changelog records carry headers.
    has_headers: bool
    #: If :meth:`raw` writes whole numbers big-endian in so many bytes; 0 for everything else.
    number_size: int

    def raw(self, stored: Any) -> bytes:
        """Returns the changelog's value of something that is not deleted."""
        ...

    def headers(self, entry: Any) -> Headers | None:
        """Returns the changelog's headers of an entry or a deletion; asked only if ``has_headers``."""
        ...


@dataclass(frozen=True, slots=True)
class ChangelogSlice:
    """Some entries on their way to a partition of a changelog, by the key that they have there."""

    topic: str
    partition: int
    #: A list, or some of a log of cells.
    entries: Sequence[tuple[bytes, Any]]
    format: ChangelogFormat

    def __len__(self) -> int:
        return len(self.entries)

    def part(self, begin: int, end: int | None = None) -> ChangelogSlice:
        """Returns some of them."""
        return replace(self, entries=self.entries[begin:end])

    def records(self) -> list[OutputRecord]:
        """Returns the records to produce."""
        topic, partition, raw = self.topic, self.partition, self.format.raw
        if self.format.has_headers:
            headers = self.format.headers
            return [
                (
                    topic,
                    None if entry[0] is None else raw(entry[0]),
                    key,
                    partition,
                    None,
                    None,
                    entry[1],
                    headers(entry),
                )
                for key, entry in self.entries
            ]
        return [
            (topic, None if stored is None else raw(stored), key, partition, None, None, timestamp, None)
            for key, (stored, timestamp) in self.entries
        ]
