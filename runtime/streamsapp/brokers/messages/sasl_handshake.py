"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

# ruff: noqa: RUF012 - a structure's default that may be changed is copied

from __future__ import annotations

from typing import ClassVar

from streamsapp.brokers.codec import Asking, Int16, Whole


class SaslHandshakeResponse(Whole):
    VERSIONS: ClassVar = (0, 1)
    FIRST_COMPACT: ClassVar = 32767

    error_code: Int16 = 0
    mechanisms: list[str] = []


class SaslHandshakeRequest(Asking[SaslHandshakeResponse]):
    VERSIONS: ClassVar = (0, 1)
    FIRST_COMPACT: ClassVar = 32767
    API_KEY: ClassVar = 17
    ANSWER: ClassVar = SaslHandshakeResponse

    mechanism: str = ""
