"""Conversations of SASL as generators: each yields what the client says and gets what the broker answers. Pure, but for
tokens that are asked for; used on the thread that opens a connection.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias

from streamsapp.brokers.sasl.tokens import Tokens

#: Ends when the broker is believed. Raises ``WrongAnswerError`` for an answer that no broker gives, ``NotSentError``
#: when there is no token.
Conversation: TypeAlias = Generator[bytes, bytes, None]


def plain(username: str, password: str) -> Conversation:
    """RFC 4616."""
    yield f"\0{username}\0{password}".encode()


def bearer(tokens: Tokens, timeout: float) -> Conversation:
    """RFC 7628, with extensions (KIP-342). The token that a broker refuses is not shown again."""
    shown = "".join(f"\1{key}={value}" for key, value in tokens.extensions.items())
    try:
        failure = yield f"n,,\1auth=Bearer {tokens.token(timeout)}{shown}\1\1".encode()
        if failure:
            yield b"\1"  # the broker says what is wrong with the answer to this
    except GeneratorExit:
        tokens.forget()
        raise
