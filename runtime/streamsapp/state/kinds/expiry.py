"""Entries that are over from a time on: their forms, their keys, and the order in which their time comes.

Used by the stores of :mod:`streamsapp.state.kinds.expiring`, on the processing thread that holds the task, by the
thread that restores it, and by the layers and engines below.

========  ==========================================================================================
form
========  ==========================================================================================
raw       value; the changelog's record has the time in the header ``streamsapp.expires-at``
physical  time (8 bytes) ‖ physical form of an entry that is never over
stored    :class:`Lasting`
========  ==========================================================================================

An entry lies under ``00 ‖ key``, and its place in the order of time under ``01 ‖ time (8 bytes) ‖ key``. So the entries
that are over lie together at the beginning of the places, and no entry that lives is looked at to find them. The
changelog has the entries alone: a restore makes the places of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import inf
from struct import Struct
from sys import getsizeof
from typing import Any, NamedTuple

from sortedcontainers import SortedList

from streamsapp.errors import StateStoreError
from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine.entries import ABSENT, NO_TIMESTAMP, Entry, EntryFormat, PhysicalEntry, PlainFormat
from streamsapp.state.engine.epoch import Writes
from streamsapp.state.engine.store_engine import Reads
from streamsapp.state.kinds.store_type import Layers, PlainLayout

#: The header of changelog records that says from which time on an entry is over: 8 bytes, milliseconds since 1970.
EXPIRES_AT = "streamsapp.expires-at"
#: The time of an entry that is never over.
NEVER = MAX_TIMESTAMP
#: The first byte of the keys of entries, and of places.
ENTRY, PLACE = b"\x00", b"\x01"
#: The number of places that are read at once, and so many times as many are kept in memory at most.
_READ, _KEPT = 500, 4
_TIME = Struct(">q")
#: Stored in a place, which says all by its key.
_HERE = b""
_AT_PLACE: Entry = (_HERE, NO_TIMESTAMP)
#: The epoch of an entry whose place was not first written in this one.
_EARLIER = -1


class Lasting(NamedTuple):
    """A stored value, and the time from which on it is over."""

    value: Any
    until: int
    #: The epoch that brought its place, if that is to be known: a place that goes in the same epoch leaves no trace.
    epoch: int = _EARLIER

    def __sizeof__(self) -> int:
        return tuple.__sizeof__(self) + getsizeof(self.value)


def place_of(until: int, key: bytes) -> bytes:
    """Returns the key under which an entry's place lies."""
    return PLACE + _TIME.pack(until) + key


def key_of(physical: bytes) -> bytes:
    """Returns the key of an entry, or of a place."""
    return physical[len(ENTRY) if physical.startswith(ENTRY) else len(PLACE) + _TIME.size :]


class ExpiryFormat:
    """Translates between the forms of entries with a time, over the format of the same entries without."""

    has_headers = True
    keeps_values = False
    number_size = 0

    def __init__(self, plain: PlainFormat, ttl_ms: int | None) -> None:
        """Takes the time to live of records whose writer knows of no times, as a JVM."""
        self.plain = plain
        self.kept = plain.kept
        self._ttl = ttl_ms
        self.to_stored: Callable[[Any], Any] = lambda value: Lasting(plain.to_stored(value), NEVER)
        self.from_stored: Callable[[Any], Any] = lambda stored: None if stored is None else plain.from_stored(stored[0])
        self.stored_again: Callable[[Any, Any], Any] = lambda value, stored: self.to_stored(value)

    def raw(self, stored: Any) -> bytes:
        return self.plain.raw(stored.value)

    def headers(self, entry: Entry) -> Headers | None:
        stored = entry[0]
        return None if stored is None or stored.until == NEVER else [(EXPIRES_AT, _TIME.pack(stored.until))]

    def physical(self, entry: Entry) -> bytes:
        stored, timestamp = entry
        return (
            _HERE
            if stored.__class__ is bytes
            else _TIME.pack(stored.until) + self.plain.physical((stored.value, timestamp))
        )

    def entry(self, physical: bytes) -> Entry:
        if not physical:
            return _AT_PLACE
        value, timestamp = self.plain.entry(physical[_TIME.size :])
        return Lasting(value, _TIME.unpack_from(physical)[0]), timestamp

    def readable(self, entry: Entry) -> Entry:
        stored, timestamp = entry
        if stored is None:
            return ABSENT
        return _AT_PLACE if stored.__class__ is bytes else (stored, self.plain.readable((stored.value, timestamp))[1])

    def restored(self, record: InputRecord) -> bytes | None:
        physical = self.plain.restored(record)
        return None if physical is None else _TIME.pack(self.until(record)) + physical

    def until(self, record: InputRecord) -> int:
        """Returns the time from which on the entry of a changelog's record is over."""
        for name, value in reversed(record.headers() or ()):
            if name == EXPIRES_AT:
                if value is None or len(value) != _TIME.size or (until := _TIME.unpack(value)[0]) < 0:
                    where = f"{record.topic()}-{record.partition()}@{record.offset()}"
                    raise StateStoreError(
                        f"record {where} has a header {EXPIRES_AT} that is no time: {value!r:.100}. Stop other writers "
                        "of the changelog, and reset the application"
                    )
                found: int = until
                return found
        return lasts_until(record.timestamp()[1], self._ttl)


