"""Reads topics, their records and their ends for the soak driver. Called on the driver's threads."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import (
    NewTopic,
    OffsetSpec,
)

from application import COUNTED, PARTITIONS, TASK, WINDOWS, WRITER, Json, Topics, window_name
from kafka_cluster import wait_until_seen
from streamsapp.kafka.admin import Admin
from verification import Update

#: The driver's own clients lose their broker on purpose and need not report it.
QUIET: dict[str, Any] = {"log_level": 0}
_WINDOW = struct.Struct(">qi")
#: For one answer, in seconds.
_TIMEOUT = 10.0
_BATCH = 5000
#: The errors that the client reports of a broker that is away, while it tries again by itself.
_PASSING = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}


class TopicReader:
    """Reads topics from their beginning, a bit more with each call. Committed records only."""

    def __init__(self, bootstrap_servers: str, topics: Sequence[str], partitions: int = PARTITIONS) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "soak-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "fetch.queue.backoff.ms": 20,
                **QUIET,
            }
        )
        self._messages: dict[tuple[str, int], list[Message]] = {
            (topic, partition): [] for topic in topics for partition in range(partitions)
        }
        self._partitions = partitions
        self._unfinished = set(self._messages)
        self._consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in self._messages])

    def read_more(self, seconds: float) -> list[Message]:
        """Reads records for so many seconds."""
        return self._take(self._consumer.consume(_BATCH, seconds))

    def read_to_end(self, seconds: float) -> bool:
        """Read until the end of every partition was met once; whether it was."""
        give_up = time.monotonic() + seconds
        while self._unfinished and time.monotonic() < give_up:
            self.read_more(0.2)
        return not self._unfinished

    def messages(self, topic: str) -> list[Message]:
        """Returns the messages that were read of a topic, partition by partition."""
        return [message for partition in range(self._partitions) for message in self._messages[topic, partition]]

    def close(self) -> None:
        """End the consumer."""
        self._consumer.close()

    def _take(self, messages: Iterable[Message]) -> list[Message]:
        taken: list[Message] = []
        for message in messages:
            place = (str(message.topic()), message.partition() or 0)
            error = message.error()
            if error is None:
                self._messages[place].append(message)
                taken.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._unfinished.discard(place)
            elif error.code() not in _PASSING:
                raise KafkaException(error)
        return taken


class Cluster:
    """Topics and their ends."""

    def __init__(self, bootstrap_servers: str, partitions: int = PARTITIONS) -> None:
        self._admin = Admin({"bootstrap.servers": bootstrap_servers, **QUIET})
        self._partitions = partitions

    def create_topics(self, topics: Topics) -> None:
        """Input and sinks, with a copy on each broker. The sinks' records get the time at which they were written."""
        sink = {"message.timestamp.type": "LogAppendTime"}
        wanted = [NewTopic(topics.source, self._partitions)]
        wanted += [NewTopic(name, self._partitions, config=sink) for name in topics.sinks]
        for name, created in self._admin.create_topics(wanted).items():
            created.result()
            wait_until_seen(self._admin, name, self._partitions)

    def ends(self, names: Iterable[str], *, committed: bool, timeout: float = _TIMEOUT) -> dict[str, int]:
        """Returns the end of each partition, ``topic-partition`` to offset; those without an answer are left out."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        latest: Callable[[], OffsetSpec] = OffsetSpec.latest
        asked = {TopicPartition(name, each): latest() for name in names for each in range(self._partitions)}
        answers = self._admin.list_offsets(asked, isolation_level=level, request_timeout=timeout)
        found: dict[str, int] = {}
        for partition, answer in answers.items():
            try:
                end = answer.result().offset
            except KafkaException:
                continue  # not created yet, or the broker is away
            if end >= 0:  # an answer that does not come in time may also be one without an offset
                found[f"{partition.topic}-{partition.partition}"] = end
        return found


def inputs_of(messages: Iterable[Message]) -> list[Json]:
    """The records of the input topic, with their times."""
    return [json.loads(message.value() or b"") | {"t": message.timestamp()[1]} for message in messages]


def updates_of(messages: Iterable[Message]) -> list[Update]:
    """The records of a sink or a changelog."""
    return [
        _update(message, (message.key() or b"").decode(), json.loads(message.value() or b"")) for message in messages
    ]


def changes_of(store: str, messages: Iterable[Message]) -> list[Update]:
    """The records of a store's changelog."""
    if store not in COUNTED:
        return updates_of(messages)
    return [_update(message, _counted_key(store, message.key() or b""), _count(message)) for message in messages]


def _counted_key(store: str, key: bytes) -> str:
    """A window's has its start and a number after it."""
    if store != WINDOWS:
        return key.decode()
    start_ms, _ = _WINDOW.unpack(key[-_WINDOW.size :])
    return window_name(key[: -_WINDOW.size].decode(), start_ms)


def _count(message: Message) -> Json:
    return {"cnt": int.from_bytes(message.value() or b"", "big")}


def _update(message: Message, key: str, body: Json) -> Update:
    headers = {name: value for name, value in list(message.headers() or []) if isinstance(value, bytes)}
    return Update(
        str(message.topic()),
        message.partition() or 0,
        message.offset() or 0,
        message.timestamp()[1],
        key,
        body,
        headers.get(WRITER, b"").decode() or body.get("w", ""),
        headers.get(TASK, b"").decode(),
    )
