"""Holds the updates of a table with a store back for the commit, at which the last one of each key is sent.

They are sent in the order of their last updates, as Kafka Streams' record caches do: their times go up where those of
the records did, so no window below closes too early. Used by the table operators; called on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from streamsapp import native
from streamsapp.dsl.operators.short_cut import short_cut
from streamsapp.processor.operator import NodeContext, handed_on_to
from streamsapp.record import Headers, InputRecord, RawRecord
from streamsapp.serdes.api import AnySerde

#: The memory of a held update: its key, values before and after, and its place in the dictionary.
UPDATE_BYTES = 600

#: ``(key, new, old, timestamp, headers, record)``; the record only where a node below asks for it.
HeldUpdate: TypeAlias = tuple[Any, Any, Any, int, Headers | None, InputRecord | None]


class Noted(NamedTuple):
    """The cells that are held, as their counters note them."""

    #: Each cell, with its key, and with the start and end of its window if it has one.
    cells: list[tuple[Any, ...]]
    #: The headers of its last record, by the cell's ``id``.
    headers: dict[int, Headers]


class Held:
    """Sends held updates in slices: updates held while these are sent wait for the next commit."""

    def __init__(
        self,
        waiting: dict[Hashable, Any] | list[tuple[Any, ...]],
        in_order: Callable[[], list[Any]],
        send: Callable[[NodeContext, list[Any]], None],
        entry_bytes: int = UPDATE_BYTES,
    ) -> None:
        """Takes the waiting entries, which others add to, and two functions: one returns the entries in the order of
        the last updates, the other sends some of them into the wiring of a context. ``entry_bytes`` is the memory of an
        entry besides that of its store."""
        self._waiting, self._in_order, self._send = waiting, in_order, send
        self._entry_bytes = entry_bytes
        self._batch = Batch([])

    def emit(self, context: NodeContext, limit: int) -> int:
        """Sends at most ``limit`` keys, and returns how many remain."""
        if not self._batch:
            self._batch = Batch(self._in_order())
            self._waiting.clear()
        self._send(context, self._batch.take(limit))
        return len(self)

    def emit_oldest(self, context: NodeContext, count: int) -> None:
        """Sends the entries of a dictionary whose last updates are the earliest, as there are too many. They are not of
        the record in process."""
        waiting = self._waiting
        assert isinstance(waiting, dict)
        oldest = [waiting.pop(each) for each in list(islice(waiting, count))]
        record, context.record = context.record, None
        try:
            self._send(context, [*self._batch.take(len(self._batch)), *oldest])
        finally:
            context.record = record

    def __len__(self) -> int:
        return len(self._batch) + len(self._waiting)

    @property
    def bytes(self) -> int:
        """An estimate of the memory of what is held, besides that of stores."""
        return len(self) * self._entry_bytes


def hold_updates(context: NodeContext, send_old_values: bool) -> tuple[Held, native.HoldUpdate]:
    """Returns what holds updates, and the function that takes them: per key the last new value and the value before the
    first of them. They are sent as part of the record that came last, too, if a node below asks for that."""
    with_records = context.record_is_read
    entries: dict[Hashable, HeldUpdate] = {}

    def record() -> InputRecord | None:
        return without_bytes(context.record)

    def send(context: NodeContext, updates: list[HeldUpdate]) -> None:
        forward, outer = context.forward, context.record if with_records else None
        for key, new, old, timestamp, headers, record in updates:
            if with_records:
                context.record = record
            # A key that came and went between two commits never existed for those downstream.
            if new is not None or old is not None:
                forward(key, (new, old if send_old_values else None), timestamp, headers)
        if with_records:
            context.record = outer

    update = native.HoldUpdate(entries=entries, record=record if with_records else None)
    return Held(entries, lambda: list(entries.values()), send), update


def hold_cells(
    writes_as: Callable[[AnySerde, AnySerde], bool],
    deleted_at: Callable[..., int],
    key_of: Callable[..., Any],
    hidden: tuple[int, int],
) -> tuple[Held, Noted]:
    """Returns what holds counts, each with its cell, which it keeps when another processor writes it meanwhile; and
    where they are noted.

    ``writes_as`` says whether a sink's serdes write what the store has. For the entry behind a cell, ``deleted_at``
    returns when it was deleted, if another processor has done that, and ``key_of`` makes the key that is sent;
    ``hidden`` is how many bytes the physical key has before and behind the bytes of that key."""
    cells: list[tuple[Any, ...]] = []
    all_headers: dict[int, Headers] = {}

    def send(context: NodeContext, held: list[tuple[Any, ...]]) -> None:
        forward = context.forward
        cut = short_cut(forward, writes_as)
        if cut is not None and not all_headers:
            before, behind = hidden
            for record in native.results(
                held=held, topic=cut.topic, deleted_at=deleted_at, before=before, behind=behind
            ):
                cut.emit(record)
            return
        stream = handed_on_to(forward)
        for cell, *parts in held:
            cell.held = 0
            count, timestamp = cell
            if count is None:
                timestamp = deleted_at(*parts)
            headers = all_headers.pop(id(cell), None) if all_headers else None
            if stream is None:
                forward(key_of(*parts), (count, None), timestamp, headers)
            else:
                stream(key_of(*parts), count, timestamp, headers)

    return Held(cells, lambda: native.by_last_update(cells), send, entry_bytes=0), Noted(cells, all_headers)


def without_bytes(record: InputRecord | None) -> InputRecord | None:
    """Keeps the place of a record until the commit. Messages of as many keys as wait would fill the memory."""
    if record is None:
        return None
    return RawRecord(record.topic(), record.partition(), record.offset(), None, None, record.timestamp()[1])


class Batch:
    """Holds values that are emitted in slices."""

    def __init__(self, values: list[Any]) -> None:
        self._values = iter(values)
        self._remaining = len(values)

    def take(self, limit: int) -> list[Any]:
        taken = list(islice(self._values, limit))
        self._remaining -= len(taken)
        return taken

    def __len__(self) -> int:
        return self._remaining


def drain(held: dict[Any, Any]) -> Batch:
    """Empties a dictionary into a batch: whatever is held from now on waits for the next one."""
    values = list(held.values())
    held.clear()
    return Batch(values)
