"""Input at a steady rate, written by an idempotent producer on a thread of its own."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter

from confluent_kafka import KafkaError, Message, Producer

from application import KEYS, Topics, key_name
from topic_reader import QUIET

#: Records are written in bursts this far apart, in seconds.
_TICK = 0.02
_FLUSH = 60.0


class Load:
    """Writes each key's records, numbered, until it is stopped; every key has its partition."""

    def __init__(self, bootstrap_servers: str, topics: Topics, seed: int, rate: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                # A broker takes any number for the first of a producer it does not know. With several requests on their
                # way, a refused first batch may follow the second one, and is taken for a repetition: it is lost.
                "max.in.flight.requests.per.connection": 1,
                "linger.ms": 5,
                # As long as a broker may be away: a record that is given up would be a hole in the input.
                "message.timeout.ms": 300_000,
                **QUIET,
            }
        )
        self._topic, self._partitions = topics.source, topics.partitions
        self._random = random.Random(seed)
        self._rate = rate
        self._extra = 0
        self._end = threading.Event()
        self._errors: list[str] = []
        #: How many records of each key were written.
        self.sent: Counter[str] = Counter()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def burst(self, records: int) -> None:
        """So many more, at once."""
        self._extra += records

    def stop(self) -> list[str]:
        """Stop and wait until the broker has everything; returns the errors."""
        self._end.set()
        self._thread.join()
        if left := self._producer.flush(_FLUSH):
            self._errors.append(f"{left} input records could not be written within {_FLUSH:.0f} s")
        return self._errors

    def _run(self) -> None:
        began, written = time.monotonic(), 0
        while not self._end.wait(_TICK):
            due = int((time.monotonic() - began) * self._rate) + self._extra
            for _ in range(written, due):
                self._write()
            written = due
            self._producer.poll(0)

    def _write(self) -> None:
        # Partitions take turns, so that none is ever without input for long.
        partition = self.sent.total() % self._partitions
        number = self._random.randrange(KEYS // self._partitions) * self._partitions + partition
        key = key_name(number)
        record = {"k": key, "s": self.sent[key], "n": self._random.randrange(1000)}
        self._producer.produce(
            self._topic, json.dumps(record).encode(), key.encode(), partition, on_delivery=self._delivered
        )
        self.sent[key] += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._errors.append(f"an input record was not written: {error}")
