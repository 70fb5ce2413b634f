"""Pure types, made by tools/kafka_messages.py from the schemas of Kafka 4.4.0. Not to be changed."""

from __future__ import annotations

from typing import Annotated, ClassVar

from streamsapp.brokers.codec import Asking, In, Int16, Int64, Whole


class SaslAuthenticateResponse(Whole):
    VERSIONS: ClassVar = (0, 2)
    FIRST_COMPACT: ClassVar = 2

    error_code: Int16 = 0
    error_message: Annotated[str | None, In(nullable=0)] = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: Annotated[Int64, In(1)] = 0


class SaslAuthenticateRequest(Asking[SaslAuthenticateResponse]):
    VERSIONS: ClassVar = (0, 2)
    FIRST_COMPACT: ClassVar = 2
    API_KEY: ClassVar = 36
    ANSWER: ClassVar = SaslAuthenticateResponse

    auth_bytes: bytes = b""
