"""Handles a record that fails inside a task: the configured handler says fail, continue, or dead letter queue.

Called on the processing thread that holds the task, with the record that failed still in process (KIP-161, KIP-1033,
KIP-1034). A record is either processed, or written to the dead letter topic, or dropped because the handler said so,
and logged with its offset. Otherwise the task fails, and the record's offset is not committed.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import NoReturn

from streamsapp.errors import (
    DeserializationError,
    FencedError,
    OversizedBatchError,
    ProcessingError,
    ProductionError,
    SchemaRegistryUnavailableError,
    SerializationError,
    StateStoreError,
    StreamsError,
    TaskCorruptedError,
    place_of_error,
)
from streamsapp.outgoing import OutputRecord
from streamsapp.processor.handlers import ErrorContext, ExceptionHandler, Response
from streamsapp.processor.operator import Reason
from streamsapp.record import Headers, InputRecord
from streamsapp.tasks import remedies
from streamsapp.tasks.dead_letters import DeadLetters
from streamsapp.tasks.record_errors import place_of_record
from streamsapp.tasks.remedies import UnwrittenPart
from streamsapp.tasks.task_context import TaskContext

log = logging.getLogger(__name__)

#: Already decided further down, or not the user code's doing: no handler may turn these into a dropped record.
_DECIDED = (
    ProcessingError, ProductionError, SerializationError, SchemaRegistryUnavailableError, FencedError, StateStoreError,
    TaskCorruptedError,
)  # fmt: skip

_NOT_TEXT = re.compile(r"descriptor 'encode' for 'str' objects doesn't apply to a '(\w+)' object")


class FailureHandling:
    """The exception handlers of one task."""

    def __init__(
        self,
        context: TaskContext,
        emit: Callable[[OutputRecord], None],
        dead_letters: DeadLetters,
        on_deserialization: ExceptionHandler,
        on_processing: ExceptionHandler,
        on_production: ExceptionHandler,
    ) -> None:
        self._context = context
        self._emit = emit
        self._dead_letters = dead_letters
        self._on_deserialization = on_deserialization
        self._on_processing = on_processing
        self._on_production = on_production
        #: Of nodes, where the user added them; filled when they are wired.
        self.places: dict[str, str] = {}
        #: Describes the records concerned where none is in process; ``None`` while punctuators are called.
        self.held: Callable[[], str] | None = None

    def deserialization(self, node: str, message: InputRecord, error: Exception) -> None:
        """A key, value or header name could not be read; returns when the record is to be skipped."""
        if isinstance(error, SchemaRegistryUnavailableError):
            raise error
        described = self._describe(node, message, message.timestamp()[1])
        own = isinstance(error, OversizedBatchError)  # it says its own
        remedy = "" if own else remedies.reading(self.places.get(node, ""))
        failure = DeserializationError(
            f"cannot deserialise {self._name(described)}: {_told(error)}; {remedy}let deserialization_exception_handler"
            " decide"
        )
        self._decide(self._on_deserialization, described, error, failure)

    def extraction(self, node: str, message: InputRecord, error: Exception) -> NoReturn:
        """The timestamp extractor raised. As in Kafka Streams no handler is asked: an extractor decides by itself."""
        if isinstance(error, StreamsError):
            raise error
        described = self._describe(node, message, message.timestamp()[1])
        failure = ProcessingError(
            f"{type(error).__name__} in the timestamp extractor of {self._name(described)}: {_told(error)}; return a "
            "negative timestamp for a record that is to be skipped"
        )
        self._remember(described, Response.FAIL.value, f"{type(error).__name__}: {_told(error)}")
        self._raise(failure, error, described)

    def processing(self, node: str, error: Exception, timestamp: int, headers: Headers | None) -> None:
        """User code raised at ``node``; returns when the record is to be dropped there."""
        if isinstance(error, _DECIDED):
            raise error
        described = self._describe(node, self._context.message, timestamp)
        failure = ProcessingError(f"{type(error).__name__} at {self._name(described)}: {_told(error)}")
        self._decide(self._on_processing, described, error, failure)

    def serialization(
        self, node: str, topic: str, error: Exception, timestamp: int, part: UnwrittenPart | None = None
    ) -> None:
        """A sink could not turn a key or value into bytes; returns when the output is to be dropped."""
        if isinstance(error, SchemaRegistryUnavailableError):
            raise error
        described = self._describe(node, self._context.message, timestamp)
        what = "a record" if part is None else f"the {part.side} of a record"
        told = _told(error)
        if part is not None and told.startswith(f"got {type(part.given).__name__}, the serde is "):
            told = remedies.writing(part, self.places.get(node, ""))
        failure = SerializationError(f"cannot serialise {what} for topic {topic} at {self._name(described)}: {told}")
        self._decide(self._on_production, described, error, failure)

    def log_dropped(self, node: str, reason: Reason) -> None:
        """A record was skipped by rule."""
        described = self._describe(node, self._context.message, -1)
        self._remember(described, "skipped", reason.text)
        self._warn(described, "skipped", f"{reason}", lambda: f"skipped a record at {self._name(described)}: {reason}")

    def log_invalid_timestamp(self, node: str, message: InputRecord, timestamp: int) -> None:
        """The timestamp extractor gave a negative timestamp."""
        described = self._describe(node, message, timestamp)
        self._remember(described, "skipped", f"its timestamp extractor gave {timestamp}")
        self._warn(
            described,
            "skipped",
            "the timestamp extractor gave a negative timestamp",
            lambda: f"skipped {self._name(described)}: its timestamp extractor gave {timestamp}",
        )

    def _decide(
        self, handler: ExceptionHandler, described: ErrorContext, error: Exception, failure: StreamsError
    ) -> None:
        response = handler(described, error)
        if not isinstance(response, Response):  # a handler that forgot to return one has not allowed anything
            response = Response.FAIL
        self._remember(described, response.value, f"{type(error).__name__}: {_told(error)}")
        if response is Response.CONTINUE:
            told = "the exception handler drops it"
            self._warn(described, told, type(error).__name__, lambda: f"{failure}; {told}", error)
        elif response is Response.DEAD_LETTER:
            told = f"it goes to the dead letter topic {self._dead_letters.topic}"
            self._warn(described, told, type(error).__name__, lambda: f"{failure}; {told}")
            timestamp = max(described.timestamp, 0) or self._context.clock.now_ms()
            self._emit(self._dead_letters.letter(described, error, timestamp))
        else:
            self._raise(failure, error, described)

    def _raise(self, failure: StreamsError, cause: Exception, described: ErrorContext) -> NoReturn:
        failure.happened_at = {
            "task": str(described.task_id), "node": described.node, "record": place_of_record(described)
        }  # fmt: skip
        raise failure from cause

    def _warn(
        self, described: ErrorContext, outcome: str, why: str, line: Callable[[], str], error: Exception | None = None
    ) -> None:
        """Log a record: the first of a kind for all to see, the next ones within a minute at DEBUG."""
        level = self._context.record_errors.warnings.level(f"node {self.named(described.node)}, {outcome}: {why}")
        if log.isEnabledFor(level):
            log.log(level, "%s", line(), exc_info=error, extra=_subject(described))

    def _remember(self, described: ErrorContext, outcome: str, reason: str) -> None:
        self._context.record_errors.add(described, self._context.clock.now_ms(), outcome, reason)

    def named(self, node: str) -> str:
        """A node with the line that added it."""
        place = self.places.get(node)
        return f"{node} (added at {place})" if place else node

    def _name(self, described: ErrorContext) -> str:
        node = f"node {self.named(described.node)}, task {described.task_id}"
        if described.topic is None:
            return f"{node}, in a punctuator" if self.held is None else f"{node}, {self.held()}"
        return f"{node}, record {described.topic}-{described.partition}@{described.offset}"

    def _describe(self, node: str, message: InputRecord | None, timestamp: int) -> ErrorContext:
        """The original bytes and place of the record in process; a punctuator has none."""
        return ErrorContext(
            task_id=self._context.task_id,
            node=node,
            topic=None if message is None else message.topic(),
            partition=None if message is None else message.partition(),
            offset=None if message is None else message.offset(),
            timestamp=timestamp,
            headers=[] if message is None else _readable_headers(message),
            key=None if message is None else message.key(),
            value=None if message is None else message.value(),
        )


def _readable_headers(message: InputRecord) -> Headers:
    """Its headers; none if the name of one is not text, which may be the very failure that is described."""
    try:
        return list(message.headers() or [])
    except Exception:
        return []


def _subject(described: ErrorContext) -> dict[str, object]:
    """The fields of a log line about a record, as :class:`~streamsapp.log_format.JsonFormatter` writes them."""
    return {
        "task": described.task_id,
        "topic": described.topic,
        "partition": described.partition,
        "offset": described.offset,
    }


def _told(error: Exception) -> str:
    """Its words, and the line of the user's code that it comes from."""
    line = place_of_error(error)
    # The commonest serde is a bare built-in function, whose words are about itself.
    found = _NOT_TEXT.search(str(error))
    words = f"got {found[1]}, the serde is string; declare one that fits" if found else str(error)
    return f"{words} ({line})" if line else words
