"""Finds the versions of keys in a versioned store, gives new ones their place, and lets old ones expire.

Used by the store's facade on the processing thread that holds the task, and by the thread that restores it.

The value that a key has now lies under ``ff ‖ key`` and costs one look-up. A value that is over lies under ``segment (8
bytes) ‖ length of key (4 bytes) ‖ key ‖ since (8 bytes)``. It lies in the segment that the end of its validity falls
into, and a deletion in the segment of its own time. So everything that can no longer be asked for is a range of whole
segments, as in Kafka Streams (KIP-889). Its key need not be written again for that. No time before the history is
asked for, and a deletion matters only to earlier versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from struct import Struct
from sys import getsizeof
from typing import Any, NamedTuple, Protocol, TypeAlias

from streamsapp.java_names.lookup import java_names
from streamsapp.record import InputRecord
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine.entries import NO_TIMESTAMP, Entry, EntryFormat, PhysicalEntry, PlainFormat
from streamsapp.state.engine.epoch import Epoch, Range, Writes, merged
from streamsapp.state.engine.segments import Segments
from streamsapp.state.engine.store_engine import Reads

#: A put returns this if the value is the key's latest: it is valid without end.
PUT_RETURN_CODE_VALID_TO_UNDEFINED = -1
#: A put returns this if it came too late for the history, and was not made.
PUT_RETURN_CODE_NOT_PUT = -(1 << 63)

#: Until when a version is valid that is the latest, and what stands there for a deletion.
OPEN, _DELETED = -1, -2
#: Behind all segments.
LATEST = b"\xff"
_LENGTH = Struct(">I")
_TIME = Struct(">q")
_BOUNDS = Struct(">qq")
_SEGMENT = 8

Write: TypeAlias = Callable[[bytes, Any, int], None]


class Version(NamedTuple):
    """A value as it is stored, ``None`` for a deletion, and since and until when it is valid, in milliseconds."""

    value: Any
    since: int
    until: int
    #: The number of its put, by which the changelog has it; 0 if it was read from disk.
    number: int = 0

    def __sizeof__(self) -> int:
        return tuple.__sizeof__(self) + getsizeof(self.value)


@java_names("VersionedRecord")
class VersionedRecord(NamedTuple):
    """A value of a versioned store, the time since when it is valid, and the time until when (``None`` for the latest).
    Times are milliseconds since 1970."""

    value: Any
    timestamp: int
    valid_to: int | None = None


class VersionFormat(PlainFormat):
    """Writes the bounds of its validity before each value."""

    def physical(self, entry: Entry) -> bytes:
        value, since, until, _ = entry[0]
        return _BOUNDS.pack(since, until) + (b"" if value is None else self.raw(value))

    def entry(self, physical: bytes) -> Entry:
        since, until = _BOUNDS.unpack_from(physical)
        value = None if until == _DELETED else self._deserialize(physical[_BOUNDS.size :])
        return Version(value, since, until), NO_TIMESTAMP

    def logged(self, raw: bytes | None) -> Any:
        """Returns a value of the changelog as it is stored."""
        return None if raw is None else self._deserialize(raw)


class VersionLayout(Segments):
    """Gives versions their keys. The changelog has each put once, in the order in which the puts were made."""

    def __init__(self, history_ms: int, interval_ms: int) -> None:
        super().__init__(history_ms + 1, interval_ms, lambda _: 0)
        #: Puts with higher numbers are of the running epoch.
        self._frozen_to = 0

    def past(self, key: bytes, since: int, until: int) -> bytes:
        """Returns the key of a version that is over, or of a deletion, which is over at once."""
        return self.prefix(until // self._interval) + self.key_prefix(key) + _TIME.pack(since)

    @staticmethod
    def key_prefix(key: bytes) -> bytes:
        """Returns the part of a physical key between segment and time."""
        return _LENGTH.pack(len(key)) + key

    @staticmethod
    def key_of(physical: bytes) -> bytes:
        """Returns the serialised key."""
        if physical.startswith(LATEST):
            return physical[len(LATEST) :]
        return physical[_SEGMENT + _LENGTH.size : -_TIME.size]

    def log_number(self, version: Version) -> int:
        """Returns the number that is written beside a version in place of a timestamp: the number of its put, if the
        changelog is still to have it."""
        return version.number if version.number > self._frozen_to else NO_TIMESTAMP

    def restored(self, records: Sequence[InputRecord], format: EntryFormat, committed: Reads) -> list[PhysicalEntry]:
        """Puts the records again in their order, which decides which of them are kept."""
        assert isinstance(format, VersionFormat)
        keyed = [(key, record) for record in records if (key := record.key()) is not None]
        replay = _Replay(committed, [LATEST + key for key, _ in keyed])
        versions = Versions(replay, self)
        for key, record in keyed:
            versions.put(key, format.logged(record.value()), record.timestamp()[1], replay.write)
        written = replay.writes.items()
        return [(key, None if entry[0] is None else format.physical(entry)) for key, entry in written]

    def changelog(self, writes: Writes) -> Iterable[tuple[bytes, Entry]]:
        logged = (
            (number, self.key_of(physical), version)
            for physical, (version, number) in writes.writes()
            if version is not None and number != NO_TIMESTAMP
        )
        return ((key, (version.value, version.since)) for _, key, version in sorted(logged, key=lambda each: each[0]))

    def unwritten_from(self) -> bytes:
        return b""  # the latest versions lie beyond all segments

    def take_expired(self) -> Sequence[Range]:
        self._frozen_to = self.appended
        return super().take_expired()

    def stand_at(self, facts: bytes | None) -> None:
        super().stand_at(facts)
        self._frozen_to = self.appended


class VersionReads(Protocol):
    """Reads entries of versions."""

    @property
    def read(self) -> Callable[[bytes], Entry]: ...
    def look(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]: ...


class Versions:
    """Reads versions, and puts new ones in their place."""

    def __init__(self, reads: VersionReads, layout: VersionLayout) -> None:
        self._read = reads.read
        self._look = reads.look
        self._layout = layout

    def latest(self, key: bytes) -> Version | None:
        """Returns the value that a key has now."""
        found: Version | None = self._read(LATEST + key)[0]
        return found

    def as_of(self, key: bytes, timestamp: int) -> Version | None:
        """Returns the value that a key had at a time. Of a time before the history only a version that is still the
        latest is known."""
        layout, latest = self._layout, self.latest(key)
        if latest is not None and latest.since <= timestamp:
            return latest
        if timestamp < layout.expired_before:
            return None
        for segment in layout.between(timestamp, MAX_TIMESTAMP):
            found = self._last(segment, key, timestamp)
            if found is not None and found.until > timestamp:
                return found
        return None

    def put(self, key: bytes, value: Any, since: int, write: Write) -> int:
        """Gives a key a value from a time on; ``None`` deletes it. Returns the time until when it is valid, or one of
        the codes above."""
        layout = self._layout
        if since < layout.expired_before:
            return PUT_RETURN_CODE_NOT_PUT
        is_newest = since > layout.stream_time
        layout.observe(since)
        layout.appended += 1
        latest = self.latest(key)
        version = Version(value, since, OPEN if value is not None else _DELETED, layout.appended)
        if (latest is None and not is_newest) or (latest is not None and latest.since > since):
            return self._put_before(key, version, latest, write)
        if latest is not None and latest.since < since:
            self._end(key, latest, since, write)
        self._put_last(key, version, latest, write)
        return PUT_RETURN_CODE_VALID_TO_UNDEFINED

    def _put_last(self, key: bytes, version: Version, latest: Version | None, write: Write) -> None:
        if version.value is not None:
            write(LATEST + key, version, version.number)
            return
        if latest is not None:
            write(LATEST + key, None, NO_TIMESTAMP)
        write(self._layout.past(key, version.since, version.since), version, version.number)

    def _put_before(self, key: bytes, version: Version, latest: Version | None, write: Write) -> int:
        """Puts a version out of order. It takes the end of the version that was valid then, or ends with the next."""
        layout, since = self._layout, version.since
        found, following = self._around(key, since)
        if latest is not None and following is None:
            following = latest.since
        if found is not None:
            until = found.until if found.until != _DELETED else following
            write(layout.past(key, found.since, max(found.since, found.until)), None, NO_TIMESTAMP)
            if found.since < since:
                self._end(key, found, since, write)
        else:
            until = following
        if until is None:
            self._put_last(key, version, latest, write)
            return PUT_RETURN_CODE_VALID_TO_UNDEFINED
        if version.value is None:
            write(layout.past(key, since, since), version, version.number)
        else:
            write(layout.past(key, since, until), version._replace(until=until), version.number)
        return until

    def _end(self, key: bytes, version: Version, until: int, write: Write) -> None:
        """Moves a version among the versions that are over."""
        layout, (value, since, _, number) = self._layout, version
        write(layout.past(key, since, until), Version(value, since, until, number), layout.log_number(version))

    def _around(self, key: bytes, timestamp: int) -> tuple[Version | None, int | None]:
        """Returns the version that was valid at a time, or was put then, and when the next version that is over
        began."""
        layout = self._layout
        there, following = None, None
        for segment in layout.between(timestamp, MAX_TIMESTAMP):
            found = self._last(segment, key, timestamp)
            if found is not None and (found.until > timestamp or found.since == timestamp):
                there = found
            prefix = layout.prefix(segment) + layout.key_prefix(key)
            later = self._look(prefix + _TIME.pack(timestamp + 1), prefix + LATEST, reverse=False)
            for _, (version, _) in later:
                following = version.since if following is None else min(following, version.since)
                break
        return there, following

    def _last(self, segment: int, key: bytes, timestamp: int) -> Version | None:
        """Returns the last version of a segment that began by then."""
        prefix = self._layout.prefix(segment) + self._layout.key_prefix(key)
        for _, (version, _) in self._look(prefix, prefix + _TIME.pack(timestamp) + b"\x00", reverse=True):
            found: Version = version
            return found
        return None


class _Replay:
    """Reads a store with the entries above it that are being restored."""

    def __init__(self, committed: Reads, wanted: Sequence[bytes]) -> None:
        """Reads the entries of ``wanted`` with one call."""
        self.writes = Epoch()
        self._committed = committed
        keys = list(dict.fromkeys(wanted))
        self._found = dict(zip(keys, committed.get_many(keys), strict=True))

    def read(self, key: bytes) -> Entry:
        written = self.writes.get(key)
        return self._found[key] if written is None else written

    def look(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        writes = self.writes
        above = ((key, writes[key]) for key in writes.between(start, end, reverse=reverse))
        return merged(self._committed.scan(start, end, reverse=reverse), above, reverse)

    def write(self, key: bytes, stored: Any, number: int) -> None:
        self.writes[key] = (stored, number)
