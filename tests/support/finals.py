"""Records of many seconds, and the final counts that ``window_finals`` (``killable.py``) must make of them."""

from __future__ import annotations

import time
from collections import Counter
from random import Random
from typing import Any

from instances import counts_per_key, produce
from kafka_cluster import Kafka

_KEYS = 40
_PARTITIONS = 2


class Seconds:
    """Records whose time goes on from call to call; the last second stays open until there are more."""

    def __init__(self, kafka: Kafka, headers: list[tuple[str, Any]] | None = None) -> None:
        """``headers`` are those of every record."""
        self._kafka, self._headers = kafka, headers
        self.source = kafka.create_topic("seconds", partitions=_PARTITIONS)
        self.sink = kafka.create_topic("finals", partitions=_PARTITIONS)
        self._random = Random(11)
        # Not long ago: the broker deletes what the changelog of windows has of 1970.
        self._now = (int(time.time()) - 3600) * 1000
        self.truth: Counter[bytes] = Counter()

    def go_on(self, records: int) -> None:
        """More records, a millisecond apart."""
        keys = [f"key{self._random.randrange(_KEYS)}" for _ in range(records)]
        times = range(self._now, self._now + records)
        self._now += records
        written = [(key.encode(), b"x", at) for key, at in zip(keys, times, strict=True)]
        produce(self._kafka, self.source, written, self._headers)
        self.truth.update(b"%s@%d" % (key.encode(), at // 1000 * 1000) for key, at in zip(keys, times, strict=True))

    def end(self) -> None:
        """Close every second, in every partition."""
        far = self._now + 1_000_000
        produce(self._kafka, self.source, [(b"end%d" % number, b"x", far) for number in range(20)], self._headers)

    def closed(self, least: int) -> bool:
        """Says whether so many results have been sent."""
        return len(self._kafka.read(self.sink)) >= least

    def is_told(self) -> bool:
        """Says whether every result has been sent."""
        return self.closed(len(self.truth))

    def check(self) -> None:
        """Every result was sent once, and it is right."""
        sent = counts_per_key(self._kafka.read(self.sink))
        wrong = {
            key: (sent.get(key), self.truth[key])
            for key in sent.keys() | self.truth
            if sent.get(key) != [self.truth[key]]
        }
        assert wrong == {}, sorted(wrong.items())[:30]
