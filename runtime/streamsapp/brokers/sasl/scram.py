"""SCRAM (RFC 5802, RFC 7677) as Kafka speaks it (KIP-84): names and passwords are taken as they are, without SASLprep.

Pure; used on the thread that opens a connection. The broker is not believed before it has shown that it knows the
password as well.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

from streamsapp.brokers.bounds import WrongAnswerError
from streamsapp.brokers.sasl.conversations import Conversation

#: The digests of the mechanisms, by hashlib's names.
DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

#: The least that RFC 7677 allows and Kafka's own clients take; and the most, which takes a second.
_LEAST_ITERATIONS, _MOST_ITERATIONS = 4096, 1_000_000


def scram(mechanism: str, username: str, password: str, nonce: str | None = None) -> Conversation:
    """A conversation; the ``nonce`` is a random one unless it is given."""
    digest, nonce = DIGESTS[mechanism], nonce or secrets.token_urlsafe(24)
    first = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    challenge = yield f"n,,{first}".encode()
    salt, iterations, both = _challenge(_fields(challenge), nonce)
    salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, iterations)

    def keyed(key: bytes, text: bytes) -> bytes:
        return hmac.new(key, text, digest).digest()

    client_key = keyed(salted, b"Client Key")
    final = f"c=biws,r={both}"
    said = b",".join((first.encode(), challenge, final.encode()))
    signature = keyed(hashlib.new(digest, client_key).digest(), said)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    last = _fields((yield f"{final},p={base64.b64encode(proof).decode()}".encode()))
    shown = _decoded(last, "v")
    if not hmac.compare_digest(shown, keyed(keyed(salted, b"Server Key"), said)):
        raise WrongAnswerError("its signature is wrong, so it does not know the password; it may be another server")


def _challenge(fields: dict[str, str], nonce: str) -> tuple[bytes, int, str]:
    """Salt, iterations and the nonce of both."""
    both, count = fields.get("r", ""), fields.get("i", "")
    if "m" in fields:
        raise WrongAnswerError("it needs an extension of SCRAM that this client does not know")
    if not both.startswith(nonce) or len(both) == len(nonce):
        raise WrongAnswerError("its answer to SCRAM lacks this client's nonce or its own")
    if not (count.isascii() and count.isdigit() and len(count) < 10):
        raise WrongAnswerError("its answer to SCRAM has no number of iterations")
    if not _LEAST_ITERATIONS <= int(count) <= _MOST_ITERATIONS:
        raise WrongAnswerError(
            f"it needs {count} iterations for SCRAM, and this client supports {_LEAST_ITERATIONS} to"
            f" {_MOST_ITERATIONS}; set the user's password again, with kafka-configs.sh"
        )
    return _decoded(fields, "s"), int(count), both


def _decoded(fields: dict[str, str], key: str) -> bytes:
    try:
        if found := base64.b64decode(fields.get(key, ""), validate=True):
            return found
    except ValueError:
        pass
    raise WrongAnswerError(f"its answer to SCRAM has no {'salt' if key == 's' else 'signature'}")


def _fields(message: bytes) -> dict[str, str]:
    """The attributes of a message. The text of an error is the broker's, and is cut."""
    try:
        text = message.decode()
    except UnicodeDecodeError as error:
        raise WrongAnswerError("its answer to SCRAM is not text") from error
    pairs = [each.partition("=") for each in text.split(",")]
    fields = {key: value for key, _, value in pairs}
    if len(fields) < len(pairs):
        raise WrongAnswerError("its answer to SCRAM has a field twice")
    if "e" in fields:
        raise WrongAnswerError(f"it ends SCRAM with an error: {fields['e'][:100]!r}")
    return fields
