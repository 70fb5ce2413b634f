"""The settings of a fetcher, from librdkafka's properties. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from streamsapp.brokers.reaching import Reaching, reaching
from streamsapp.brokers.security import Security
from streamsapp.config.client_properties import ClientProperties

#: Bytes of an answer, and of a partition in it where that is little: so much comes fast enough to be waited for.
_ANSWER, _LEAST = 4 << 20, 16 << 10
#: A batch may be decompressed to so many times the bytes of a partition in an answer, however little memory there is.
_BATCH = 16


@dataclass(frozen=True)
class FetchSettings:
    """Times in seconds, sizes in bytes."""

    client_id: str
    security: Security
    committed_only: bool
    #: The rack of this client, as ``broker.rack`` names it; empty: unknown.
    rack: str
    #: Says whether ends of partitions are reported.
    tells_ends: bool
    #: Says whether checksums of record batches are looked at, as they are unless the user says otherwise.
    checked: bool
    #: How long a broker may wait for so many bytes.
    wait: float
    least: int
    #: Between two tries.
    backoff: float
    #: Of all that is asked for together, and of one partition in it.
    answer: int
    partition: int
    #: Of all that was fetched and not taken.
    queue: int
    #: The largest answer that is taken.
    most: int
    #: Says whether a record comes in place of a batch for which there is no room, which is an error otherwise.
    has_handler: bool
    reaching: Reaching
    #: Between two look-ups of leaders.
    metadata_age: float

    @cached_property
    def most_opened(self) -> int:
        """Bytes that one batch may be decompressed to; batches with about as many are taken at a time."""
        return max(self.queue, _BATCH * self.partition)

    def of_each(self, partitions: int) -> int:
        """Bytes to ask for of each of so many partitions: the queue has room for two answers of all."""
        return min(self.partition, max(_LEAST, self.queue // (2 * max(1, partitions))))


def fetch_settings(properties: ClientProperties, *, has_handler: bool = False) -> FetchSettings:
    """The settings, from values that the configuration has checked (``config.known_properties``). Defaults are
    librdkafka's. Older names come first: an older name that is set comes from the user, where a newer one may be a
    default of this package."""

    def number(default: int, *keys: str) -> int:
        return next((int(properties[key]) for key in keys if key in properties), default)

    def says(key: str, value: str, default: str) -> bool:
        return str(properties.get(key, default)).lower() == value

    return FetchSettings(
        client_id=str(properties.get("client.id", "rdkafka")),
        security=Security.of(properties),
        rack=str(properties.get("client.rack", "")),
        committed_only=says("isolation.level", "read_committed", "read_committed"),
        tells_ends=says("enable.partition.eof", "true", "false"),
        checked=says("check.crcs", "true", "true"),
        wait=number(500, "fetch.wait.max.ms") / 1000,
        least=number(1, "fetch.min.bytes"),
        backoff=number(500, "fetch.error.backoff.ms") / 1000,
        answer=min(_ANSWER, number(52_428_800, "fetch.max.bytes")),
        partition=number(1_048_576, "fetch.message.max.bytes", "max.partition.fetch.bytes"),
        queue=number(65_536, "queued.max.messages.kbytes") * 1024,
        most=number(100_000_000, "receive.message.max.bytes"),
        has_handler=has_handler,
        reaching=reaching(properties),
        metadata_age=float(properties.get("metadata.max.age.ms", 300_000)) / 1000,
    )
