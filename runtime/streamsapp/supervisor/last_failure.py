"""The failure that ended an instance, as the instance reports it to its supervisor with its last breath, for people who
look.

Written by the instance on its main thread, read by the supervisor on the thread that looks after the instance. Pure.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from streamsapp.clock import SystemClock
from streamsapp.errors import record_of_failure
from streamsapp.structs import decoded

#: Characters of a reported text; bytes that a supervisor reads.
_LONGEST, MOST_BYTES = 2000, 64 << 10


class LastFailure(Struct, frozen=True, kw_only=True, rename="camel"):
    """A failure, with the record that it happened at, if it was one's."""

    at_ms: int
    message: str
    task: str = ""
    node: str = ""
    #: ``topic-partition@offset``.
    record: str = ""

    def as_data(self) -> dict[str, Any]:
        """Returns it as it is served."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document


def failure_line(error: BaseException) -> bytes:
    """Returns what an instance says of the error that ends it."""
    where = record_of_failure(error)
    told = LastFailure(at_ms=SystemClock().now_ms(), message=str(error)[:_LONGEST], **where)
    return msgspec.json.encode(told) + b"\n"


def read_failure(line: bytes) -> LastFailure | None:
    """Returns the failure that an instance reported; ``None`` if it reported nothing, or no failure."""
    try:
        return decoded(line, LastFailure) if line.strip() else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
