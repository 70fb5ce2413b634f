"""The bounds on what is believed of a broker: how long an answer may be, how long the broker may be left alone, and
which partitions an answer has to name. Pure; used by all connections of this package, on their threads."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Hashable, Iterable

log = logging.getLogger(__name__)

#: Seconds. A broker that wants to be left alone for longer is asked all the same: it answers when it can (KIP-219).
LONGEST_THROTTLE = 30.0

#: The first bytes of answers that are not Kafka's: an alert or a handshake of TLS, and HTTP.
_TLS, _HTTP = (b"\x15\x03", b"\x16\x03"), b"HTTP"


class WrongAnswerError(ValueError):
    """An answer that no broker gives."""


def wrong(error: Exception) -> str:
    """The fault of an answer that a decoder or a check stumbled over."""
    return str(error) if isinstance(error, WrongAnswerError) else f"its answer cannot be read: {error!r}"


def throttle(milliseconds: int, broker: object) -> float:
    """The seconds for which a broker is to be left alone, of what its answer says."""
    seconds = max(0, milliseconds) / 1000
    if seconds > LONGEST_THROTTLE:
        log.warning(
            "broker %s throttles this client for %.0f s (throttle_time_ms); the next request goes out after %.0f s. "
            "Check the quotas of this client and of its user",
            broker, seconds, LONGEST_THROTTLE,
        )  # fmt: skip
    return min(seconds, LONGEST_THROTTLE)


def check_length(head: bytes, most: int) -> int:
    """The length that the first four bytes of an answer state. If no answer has such a length, raises a
    ``WrongAnswerError`` that says what the other side may be; nothing was allocated then."""
    size = int.from_bytes(head, "big", signed=True)
    if 4 <= size <= most:
        return size
    if head.startswith(_TLS):
        why = "it speaks TLS: set security.protocol to SSL or SASL_SSL, or name its port for plain connections"
    elif head == _HTTP:
        why = "it speaks HTTP and is no broker of Kafka's: correct bootstrap_servers, or what the brokers advertise"
    else:
        why = (
            "is it a broker of Kafka's, and this its port for this security.protocol? If it is, and its batches are so"
            " large, set receive.message.max.bytes to more"
        )
    raise WrongAnswerError(f"it announces an answer of {size} bytes, where {most} are the most; {why}")


def check_told(request: str, asked: Collection[Hashable], told: Iterable[Hashable]) -> None:
    """Raises ``WrongAnswerError`` unless an answer names once each item that was asked for, and nothing else: what it
    leaves out has not been done."""
    found_here, wanted = list(told), set(asked)
    if len(found_here) == len(wanted) and wanted.issuperset(found_here) and len(set(found_here)) == len(wanted):
        return
    counts = Counter(found_here)
    for what, found in (
        ("leaves out", sorted(wanted - counts.keys(), key=str)),
        ("tells of what was not asked for:", sorted(counts.keys() - wanted, key=str)),
        ("tells more than once of", sorted((each for each, count in counts.items() if count > 1), key=str)),
    ):
        if found:
            named = ", ".join(_name(each) for each in found[:3])
            raise WrongAnswerError(f"the answer to {request} {what} {named}{', …' if len(found) > 3 else ''}")


def _name(each: Hashable) -> str:
    return "{}-{}".format(*each) if isinstance(each, tuple) and len(each) == 2 else str(each)
