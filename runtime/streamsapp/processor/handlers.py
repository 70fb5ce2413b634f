"""Exception handlers decide about a record that cannot be read, processed or written (KIP-161, KIP-1033, KIP-1034).

Configured in ``StreamsConfig``; called by a task on its processing thread (reading, processing, serialising) and by
the record collector on the polling thread (writing). A handler decides about one record; it must not keep state that
two threads share without a lock.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import TypeAlias

from streamsapp.record import Headers, TaskId

HEADER_EXCEPTION = "__streams.errors.exception"
HEADER_MESSAGE = "__streams.errors.message"
HEADER_STACKTRACE = "__streams.errors.stacktrace"
HEADER_TOPIC = "__streams.errors.topic"
HEADER_PARTITION = "__streams.errors.partition"
HEADER_OFFSET = "__streams.errors.offset"

#: A header larger than this is cut: with a deep stack the record would no longer fit the broker's limit.
_MAX_HEADER_BYTES = 32 * 1024


class Response(Enum):
    """The decision of a handler. Writing needs no RETRY: the producer has retried what can be retried by then."""

    FAIL = "fail"
    CONTINUE = "continue"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True)
class ErrorContext:
    """Shows a handler where the error happened.

    ``topic``, ``partition`` and ``offset`` name the input record, whose original bytes are ``key`` and ``value``. They
    are ``None`` in a punctuator, which has no input record, and for a result held for the commit by ``emit="commit"``
    unless a node below it reads its record.
    """

    task_id: TaskId
    node: str
    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: int
    headers: Headers
    key: bytes | None
    value: bytes | None


#: ``(context, exception) -> response``: a plain function or any object that can be called.
ExceptionHandler: TypeAlias = Callable[[ErrorContext, Exception], Response]


def fail(context: ErrorContext, exception: Exception) -> Response:
    """Stops at the record, which is not committed. This is the default."""
    return Response.FAIL


def log_and_continue(context: ErrorContext, exception: Exception) -> Response:
    """Logs and counts the record, and goes on without it."""
    return Response.CONTINUE


def dead_letter(context: ErrorContext, exception: Exception) -> Response:
    """Writes the original bytes to the dead letter queue, and goes on (KIP-1034)."""
    return Response.DEAD_LETTER


#: The handlers that configuration can choose by name.
BUILT_IN: Mapping[str, ExceptionHandler] = MappingProxyType(
    {Response.FAIL.value: fail, Response.CONTINUE.value: log_and_continue, Response.DEAD_LETTER.value: dead_letter}
)


def dead_letter_headers(context: ErrorContext, exception: Exception) -> Headers:
    """Returns the headers that a dead letter has beside the record's own: the error and its place, all as text
    (KIP-1034)."""
    trace = "".join(traceback.format_exception(exception))
    return [
        (HEADER_EXCEPTION, _text(_qualified_name(exception))),
        (HEADER_MESSAGE, _text(str(exception))),
        (HEADER_STACKTRACE, _text(trace)),
        (HEADER_TOPIC, _optional(context.topic)),
        (HEADER_PARTITION, _optional(context.partition)),
        (HEADER_OFFSET, _optional(context.offset)),
    ]


def _qualified_name(exception: Exception) -> str:
    kind = type(exception)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(text: str) -> bytes:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= _MAX_HEADER_BYTES:
        return encoded
    return encoded[:_MAX_HEADER_BYTES].decode("utf-8", "ignore").encode()


def _optional(value: str | int | None) -> bytes | None:
    return None if value is None else _text(str(value))
