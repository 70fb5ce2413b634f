"""Remembers the last records that a task could not process, or whose results were not written, for people that look at
the instance.

Written only for records that fail or are skipped. The processing thread that holds the task writes it; for records that
the producer could not write, the polling thread writes another object. Read on threads of the HTTP server.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from streamsapp.processor.handlers import ErrorContext, Response
from streamsapp.tasks.repeated_warnings import RepeatedWarnings
from streamsapp.tasks.shown_values import expressible

#: Records of a task that are remembered, and bytes of a key or a value of theirs.
REMEMBERED, MOST_BYTES = 10, 1024
_LONGEST_REASON = 500
FAIL = Response.FAIL.value


class RecordError(NamedTuple):
    """A record that was not processed, with the beginning of its bytes."""

    at_ms: int
    node: str
    #: ``topic-partition@offset``; empty in a punctuator.
    record: str
    #: ``fail``, ``continue`` or ``dead_letter`` as a handler decided, ``skipped`` by rule.
    outcome: str
    reason: str
    key: bytes | None
    value: bytes | None


def place_of_record(described: ErrorContext) -> str:
    """Returns ``topic-partition@offset``; empty in a punctuator."""
    return "" if described.topic is None else f"{described.topic}-{described.partition}@{described.offset}"


class RecordErrors:
    """Records that met the same part of a task: its nodes, or the producer."""

    __slots__ = ("by_node", "dropped", "last", "warnings")

    def __init__(self, warnings: RepeatedWarnings) -> None:
        #: Their log lines.
        self.warnings = warnings
        #: The errors that did not fail their task.
        self.dropped = 0
        #: All that were not processed, by node.
        self.by_node: Counter[str] = Counter()
        self.last: deque[RecordError] = deque(maxlen=REMEMBERED)

    def add(self, described: ErrorContext, at_ms: int, outcome: str, reason: str, place: str | None = None) -> None:
        """Remember a record; ``place`` names the records that it may be a result of."""
        self.by_node[described.node] += 1
        self.dropped += outcome != FAIL
        place = place_of_record(described) if place is None else place
        key, value = (data and data[:MOST_BYTES] for data in (described.key, described.value))
        told = expressible(reason[:_LONGEST_REASON])  # it may quote the record
        self.last.append(RecordError(at_ms, described.node, place, outcome, told, key, value))


class TaskRecordErrors(RecordErrors):
    """The records of one task."""

    __slots__ = ("unwritten",)

    def __init__(self, warnings: RepeatedWarnings) -> None:
        super().__init__(warnings)
        #: Results that the producer could not write.
        self.unwritten = RecordErrors(warnings)
