"""The configuration keys of Kafka clients: the keys that the runtime owns, and the client that reads each.

Pure; used when a configuration is made and when the clients' properties are put together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamsapp.errors import ConfigError
from streamsapp.java_names import properties

#: The most specific comes last and wins. Names as Kafka Streams'; ``restore.consumer`` reads changelogs,
#: ``global.consumer`` the topics of global stores.
PREFIXES_OF = {
    "main consumer": ("consumer.", "main.consumer."),
    "restore consumer": ("consumer.", "restore.consumer."),
    "global consumer": ("consumer.", "global.consumer."),
    "producer": ("producer.",),
    "admin": ("admin.",),
}
_PREFIXES = tuple(sorted({prefix for prefixes in PREFIXES_OF.values() for prefix in prefixes}))

_COMMITS = "the runtime commits offsets together with state and output"
_REPLAYS = "a record written out of order or twice would corrupt state; it is on under every guarantee"
_MEMBERSHIP = "the runtime assigns partitions itself, by task"

#: Key to (why the runtime owns it, what to do instead).
OWNED = {
    "bootstrap.servers": ("all clients talk to one cluster", "set bootstrap_servers"),
    "metadata.broker.list": ("all clients talk to one cluster", "set bootstrap_servers"),
    "client.id": ("each client of an instance has its own", "set client_id"),
    "group.id": ("it is the application id", "set application_id"),
    "enable.auto.commit": (_COMMITS, "set commit_interval_ms"),
    "auto.commit.enable": (_COMMITS, "set commit_interval_ms"),
    "auto.commit.interval.ms": (_COMMITS, "set commit_interval_ms"),
    "enable.auto.offset.store": (_COMMITS, "leave it out"),
    "auto.offset.reset": (
        "it differs between topics, and a changelog read from the wrong place would be wrong state",
        "set offset_reset on the source (Consumed or add_source)",
    ),
    "isolation.level": ("it follows from the guarantee", "set processing_guarantee"),
    "transactional.id": ("it follows from the application and the instance", "set processing_guarantee"),
    "enable.idempotence": (_REPLAYS, "leave it out"),
    "enable.gapless.guarantee": (_REPLAYS, "leave it out"),
    "acks": (_REPLAYS, "leave it out"),
    "request.required.acks": (_REPLAYS, "leave it out"),
    "max.in.flight": (_REPLAYS, "leave it out"),
    "max.in.flight.requests.per.connection": (_REPLAYS, "leave it out"),
    "partitioner": (
        "keys must land where Java clients put them, or joins and stores miss records",
        "give the sink a partitioner (Produced or add_sink)",
    ),
    "delivery.report.only.error": ("the record collector counts on it", "leave it out"),
    "enable.partition.eof": ("the runtime asks to be told of a partition's end", "leave it out"),
    "group.protocol": (_MEMBERSHIP, "leave it out"),
    "group.instance.id": (_MEMBERSHIP, "set group_instance_id"),
    "group.remote.assignor": (_MEMBERSHIP, "leave it out"),
    "partition.assignment.strategy": (_MEMBERSHIP, "leave it out"),
    "max.poll.interval.ms": ("no client waits for processing here", "set max_poll_interval_ms"),
    "allow.auto.create.topics": ("a topic that springs up empty hides a misspelt name", "create the topic"),
    "queued.max.messages.kbytes": ("it is a share of the instance's memory", "set memory_bytes"),
    "queue.buffering.max.kbytes": ("it is a share of the instance's memory", "set memory_bytes"),
    "queue.buffering.max.messages": ("it is bounded by bytes", "set memory_bytes"),
}

#: Only a consumer reads these: given without a prefix they are kept from the other clients, which would warn.
CONSUMER_ONLY = frozenset({
    "check.crcs", "coordinator.query.interval.ms", "fetch.error.backoff.ms", "fetch.max.bytes",
    "fetch.message.max.bytes", "fetch.min.bytes", "fetch.queue.backoff.ms", "fetch.wait.max.ms",
    "heartbeat.interval.ms", "max.partition.fetch.bytes", "queued.min.messages",
    "session.timeout.ms",
})  # fmt: skip

#: Only a producer reads these.
PRODUCER_ONLY = frozenset({
    "batch.num.messages", "batch.size", "compression.codec", "compression.level", "compression.type",
    "delivery.timeout.ms", "linger.ms", "message.send.max.retries", "message.timeout.ms",
    "queue.buffering.backpressure.threshold", "queue.buffering.max.ms", "request.timeout.ms", "retries",
    "sticky.partitioning.linger.ms", "transaction.timeout.ms",
})  # fmt: skip

#: Keys that Java clients know by another name.
JAVA_NAMES = {
    "fetch.max.wait.ms": "use fetch.wait.max.ms",
    "max.poll.records": "leave it out: the runtime fetches in batches and pauses partitions by bytes",
    "buffer.memory": "set memory_bytes",
    "max.request.size": "use message.max.bytes",
    "key.serializer": "set default_key_serde",
    "key.deserializer": "set default_key_serde",
    "value.serializer": "set default_value_serde",
    "value.deserializer": "set default_value_serde",
    "sasl.jaas.config": "use sasl.username and sasl.password",
    "ssl.truststore.location": "use ssl.ca.location with a PEM file",
    "ssl.truststore.password": "use ssl.ca.location with a PEM file, which needs no password",
    "ssl.truststore.certificates": "use ssl.ca.pem",
    "ssl.keystore.type": "use ssl.certificate.location and ssl.key.location with PEM files",
}


def split_prefix(key: str) -> tuple[str, str]:
    """``"main.consumer.fetch.min.bytes"`` is ``("main.consumer.", "fetch.min.bytes")``; no prefix is ``""``."""
    for prefix in _PREFIXES:
        if key.startswith(prefix):
            return prefix, key.removeprefix(prefix)
    return "", key


def given_to(kind: str, keys: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Returns what the user gives to a kind of client: for each key without its prefix the whole key and its value, the
    most specific of several."""
    found: dict[str, tuple[str, Any]] = {}
    for wanted in ("", *PREFIXES_OF[kind]):
        for key, value in keys.items():
            prefix, bare = split_prefix(key)
            if prefix == wanted and (prefix or _reads(kind, bare)):
                found[bare] = key, value
    return found


def _reads(kind: str, key: str) -> bool:
    if key in CONSUMER_ONLY:
        return kind.endswith("consumer")
    return kind == "producer" or key not in PRODUCER_ONLY


def check_client_keys(keys: Iterable[str]) -> None:
    """Raise ``ConfigError`` for the first key that would break a guarantee, or that only Java clients and Kafka
    Streams know."""
    for key in keys:
        bare = split_prefix(key)[1]
        if bare in OWNED:
            reason, remedy = OWNED[bare]
            raise ConfigError(f"kafka property {key!r} is owned by the runtime: {reason}; {remedy}")
        if bare in JAVA_NAMES:
            raise ConfigError(f"kafka property {key!r} is known to Java clients only: {JAVA_NAMES[bare]}")
        if (answer := properties.answer(bare)) is not None:
            raise ConfigError(f"kafka property {key!r} is a property of Kafka Streams: {answer}")
