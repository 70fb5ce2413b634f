"""The settings of a producer that sends record batches, from librdkafka's properties. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from streamsapp.config.client_properties import ClientProperties
from streamsapp.kafka.producing.compression import CODECS, Codec


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
    #: Between two requests for the leaders of partitions.
    metadata_age: float


def batch_settings(properties: ClientProperties) -> BatchSettings:
    """The settings, from values that the configuration has checked (``config.known_properties``). Defaults are
    librdkafka's. Older names come first: an older name that is set comes from the user, where a newer one may be a
    default of this package."""

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
        metadata_age=number(300_000, "metadata.max.age.ms") / 1000,
    )
