"""The data path of an instance in words, for its log, its ``/status`` and all that show that. Pure.

Called when an instance starts, and on the HTTP server's threads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamsapp.config import client_properties
from streamsapp.config.known_properties import OWN
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.native import compiled

#: The engine that runs tasks, by the file that was loaded: it names the interpreter and the processor it is made for.
ENGINE = Path(str(compiled.__file__)).name


def document(config: StreamsConfig, tls: tuple[str, str] | None = None) -> dict[str, Any]:
    """The client that moves records, how its connections are secured, the codec of its batches, and the engine.

    ``security`` is a protocol of Kafka's, ``mechanism`` that of SASL or ``None``: without them no connection is made.
    ``tls`` is what a connection to the brokers has agreed on: its version and its cipher, or ``None`` before there is
    one. librdkafka does not say it of its own.
    """
    client, consumer = client_properties.chosen(client_properties.main_consumer(config))
    security = str(consumer.get("security.protocol", "plaintext")).upper()
    mechanism = str(consumer.get("sasl.mechanism", consumer.get("sasl.mechanisms", "GSSAPI"))).upper()
    producer = client_properties.producer(config)
    return {
        "name": client,
        "security": security,
        "mechanism": mechanism if security.startswith("SASL") else None,
        "tls": None if tls is None or client != OWN else {"version": tls[0], "cipher": tls[1]},
        "compression": str(producer.get("compression.type", producer.get("compression.codec", "none"))).lower(),
        "engine": ENGINE,
    }


def described(config: StreamsConfig, tls: tuple[str, str] | None = None) -> str:
    """The same as one line."""
    found = document(config, tls)
    agreed = [] if found["tls"] is None else found["tls"].values()
    how = ", ".join(filter(None, (found["mechanism"], *agreed)))
    return (
        f"client {found['name']} over {found['security']}{f' ({how})' if how else ''},"
        f" compression {found['compression']}, engine {found['engine']}"
    )
