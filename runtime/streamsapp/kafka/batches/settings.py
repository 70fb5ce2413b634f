"""The settings of a producer that sends record batches, from librdkafka's properties. Pure.

Whatever is not named here is left to librdkafka: its producer knows it, and does what it always did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.batches.compression import CODECS, Codec
from streamsapp.kafka.known_properties import KnownProperties

#: Properties that mean the same here, or nothing; those of TLS and SASL are read by the connection.
_KNOWN = frozenset(
    {
        "allow.auto.create.topics",
        "bootstrap.servers",
        "client.id",
        "client.rack",
        "delivery.report.only.error",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "ssl.ca.location",
        "ssl.certificate.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "transactional.id",
    }
)
#: Those that are numbers, with the least and the greatest: librdkafka says what is wrong with others.
_NUMBERS = {
    "batch.num.messages": (1, 1_000_000),
    "batch.size": (1, 2**31 - 1),
    "delivery.timeout.ms": (0, 2**31 - 1),
    "linger.ms": (0, 900_000),
    "message.max.bytes": (1_000, 1_000_000_000),
    "message.timeout.ms": (0, 2**31 - 1),
    "queue.buffering.max.kbytes": (1, 2**31 - 1),
    "queue.buffering.max.ms": (0, 900_000),
    "request.timeout.ms": (1, 900_000),
    "retry.backoff.ms": (1, 300_000),
    "transaction.timeout.ms": (1_000, 2**31 - 1),
}
#: The values that are known, of properties of which not all are.
_VALUES: Mapping[str, frozenset[str]] = {
    "acks": frozenset({"-1", "all"}),
    "request.required.acks": frozenset({"-1", "all"}),
    "compression.type": frozenset(CODECS),
    "compression.codec": frozenset(CODECS),
    "enable.idempotence": frozenset({"true"}),
    "partitioner": frozenset({"murmur2_random"}),
    "queue.buffering.max.messages": frozenset({"0"}),  # bounded by size alone
    "sasl.mechanism": frozenset({"plain", "scram-sha-256", "scram-sha-512"}),
    "sasl.mechanisms": frozenset({"plain", "scram-sha-256", "scram-sha-512"}),
}
_PROPERTIES = KnownProperties(_KNOWN, _NUMBERS, _VALUES, float)


@dataclass(frozen=True)
class BatchSettings:
    """Times in seconds, sizes in bytes."""

    transactional_id: str | None
    transaction_timeout_ms: int
    #: How long records wait for others, while the broker is asked again and again.
    linger: float
    #: How long a record may wait to be written.
    delivery_timeout: float
    request_timeout: float
    #: Between two tries.
    retry_backoff: float
    batch_size: int
    #: The largest record.
    most: int
    #: How much may wait, on its way or not.
    queue: int
    codec: Codec


def left_to_librdkafka(properties: ClientProperties) -> str | None:
    """The property for which the client's own producer is taken, if there is one."""
    return _PROPERTIES.unknown(properties)


def batch_settings(properties: ClientProperties) -> BatchSettings:
    """The settings, of properties that are all known here. Defaults are librdkafka's. Older names come first: those
    that are in use are the user's, where the others may be defaults of this package."""

    def number(default: float, *keys: str) -> float:
        return next((float(properties[key]) for key in keys if key in properties), default)

    transactional_id = properties.get("transactional.id")
    transaction_timeout = number(60_000, "transaction.timeout.ms")
    delivery = number(300_000, "message.timeout.ms", "delivery.timeout.ms") or math.inf
    if transactional_id is not None:
        delivery = min(delivery, transaction_timeout)
    return BatchSettings(
        transactional_id=None if transactional_id is None else str(transactional_id),
        transaction_timeout_ms=int(transaction_timeout),
        linger=number(5, "queue.buffering.max.ms", "linger.ms") / 1000,
        delivery_timeout=delivery / 1000,
        request_timeout=number(30_000, "request.timeout.ms") / 1000,
        retry_backoff=number(100, "retry.backoff.ms") / 1000,
        batch_size=int(number(1_000_000, "batch.size")),
        most=int(number(1_000_000, "message.max.bytes")),
        queue=int(number(1_048_576, "queue.buffering.max.kbytes")) * 1024,
        codec=CODECS[str(properties.get("compression.type", properties.get("compression.codec", "none"))).lower()],
    )
