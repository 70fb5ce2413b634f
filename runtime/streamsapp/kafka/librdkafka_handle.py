"""The librdkafka beneath confluent-kafka, for direct calls: its functions, and the ``rd_kafka_t`` of a client.

Called by the thread that the client belongs to.
"""

from __future__ import annotations

from ctypes import CDLL, c_void_p
from typing import Any

from confluent_kafka import Consumer, Producer, cimpl
from confluent_kafka.admin import AdminClient


def librdkafka(signatures: dict[str, tuple[Any, list[Any]]]) -> CDLL:
    """The librdkafka that confluent-kafka itself is linked to, with the types of the functions that are called: of the
    result, and of the arguments."""
    library = CDLL(cimpl.__file__)
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


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
