"""Lets the first record of each id pass, and leaves out others within a time of one that has passed.

Bound on the polling thread when a task is created; pushed on a processing thread. A record costs the serialisation of
its id and a read of the ids that passed around its time; one that passes also a write.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from streamsapp.dsl.operators.late import LateRecords
from streamsapp.dsl.operators.stream_time import ObservedTime
from streamsapp.processor.operator import NodeContext, Operator, Push, Reason
from streamsapp.record import Headers, InputRecord
from streamsapp.state.kinds.window import WindowStoreImpl

TOO_LATE = Reason(
    "it came too late to know whether it is a duplicate", "a longer grace of deduplicate lets later records in"
)


@dataclass(frozen=True)
class Deduplication:
    """The rule by which records are compared. ``by(key, value)`` gives the id; without it that is the key."""

    by: Callable[[Any, Any], Any] | None
    within_ms: int
    grace_ms: int
    store: str
    sends_late: bool


class Deduplicate(Operator):
    """Keeps the ids that passed in a window store, each with the place of its record.

    At least once, a record may be read again that passed in an earlier life of the task, whose result was lost. The
    place tells it from a duplicate, and it passes again.
    """

    def __init__(self, how: Deduplication) -> None:
        self._how = how
        self._place = ""
        #: The ids that the record in process has brought.
        self._passed: set[bytes] = set()

    def start(self, context: NodeContext) -> None:
        context.record_is_read = True
        store: WindowStoreImpl = context.store(self._how.store)
        store.keep_recent()
        self._duplicates = context.counter("duplicate-records")
        self._time = time = ObservedTime()
        kept = context.keep_stream_time(lambda: time.latest)
        time.latest = store.stream_time if kept is None else kept

    def bind(self, context: NodeContext) -> Push:
        if not self._how.sends_late:
            return self._bind(context, partial(context.dropped, TOO_LATE))
        late = LateRecords(context, TOO_LATE)
        return late.behind(self._bind(context, late.miss))

    def _bind(self, context: NodeContext, expired: Callable[[], object]) -> Push:
        store: WindowStoreImpl = context.store(self._how.store)
        by, grace_ms, time, passes = self._how.by, self._how.grace_ms, self._time, self._passes
        key_bytes_of, forward, on_error, duplicates = (
            store.key_bytes,
            context.forward,
            context.on_error,
            self._duplicates,
        )

        def push(key: Any, value: Any, timestamp: int, headers: Headers | None) -> None:
            try:
                identity = key if by is None else by(key, value)
                id_bytes = None if identity is None else key_bytes_of(identity)
            except Exception as error:
                on_error(error, key, value, timestamp, headers)
                return
            if timestamp > time.latest:
                time.latest = timestamp
            if id_bytes is not None:
                if timestamp < time.latest - grace_ms:
                    expired()
                    return
                if not passes(store, id_bytes, timestamp, context.record):
                    duplicates.value += 1
                    return
            forward(key, value, timestamp, headers)

        return push

    def _passes(self, store: WindowStoreImpl, id_bytes: bytes, timestamp: int, record: InputRecord | None) -> bool:
        """Says whether a record passes, and keeps its id then."""
        place = "" if record is None else f"{record.topic()}-{record.partition()}@{record.offset()}"
        if place != self._place:
            self._place, self._passed = place, set()
        within_ms = self._how.within_ms
        for start, (stored, _) in store.near(id_bytes, timestamp - within_ms + 1, timestamp + within_ms - 1):
            read_again = place and start == timestamp and store.from_stored(stored) == place
            if not read_again or id_bytes in self._passed:
                return False
        self._passed.add(id_bytes)
        store.write(id_bytes, timestamp, store.to_stored(id_bytes, place), timestamp)
        return True
