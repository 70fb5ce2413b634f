"""The ``rd_kafka_t`` beneath a client of confluent-kafka: for what goes to its librdkafka directly.

Called by the thread that the client belongs to.
"""

from __future__ import annotations

from ctypes import c_void_p

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient


def handle_of(client: Consumer | Producer | AdminClient) -> int:
    """The client's handle: the first field after the object's head. It lives as long as the client is open. Raises
    ``RuntimeError`` when that is closed."""
    # Anything else has no such field, and the process would crash.
    if not isinstance(client, Consumer | Producer | AdminClient):
        raise TypeError(f"expected a client of confluent-kafka, got {type(client).__name__}")
    handle = c_void_p.from_address(id(client) + object.__basicsize__).value
    if not handle:
        raise RuntimeError("the Kafka client is closed")
    return handle