def lasts_until(timestamp: int, ttl_ms: int | None) -> int:
    """Returns the time from which on an entry is over that was written at a time."""
    return NEVER if ttl_ms is None else min(timestamp + ttl_ms, NEVER)


class ExpiryLayout(PlainLayout):
    """Gives entries and places their keys."""

    takes_cells = False
    behind_entries = PLACE

    def __init__(self) -> None:
        self.order = ExpiryOrder()
        #: The stream time of the task.
        self.stream_time: Callable[[], int] = lambda: NO_TIMESTAMP

    def restored(
        self, records: Sequence[InputRecord], format: EntryFormat, committed: Reads
    ) -> Sequence[PhysicalEntry]:
        """Returns the entries of records, each with its place, and takes back the places that they had before."""
        assert isinstance(format, ExpiryFormat)
        self.order.forget()
        newest = {key: record for record in records if (key := record.key()) is not None}
        before = committed.get_many([ENTRY + key for key in newest])
        entries: list[PhysicalEntry] = []
        for (key, record), (had, _) in zip(newest.items(), before, strict=True):
            physical = format.restored(record)
            until = NEVER if physical is None else format.until(record)
            entries.append((ENTRY + key, physical))
            if had is not None and had.until not in (until, NEVER):
                entries.append((place_of(had.until, key), None))
            if until != NEVER:
                entries.append((place_of(until, key), _HERE))
        return entries

    def changelog(self, writes: Writes) -> Iterable[tuple[bytes, Entry]]:
        skip = len(ENTRY)
        return ((key[skip:], entry) for key, entry in writes.writes() if key.startswith(ENTRY))

    def stand_at(self, facts: bytes | None) -> None:
        self.order.forget()


class ExpiryOrder:
    """The places of a store's entries in the order of time. The first ones are in memory, up to some place; the others
    are read when these are gone."""

    def __init__(self) -> None:
        self._first: SortedList[bytes] = SortedList()
        #: The last place that is in memory if it exists: ``None`` if all are, ``b""`` if none is.
        self._known_to: bytes | None = b""

    def forget(self) -> None:
        """The store has changed below: everything is read anew."""
        self._first.clear()
        self._known_to = b""

    def first(self, layers: Layers) -> tuple[float, bytes]:
        """Returns the time that comes first, infinite if there is none, and the key that is over then."""
        if not self._first and self._known_to is not None:
            self._read(layers, self._known_to)
        if not self._first:
            return inf, b""
        place = self._first[0]
        return _TIME.unpack_from(place, len(PLACE))[0], key_of(place)

    def add(self, layers: Layers, until: int, key: bytes) -> int:
        """Puts a key in its place; returns the epoch to be kept with the entry."""
        place = place_of(until, key)
        # A place that was taken back in this epoch may be there below.
        epoch = _EARLIER if layers.is_dirty(place) else layers.epoch
        layers.append(place, _AT_PLACE)
        if self._known_to is None or place <= self._known_to:
            self._first.add(place)
            if len(self._first) > _KEPT * _READ:
                del self._first[_READ:]
                self._known_to = self._first[-1]
        return epoch

    def remove(self, layers: Layers, entry: Lasting, key: bytes) -> None:
        """Takes an entry's place back, if it has one."""
        if entry.until == NEVER:
            return
        place = place_of(entry.until, key)
        if entry.epoch == layers.epoch:
            layers.forget(place)
        else:
            layers.append(place, ABSENT)
        if self._known_to is None or place <= self._known_to:
            self._first.discard(place)

    def _read(self, layers: Layers, behind: bytes) -> None:
        """Reads the next places. Those before are gone, and RocksDB need not pass over what is left of them."""
        found = layers.look(behind + b"\x00" if behind else PLACE, None, reverse=False)
        self._first.update(place for place, _ in islice(found, _READ))
        self._known_to = self._first[-1] if len(self._first) == _READ else None
