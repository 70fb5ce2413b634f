"""The data path of an instance in words, for its log, its ``/status`` and all that show that. Pure.

Called when an instance starts, and on the HTTP server's threads.
"""

from __future__ import annotations

from typing import Any

from streamsapp.config import client_properties
from streamsapp.config.streams_config import StreamsConfig

#: The engine that runs tasks: there is one.
ENGINE = "compiled"


def document(config: StreamsConfig) -> dict[str, Any]:
    """The client that moves records, how its connections are secured (a protocol of Kafka's, and the mechanism of SASL
    or ``None``), the codec of its batches, and the engine."""
    client, consumer = client_properties.chosen(client_properties.main_consumer(config))
    security = str(consumer.get("security.protocol", "plaintext")).upper()
    mechanism = str(consumer.get("sasl.mechanism", consumer.get("sasl.mechanisms", "GSSAPI"))).upper()
    producer = client_properties.producer(config)
    return {
        "name": client,
        "security": security,
        "mechanism": mechanism if security.startswith("SASL") else None,
        "compression": str(producer.get("compression.type", producer.get("compression.codec", "none"))).lower(),
        "engine": ENGINE,
    }


def described(config: StreamsConfig) -> str:
    """The same as one line."""
    found = document(config)
    mechanism = "" if found["mechanism"] is None else f" ({found['mechanism']})"
    return (
        f"client {found['name']} over {found['security']}{mechanism}, compression {found['compression']},"
        f" engine {found['engine']}"
    )
