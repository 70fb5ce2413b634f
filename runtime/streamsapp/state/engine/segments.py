"""Makes the keys of stores whose entries expire. In front of the changelog's key stands the segment that the entry's
time falls into. So all expired entries are one range, deleted at one go, and living entries are never looked at for it.

One per store of a task. Written to on the processing thread that holds the task, or by the restoration thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct, error

from streamsapp.errors import StateStoreError
from streamsapp.record import InputRecord
from streamsapp.state.engine.entries import Entry, EntryFormat, PhysicalEntry
from streamsapp.state.engine.epoch import Range, Writes
from streamsapp.state.engine.store_engine import Reads

_SEGMENT = Struct(">q")
_pack_segment = _SEGMENT.pack
_FACTS = Struct(">qq")

#: The time of a store that has seen none.
NO_TIME = -1
#: Segments whose bytes are remembered; more are written at a time only where segments are short.
_PREFIXES_AT_HAND = 256


class _Prefixes(dict[int, bytes]):
    """The bytes that the physical keys of entries in a segment begin with, made once per segment."""

    def __init__(self, mark: bytes) -> None:
        super().__init__()
        self._mark = mark

    def __missing__(self, segment: int) -> bytes:
        if len(self) >= _PREFIXES_AT_HAND:
            self.clear()
        prefix = self[segment] = _pack_segment(segment) + self._mark
        return prefix


class Segments:
    """The :class:`~streamsapp.state.kinds.store_type.Layout` of a store with a retention."""

    #: The bytes between the segment and the changelog's key.
    mark = b""
    takes_cells = False
    start_at = 0
    behind_entries = None
    #: Says whether the time of a deletion counts as written. A deletion by which nothing can be deleted moves no time.
    deletions_are_times = True

    def __init__(self, retention_ms: int, interval_ms: int, time_of: Callable[[bytes], int]) -> None:
        """Takes ``time_of``, which reads the time of an entry from the changelog's key."""
        self._retention = retention_ms
        self._interval = interval_ms
        self._time_of = time_of
        #: By segment: the bytes in front of the changelog's key.
        self.prefixes = _Prefixes(self.mark)
        #: The highest time that was written or restored, in milliseconds.
        self.stream_time = NO_TIME
        #: The time before which entries do not exist any more.
        self.expired_before = 0
        #: The time before which nothing is left, or nothing will be left after the next commit.
        self.deleted_before = 0
        #: Numbers entries of one key and time; never lower than the number of entries that were appended.
        self.appended = 0
        #: The number of times that the store began anew, with what was committed or restored.
        self.begun = 0
        #: The first segment that was alive when expired ones were last taken to be deleted.
        self._deleted_to = 0

    @staticmethod
    def statistics() -> Mapping[str, int]:
        """Returns no figures beyond the common ones of all stores."""
        return {}

    @property
    def in_order_of_time(self) -> bool:
        """Says whether entries lie in the order of their time."""
        return self._interval == 1

    def expired_at(self, stream_time: int) -> int:
        """Returns the time before which entries do not exist any more at another stream time."""
        return max(0, stream_time - self._retention + 1)

    def observe(self, timestamp: int) -> bool:
        """Notes that something is written at this time; returns whether it lives."""
        if timestamp > self.stream_time:
            # As _advance does; in most stores most records come here.
            self.stream_time = timestamp
            expired_before = timestamp - self._retention + 1
            if expired_before > 0:
                self.expired_before = expired_before
                self.deleted_before = expired_before - expired_before % self._interval
        return timestamp >= self.expired_before

    def physical(self, key: bytes, timestamp: int) -> bytes:
        """Returns the physical key of an entry, from that of the changelog."""
        return self.prefixes[timestamp // self._interval] + key

    def between(self, start_ms: int, end_ms: int) -> range:
        """Returns the segments that hold times from ``start_ms`` to ``end_ms``, both inclusive, as far as any entry
        lives there."""
        first, last = max(start_ms, self.expired_before), min(end_ms, self.stream_time)
        return range(first // self._interval, last // self._interval + 1) if first <= last else range(0)

    @staticmethod
    def prefix(segment: int) -> bytes:
        """Returns the bytes that the physical keys of a segment begin with."""
        return _SEGMENT.pack(segment)

    @staticmethod
    def logical(physical: bytes) -> bytes:
        """Returns the changelog's key."""
        return physical[_SEGMENT.size :]

    def restored(
        self, records: Sequence[InputRecord], format: EntryFormat, committed: Reads
    ) -> Sequence[PhysicalEntry]:
        """Returns the entries of records, without entries that have expired by the newest of them (KAFKA-13499)."""
        timed = self._timed(records)
        written = timed if self.deletions_are_times else [each for each in timed if each[2].value() is not None]
        self._advance(max(self.stream_time, max((each[0] for each in written), default=NO_TIME)))
        if records:
            self.appended = max(self.appended, records[-1].offset() + 1)
        expired_before, physical, value = self.expired_before, self.physical, format.restored
        return [(physical(key, time), value(record)) for time, key, record in timed if time >= expired_before]

    def _timed(self, records: Sequence[InputRecord]) -> list[tuple[int, bytes, InputRecord]]:
        """Returns the records that have a key, with it and its time."""
        time_of, timed = self._time_of, []
        try:
            for record in records:
                if (key := record.key()) is not None:
                    timed.append((time_of(key), key, record))
        except error as cause:
            where = f"{record.topic()}-{record.partition()}@{record.offset()}"
            raise StateStoreError(
                f"record {where} is not an entry of a store with a retention: its key ends before the time of the "
                "entry. Stop other writers of the changelog, and reset the application"
            ) from cause
        return timed

    def changelog(self, writes: Writes) -> Iterable[tuple[bytes, Entry]]:
        return writes.behind(_SEGMENT.size)

    def unwritten_from(self) -> bytes:
        return _SEGMENT.pack(self.stream_time // self._interval + 1)

    def take_expired(self) -> Sequence[Range]:
        live = self.expired_before // self._interval
        if live <= self._deleted_to:
            return ()
        self._deleted_to = live
        # From the beginning each time: what an epoch that was reverted should have deleted is deleted with the next.
        return ((b"", _SEGMENT.pack(live)),)

    def living(self, keys: Iterable[bytes], facts: bytes | None) -> Iterable[bytes]:
        """Returns all: some stores return expired entries for as long as their segment lives."""
        return keys

    def facts(self) -> bytes | None:
        return _FACTS.pack(self.stream_time, self.appended)

    def stand_at(self, facts: bytes | None) -> None:
        stream_time, self.appended = (NO_TIME, 0) if facts is None else _FACTS.unpack(facts)
        self._advance(stream_time)
        self.begun += 1
        self._deleted_to = 0

    @staticmethod
    def _stream_time_of(facts: bytes) -> int:
        stream_time: int = _FACTS.unpack(facts)[0]
        return stream_time

    def _advance(self, stream_time: int) -> None:
        self.stream_time = stream_time
        self.expired_before = self.expired_at(stream_time)
        self.deleted_before = self.expired_before // self._interval * self._interval
