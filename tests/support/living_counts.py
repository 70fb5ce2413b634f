"""Records of keys that come and go, and every update that ``count_while_alive`` (``killable.py``) must make of them."""

from __future__ import annotations

import random
import time
from collections import defaultdict

from instances import long, produce
from kafka_cluster import Kafka
from streamsapp.state.kinds.expiry import EXPIRES_AT

PARTITIONS = 2
TTL = 500
A_ROUND = 4_000
#: Of a key: the counts and deletions (``None``), each with its time.
Updates = dict[bytes, list[tuple[int | None, int]]]


class LivingCounts:
    """The input, and the updates that there have to be."""

    def __init__(self, kafka: Kafka) -> None:
        self.kafka = kafka
        self.source, self.sink = (kafka.create_topic(name, partitions=PARTITIONS) for name in ("in", "out"))
        self.truth: Updates = defaultdict(list)
        self._living: list[dict[bytes, tuple[int, int]]] = [{} for _ in range(PARTITIONS)]
        self._chosen = random.Random(7)
        self._now = [int(time.time() * 1000) - 2_000_000] * PARTITIONS

    def feed(self, count: int = A_ROUND, step_ms: int = 3) -> None:
        for partition in range(PARTITIONS):
            records = []
            for _ in range(count):
                self._now[partition] += self._chosen.randrange(step_ms)
                key = b"%d-%d" % (partition, self._chosen.randrange(600))
                records.append((key, b"v", self._now[partition]))
                self._count(partition, key)
            produce(self.kafka, self.source, records, partition=partition)

    def _count(self, partition: int, key: bytes) -> None:
        living, now = self._living[partition], self._now[partition]
        for over in [each for each, (_, until) in living.items() if until <= now]:
            self.truth[over].append((None, living.pop(over)[1]))
        counted = living.get(key, (0, 0))[0] + 1
        living[key] = counted, now + TTL
        self.truth[key].append((counted, now))

    @property
    def living(self) -> dict[bytes, int]:
        return {key: count for each in self._living for key, (count, _) in each.items()}

    def end(self) -> None:
        """Some time later: all is over but the two keys that say so."""
        for partition in range(PARTITIONS):
            self._now[partition] += 1_500_000
        self.feed(1)

    def updates(self) -> Updates:
        found: Updates = defaultdict(list)
        for message in self.kafka.read(self.sink):
            value = message.value()
            found[message.key() or b""].append((None if value is None else long(value), message.timestamp()[1]))
        return found

    def is_told(self) -> bool:
        """Says whether the last update of each key has come."""
        found = self.updates()
        return all(each in found and found[each][-1] == updates[-1] for each, updates in self.truth.items())

    def changelog(self, application_id: str) -> dict[bytes, int]:
        """The changelog as any reader has it that knows nothing of times, such as a JVM's store."""
        rows: dict[bytes, int] = {}
        for message in self.kafka.read(f"{application_id}-counts-changelog"):
            key, value = message.key() or b"", message.value()
            if value is None:
                rows.pop(key, None)
            else:
                rows[key] = long(value)
                until = message.timestamp()[1] + TTL
                assert message.headers() == [(EXPIRES_AT, until.to_bytes(8, "big"))]
        return rows
