"""The errors that the library raises, in one tree. Raised and caught on every thread.

    StreamsAppError
    ├── UserInputError            the user's input is wrong: exit 2, message names field and remedy
    │   ├── ConfigError
    │   ├── TopologyError
    │   └── ManifestError
    └── StreamsError              failed at run time: exit 1
        ├── TopicError            a topic is missing, has wrong partitions, or may not be accessed
        │   └── MissingTopicError    a topic is not there, or not for this user
        ├── DeserializationError
        ├── SerializationError
        ├── SchemaRegistryUnavailableError  no record is at fault, and none may be dropped for it
        ├── ProcessingError       user code raised; names node, task, topic, partition, offset
        │   └── ProcessorHangsError  user code does not return
        ├── BufferFullError       a suppression that must not emit early holds more than its bound
        ├── ProductionError       a record could not be written
        ├── StateStoreError
        │   ├── UnknownStateStoreError   a query names a store that the topology does not have
        │   ├── InvalidQueryError        no instance can answer a query
        │   └── StoreNotAvailableError   a query cannot be answered here, or not now
        ├── CommitError           a commit failed for good
        │   └── FencedError       another instance owns what we tried to commit: close dirty
        └── TaskCorruptedError    local state can't be trusted: close dirty, wipe, restore
            ├── StateOutOfReachError    a part of it is only in the object store, which does not give it
            └── ReplicaLostError    a replica failed before it was promoted

Called from everywhere, on any thread. Messages are prescriptive: what is wrong, where, and what to do.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from types import FrameType, MappingProxyType


class ImmediateExit(BaseException):
    """The process was asked to end, and its time is over, or it was asked again: leave now. Not an ``Exception``, so
    that nothing on the way handles it."""


class _Words:
    """Turns the words of programs into those of the user's."""

    tell: Callable[[str], str] = staticmethod(str)


@contextmanager
def told_as(words: Callable[[str], str]) -> Iterator[None]:
    """Meanwhile every error of this library is worded differently, on every thread: the command line runs manifests,
    and its users know the manifest's fields, not the settings that programs have."""
    before, _Words.tell = _Words.tell, staticmethod(words)
    try:
        yield
    finally:
        _Words.tell = staticmethod(before)


class StreamsAppError(Exception):
    """Root of all errors raised by this library."""

    def __str__(self) -> str:
        return _Words.tell(super().__str__())


class UserInputError(StreamsAppError):
    """The user's input is wrong; the command line exits with 2 and prints the message without a traceback."""


class ConfigError(UserInputError):
    """A configuration key is missing, unknown, or has an unusable value; the message names the key."""


class TopologyError(UserInputError):
    """The topology cannot be built; the message names the node, store or topic."""


class ManifestError(UserInputError):
    """A ``StreamsApp`` manifest is invalid; ``faults`` holds one line per fault, each with the field's path."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = [_one_line(fault) for fault in faults]
        super().__init__("\n".join(self.faults))


def _one_line(text: str) -> str:
    """Makes one line of a message that others may have written in part: nothing that a terminal would obey, or could
    not show, is left."""
    if text.isprintable():
        return text
    line = " ".join(text.split())
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in line)


class StreamsError(StreamsAppError):
    """Raised if something fails while the application runs; the command line exits with 1."""

    #: ``task``, ``node`` and ``record`` (``topic-partition@offset``) of a failure at a record; empty for any other.
    happened_at: Mapping[str, str] = MappingProxyType({})


class TopicError(StreamsError):
    """A topic is missing, has the wrong number of partitions, or may not be accessed."""


class TopicGoneError(TopicError):
    """A topic that was read was deleted."""

    def __init__(self, topic: str, text: str) -> None:
        super().__init__(text)
        self.topic = topic


class MissingTopicError(TopicError):
    """A topic that is read or written does not exist, or this user may not see it."""


class DeserializationError(StreamsError):
    """The bytes of a record could not be turned into its key or value."""


class OversizedBatchError(StreamsError):
    """The records of a batch take more memory than the consumer has for them; handlers of deserialization errors are
    given it, with a record without key and value in place of the batch."""


class SerializationError(StreamsError):
    """A key or value could not be turned into bytes."""


class SchemaRegistryUnavailableError(StreamsError):
    """A schema registry does not answer, or does not let this application in: no exception handler is asked, since no
    record is at fault."""


class ProcessingError(StreamsError):
    """The user's code raised while processing a record; the cause is chained."""


class ProcessorHangsError(ProcessingError):
    """User code has not come back from a record or punctuator for longer than ``max_poll_interval_ms``; its thread is
    lost."""


class BufferFullError(StreamsError):
    """The buffer of a suppression that must not emit early holds more than its bound; handlers of processing errors are
    given it."""


class ProductionError(StreamsError):
    """A record could not be written to its topic; the message names topic and reason."""


class StateStoreError(StreamsError):
    """A state store could not be opened, read or written."""


class UnknownStateStoreError(StateStoreError):
    """A query names a store that the topology does not have."""


class InvalidQueryError(StateStoreError):
    """A query that no instance could answer: a key of another type, a partition that does not exist."""


class StoreNotAvailableError(StateStoreError):
    """A query cannot be answered here, or not now; ``owner`` is the ``host:port`` to ask, if it is known."""

    def __init__(self, message: str, owner: str | None = None) -> None:
        super().__init__(message)
        self.owner = owner


class CommitError(StreamsError):
    """A commit failed and retrying did not help."""


class FencedError(CommitError):
    """Another member owns what this one tried to commit; its tasks are closed without committing."""


class TaskCorruptedError(StreamsError):
    """Local state of a task cannot be trusted; it is wiped and restored from the changelog."""


class StateOutOfReachError(TaskCorruptedError):
    """A part of a task's state is only in the object store, which does not give it. Nothing was found damaged."""


class ReplicaLostError(TaskCorruptedError):
    """A replica failed before it could be promoted. Its failure is reported by itself: this one reports no damage."""


# ---- where in the user's code ----------------------------------------------------------------------------------

_OWN = f"{Path(__file__).resolve().parent}{os.sep}"
_LIBRARIES = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))


#: The part that is built now for a user who wrote no code: a field of a manifest.
_written_at: ContextVar[str] = ContextVar("written_at", default="")


@contextmanager
def written_at(field: str) -> Iterator[None]:
    """Notes that nodes added meanwhile were written in a field of a manifest."""
    token = _written_at.set(field)
    try:
        yield
    finally:
        _written_at.reset(token)


def written_in_manifest() -> bool:
    """Says whether the part that is built now was written in a manifest."""
    return bool(_written_at.get())


def place_of_caller() -> str:
    """``file:line`` of the code outside this package that is running now, or the field of the manifest that is being
    built; empty where there is neither."""
    if field := _written_at.get():
        return field
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def record_of_failure(error: BaseException | None) -> Mapping[str, str]:
    """Returns task, node and record of the failure that led to an error; empty if there is no record behind it."""
    while error is not None:
        if isinstance(error, StreamsError) and error.happened_at:
            return error.happened_at
        error = error.__cause__
    return {}


def place_of_error(error: BaseException) -> str:
    """``file:line`` of the deepest code of the user that was running, else of a library's; empty if only ours was."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OWN)]
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return next((f"{frame.filename}:{frame.lineno}" for frame in reversed(own or frames)), "")
