"""Sends the updates of a table with a store downstream: each when it happens, or the last of each key at the commit.

Used by the table operators; called on a processing thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import islice
from typing import Any, TypeAlias

from streamsapp.dsl.operators.short_cut import ShortCut, short_cut
from streamsapp.processor.operator import NodeContext, Push, nowhere
from streamsapp.record import Headers, InputRecord, RawRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.state.entries import Cell
from streamsapp.state.key_value import KeyValueStoreImpl
from streamsapp.state.versioned import PUT_RETURN_CODE_NOT_PUT, PUT_RETURN_CODE_VALID_TO_UNDEFINED, VersionedStoreImpl

EXPIRED_VERSION = "it is older than the history of the versioned table"

#: ``(key, identity, new, old, timestamp, headers)``: the table's value of a key has changed. ``identity`` is hashable
#: and differs where keys do, as a key's bytes do.
Update: TypeAlias = Callable[[Any, Hashable, Any, Any, int, Headers | None], None]

#: ``(key, new, old, timestamp, headers, record)``; the record only where somebody below asks for it.
HeldUpdate: TypeAlias = tuple[Any, Any, Any, int, Headers | None, InputRecord | None]


class LateChange(tuple[Any, Any]):
    """A change ``(new, old)`` of a versioned table that comes after a later one. It does not change the present rows of
    the table, so groups and joins of tables leave it out (KIP-914)."""

    __slots__ = ()


def forward_updates(forward: Push, send_old_values: bool) -> Update:
    """Forwards every update at once; the old value travels only if a table below needs it."""
    if forward is nowhere:
        return _unread

    def update(key: Any, identity: Hashable, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
        forward(key, (new, old if send_old_values else None), timestamp, headers)

    return update


def _unread(key: Any, identity: Hashable, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
    """Forwards nothing: nobody asks for updates, the table is its store."""


class VersionedTable:
    """A versioned store in place of the key-value store that an operator writes. The store tells what a write
    became: an update, a late change, or nothing, if it is older than the history (KIP-914)."""

    counts_in_place = False

    def __init__(self, context: NodeContext, store: VersionedStoreImpl, send_old_values: bool) -> None:
        self.key_bytes, self.read = store.key_bytes, store.read
        self.from_stored, self.to_stored, self.raw = store.from_stored, store.to_stored, store.raw
        self._put = store.write
        self._forward = context.forward
        self._dropped = context.dropped
        self._send_old_values = send_old_values
        self._written: tuple[bytes, Any] = (b"", None)

    def write(self, key: bytes, stored: Any, timestamp: int) -> None:
        """Notes a row that :meth:`update` puts, with the time of the update."""
        self._written = key, stored

    def writes_as(self, key_serde: AnySerde, value_serde: AnySerde) -> bool:
        """Returns False: a row is put when its update is told."""
        return False

    def update(self, key: Any, identity: Hashable, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
        """Puts the row that was written, and sends its change."""
        valid_to = self._put(*self._written, timestamp)
        if valid_to == PUT_RETURN_CODE_NOT_PUT:
            self._dropped(EXPIRED_VERSION)
            return
        change = new, old if self._send_old_values else None
        latest = valid_to == PUT_RETURN_CODE_VALID_TO_UNDEFINED
        self._forward(key, change if latest else LateChange(change), timestamp, headers)


class HeldUpdates:
    """Holds updates back for the commit: per key the last new value and the value before the first of them. They are
    sent in the order of their last updates, as Kafka Streams' record caches do: their times go up where those of the
    records did, so no window below closes too early. They are sent as part of the record that came last, too, if
    somebody below asks for that."""

    def __init__(self, context: NodeContext, send_old_values: bool) -> None:
        self._context = context
        self._forward = context.forward
        self._with_records = context.record_is_read
        self._send_old_values = send_old_values
        #: Takes the change of a key's value; ``old`` counts for the key's first update since it was emitted.
        self.update: Update = self._take_with_record if self._with_records else self._take
        self.entries: dict[Hashable, HeldUpdate] = {}
        self._batch = drain(self.entries)

    def _take(self, key: Any, identity: Hashable, new: Any, old: Any, timestamp: int, headers: Headers | None) -> None:
        earlier = self.entries.pop(identity, None)
        self.entries[identity] = (key, new, old if earlier is None else earlier[2], timestamp, headers, None)

    def _take_with_record(
        self, key: Any, identity: Hashable, new: Any, old: Any, timestamp: int, headers: Headers | None
    ) -> None:
        earlier = self.entries.pop(identity, None)
        old = old if earlier is None else earlier[2]
        self.entries[identity] = (key, new, old, timestamp, headers, without_bytes(self._context.record))

    def emit(self, limit: int) -> int:
        """Forwards at most ``limit`` keys, in the order of their last updates, and returns how many remain."""
        forward, send_old_values = self._forward, self._send_old_values
        context, with_records = self._context, self._with_records
        if not self._batch:
            self._batch = drain(self.entries)
        outer = context.record if with_records else None
        for key, new, old, timestamp, headers, record in self._batch.take(limit):
            if with_records:
                context.record = record
            # A key that came and went between two commits never existed for those downstream.
            if new is not None or old is not None:
                forward(key, (new, old if send_old_values else None), timestamp, headers)
        if with_records:
            context.record = outer
        return len(self._batch) + len(self.entries)


def without_bytes(record: InputRecord | None) -> InputRecord | None:
    """Keeps the place of a record until the commit. Messages of as many keys as wait would fill the memory."""
    if record is None:
        return None
    return RawRecord(record.topic(), record.partition(), record.offset(), None, None, record.timestamp()[1])


class HeldKeys:
    """Holds back the keys whose update is sent at the commit, where cells are Python's. It serves tables of which
    nobody asks for old values or records: the value is read from the store when it is sent. The operator notes a key
    anew with each change, so that the keys are in the order of their last ones."""

    def __init__(self, forward: Push, store: KeyValueStoreImpl) -> None:
        self._forward = forward
        self._cut = short_cut(forward, store.writes_as)
        self._read, self._raw, self._deleted_at = store.read, store.raw, store.deleted_at
        self.keys: dict[bytes, Any] = {}
        self.headers: dict[bytes, Headers] = {}
        self._batch = Batch([])

    def emit(self, limit: int) -> int:
        """Forwards at most ``limit`` keys with the values that the store has for them, and returns how many remain."""
        forward, read, raw, headers = self._forward, self._read, self._raw, self.headers
        instead_of, topic, emit = self._cut
        if not self._batch:
            self._batch = Batch(list(self.keys.items()))
            self.keys.clear()
        is_short = id(forward) == instead_of and not headers
        for key_bytes, key in self._batch.take(limit):
            entry: Any = read(key_bytes)
            value, timestamp = entry
            if type(entry) is Cell:  # unless another processor wrote the store meanwhile
                entry.held = 0
            if value is None:
                timestamp = self._deleted_at(key)
            if is_short:
                emit((topic, None if value is None else raw(value), key_bytes, -1, None, None, timestamp, None))
            else:
                forward(key, (value, None), timestamp, headers.pop(key_bytes, None) if headers else None)
        return len(self._batch) + len(self.keys)


class HeldCells:
    """Holds back the counts that are sent at the commit, each with its cell, which it keeps when another processor
    writes it meanwhile."""

    def __init__(
        self,
        forward: Push,
        cut: ShortCut,
        library: Any | None,
        deleted_at: Callable[..., int],
        key_of: Callable[..., Any],
        hidden: tuple[int, int],
    ) -> None:
        """Takes the ``library`` that made the cells. Of what stands behind a cell, ``deleted_at`` tells when it was
        deleted, if another processor has done that, and ``key_of`` makes the key that is sent; ``hidden`` is how many
        bytes the physical key has before and behind those of that key."""
        self._forward = forward
        self._cut = cut
        self._library = library
        self._deleted_at = deleted_at
        self._key_of = key_of
        self._hidden = hidden
        #: Each cell that is held, with its key, and with the start and end of its window if it has one.
        self.cells: list[tuple[Any, ...]] = []
        #: By the ``id`` of a cell that is held.
        self.headers: dict[int, Headers] = {}
        self._batch = Batch([])

    @property
    def noted(self) -> tuple[list[tuple[Any, ...]], dict[int, Headers]]:
        """The list and the dictionary in which whoever counts notes what is held."""
        return self.cells, self.headers

    def emit(self, limit: int) -> int:
        """Forwards at most ``limit`` counts, in the order of their last updates, and returns how many remain."""
        forward, headers, (instead_of, topic, emit) = self._forward, self.headers, self._cut
        if not self._batch:
            in_order = _by_last_update if self._library is None else self._library.by_last_update
            self._batch = Batch(in_order(self.cells))
            self.cells.clear()
        taken = self._batch.take(limit)
        if self._library is not None and id(forward) == instead_of and not headers:
            for record in self._library.results(taken, topic, self._deleted_at, *self._hidden):
                emit(record)
            return len(self._batch) + len(self.cells)
        for cell, *parts in taken:
            cell.held = 0
            count, timestamp = cell
            if count is None:
                timestamp = self._deleted_at(*parts)
            key = self._key_of(*parts)
            forward(key, (count, None), timestamp, headers.pop(id(cell), None) if headers else None)
        return len(self._batch) + len(self.cells)


def _by_last_update(held: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(held, key=lambda each: each[0].held)


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
