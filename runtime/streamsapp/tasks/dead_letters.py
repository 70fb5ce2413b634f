"""Dead letters: records for the dead letter topic, made to fit it (KIP-1034).

Made by a task on its processing thread, and on the polling thread for records that could not be written. A letter is
the original record and more headers, so that a record as large as the broker allows no longer fits, and neither does
one that came compressed. A header names each part that is left out, with its size; topic, partition and offset say
where all of it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from streamsapp.config.client_properties import MAX_MESSAGE_BYTES
from streamsapp.errors import ConfigError
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.handlers import HEADER_STACKTRACE, ErrorContext, dead_letter_headers
from streamsapp.record import Headers

#: Names what a letter lacks, with sizes in bytes: ``value (3000000 bytes), headers (120 bytes)``.
HEADER_OMITTED = "__streams.errors.omitted"

#: Bytes that a record and the batch around it take beside their contents, and a header beside its own, at most.
_RECORD_OVERHEAD, _HEADER_OVERHEAD = 256, 10

#: The parts that are left out, tried in this order: as little as possible.
_OMISSIONS = (
    (),
    ("value",),
    ("headers",),
    ("key",),
    ("value", "headers"),
    ("value", "headers", "key"),
    ("value", "headers", "key", "stack trace"),
)


@dataclass(frozen=True)
class DeadLetters:
    """Makes letters of at most ``limit`` bytes for ``topic``."""

    topic: str | None
    limit: int = MAX_MESSAGE_BYTES

    def letter(self, context: ErrorContext, exception: Exception, timestamp: int) -> OutputRecord:
        """The record of ``context`` and what went wrong with it. Raises ``ConfigError`` when there is no topic."""
        if self.topic is None:
            raise ConfigError(
                "an exception handler answered DEAD_LETTER but dead_letter_queue_topic is not set; "
                "set it to the name of an existing topic"
            )
        told = dead_letter_headers(context, exception)
        trace = [header for header in told if header[0] == HEADER_STACKTRACE]
        sizes = {
            "value": len(context.value or b""),
            "headers": _size_of(context.headers),
            "key": len(context.key or b""),
            "stack trace": _size_of(trace),
        }
        total = _RECORD_OVERHEAD + sizes["value"] + sizes["key"] + sizes["headers"] + _size_of(told)
        fitting = (each for each in _OMISSIONS if total - sum(sizes[part] for part in each) <= self.limit)
        omitted = next(fitting, _OMISSIONS[-1])
        headers = [] if "headers" in omitted else list(context.headers)
        headers += [header for header in told if not ("stack trace" in omitted and header in trace)]
        if omitted:
            text = ", ".join(f"{part} ({sizes[part]} bytes)" for part in omitted if sizes[part])
            headers.append((HEADER_OMITTED, text.encode()))
        value = None if "value" in omitted else context.value
        key = None if "key" in omitted else context.key
        return (self.topic, value, key, -1, None, None, timestamp, headers)


def _size_of(headers: Headers) -> int:
    return sum(len(name.encode()) + len(value or b"") + _HEADER_OVERHEAD for name, value in headers)
