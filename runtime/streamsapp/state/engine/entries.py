"""The entries that stores hold in memory, and their three byte forms: raw (changelog), physical (RocksDB) and stored
(memory).

Used by the write-back layer and the engines below it, on every thread that touches a store.

========  =====================  ==========================
form      plain store            timestamped store
========  =====================  ==========================
raw       value                  value
physical  value                  timestamp (8 bytes) ‖ value
stored    the value itself if its serde says it is immutable, else its raw bytes
========  =====================  ==========================
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from operator import index
from sys import getsizeof
from typing import Any, NoReturn, Protocol, TypeAlias

from streamsapp import native
from streamsapp.outgoing import ChangelogFormat
from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.api import AnySerde, identity
from streamsapp.serdes.numbers import whole_number_size
from streamsapp.serdes.shapes import can_be_copied

#: ``(stored, timestamp)``; ``stored`` is ``None`` for a key that is absent or deleted.
Entry: TypeAlias = tuple[Any, int]

#: A key and the physical form of its entry; ``None`` for a deletion.
PhysicalEntry: TypeAlias = tuple[bytes, bytes | None]


class LoggedEntry(tuple[Any, int]):  # noqa: SLOT001 - a tuple has no room for more
    """An entry whose changelog record has headers. They are logged with it, and are never read here again."""

    headers: Headers

    @classmethod
    def of(cls, stored: Any, timestamp: int, headers: Headers) -> LoggedEntry:
        """Returns the entry ``(stored, timestamp)`` with these headers."""
        entry = cls((stored, timestamp))
        entry.headers = headers
        return entry


def headers_size(headers: Headers | None) -> int:
    """Returns the bytes that headers take in memory, by estimate."""
    if not headers:
        return 0
    return getsizeof(headers) + sum(getsizeof(pair) + getsizeof(pair[0]) + getsizeof(pair[1]) for pair in headers)


#: The timestamp of entries that have none: absent keys, and every entry read from a plain store.
NO_TIMESTAMP = -1

_MAX_TIMESTAMP = (1 << 63) - 1

#: The entry that is read where there is nothing.
ABSENT: Entry = (None, NO_TIMESTAMP)

_TIMESTAMP = struct.Struct(">q")
_pack = _TIMESTAMP.pack
_unpack = _TIMESTAMP.unpack_from
_pack_both = struct.Struct(">qq").pack
LONG_SIZE = 8


def _physical_long(entry: Entry) -> bytes:
    return _pack_both(entry[1], entry[0])


def _keeping(serialize: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
    """Returns a serializer for values that are kept. Some serializers, such as orjson's, leave their result in a buffer
    of 4 KB or of ten times its size. Its length does not show that. A copy takes only what it has."""

    def kept(value: Any) -> bytes:
        return b"%b" % serialize(value)

    return kept


def kept_key(serde: AnySerde) -> Callable[[Any], bytes]:
    """Returns the serializer of a store's keys, which it keeps."""
    # The library's serdes of immutable values take no more than they need.
    return serde.serialize if serde.immutable else _keeping(serde.serialize)


def _serializing(serialize: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    def to_stored(value: Any) -> bytes:
        data = serialize(value)
        if data.__class__ is bytes:
            return data
        raise TypeError(f"its serializer gave {type(data).__name__}, not bytes")

    return to_stored


def _checking(serialize: Callable[[Any], Any]) -> Callable[[Any], Any]:
    serialized = _serializing(serialize)

    def to_stored(value: Any) -> Any:
        serialized(value)
        return value

    return to_stored


def storing(store: str, serde: AnySerde, format: EntryFormat) -> ToStored:
    """Returns the function that makes ``(key, value)`` the stored value of a store. It raises at once for a value that
    the changelog could not have: so the processing exception handler decides, and no commit fails for it. With a third
    argument, what is stored, the value is the one that was made of it: unless it was changed since, that is stored."""

    def refused(error: Exception, key: Any, value: Any) -> NoReturn:
        raise ValueError(
            f"state store {store!r} cannot keep a value of type {type(value).__name__} for key {key!r:.100}: "
            f"{error} (the store's value serde is {serde.name})"
        ) from error

    lowest, highest = (serde.bounds if format.keeps_values else None) or (0, -1)
    return native.ToStored(
        stored=format.to_stored, stored_again=format.stored_again, refused=refused, lowest=lowest, highest=highest
    )


def checked_timestamp(store: str, key: Any, timestamp: Any) -> int:
    """Raises ``ValueError`` for a number that Kafka does not take for a timestamp."""
    if timestamp.__class__ is int and 0 <= timestamp <= _MAX_TIMESTAMP:
        return timestamp
    raise ValueError(
        f"state store {store!r} cannot keep the timestamp {timestamp!r:.100} for key {key!r:.100}: give milliseconds "
        "since the epoch, an int that is not negative"
    )


def checked_bound(store: str, field: str, given: Any, least: int = 0) -> int:
    """Returns the start or the end of a window; raises ``ValueError`` for a time that no key can have. That has to
    happen before it moves the stream time."""
    try:
        bound = index(given)
    except TypeError:
        bound = least - 1
    if least <= bound <= _MAX_TIMESTAMP:
        return bound
    raise ValueError(
        f"state store {store!r} cannot have {given!r:.100} for {field}: give milliseconds since the epoch, an int"
    )


class ToStored(Protocol):
    """Makes a key's value the stored one, as :func:`storing` says."""

    def __call__(self, key: Any, value: Any, unless_changed: Any = None, /) -> Any: ...


class EntryFormat(ChangelogFormat, Protocol):
    """Translates between the three forms, for one store."""

    #: Says whether the stored form of an immutable value is the value itself.
    keeps_values: bool
    #: Of a value that is not ``None``; raises for what could not be written at the commit.
    to_stored: Callable[[Any], Any]
    from_stored: Callable[[Any], Any]
    #: Of a value that ``from_stored`` has made of the second argument, which it gives back if the value is unchanged.
    stored_again: Callable[[Any, Any], Any]
    #: The values that ``from_stored`` copies instead of reading them once more; ``None`` if it does not.
    kept: native.KeptValues | None

    def physical(self, entry: Entry) -> bytes:
        """Returns RocksDB's value of an entry that is not deleted."""
        ...

    def restored(self, record: InputRecord) -> bytes | None:
        """Returns the physical form of a changelog record; ``None`` for a deletion."""
        ...

    def entry(self, physical: bytes) -> Entry:
        """Returns the entry of a value that RocksDB holds."""
        ...

    def readable(self, entry: Entry) -> Entry:
        """Returns a written entry as reads see it: the same whether it is still in memory or was read back."""
        ...


def _unchanged(value: Any, stored: Any) -> Any:
    """Returns the same stored value: a value that cannot be changed is what it was."""
    return stored


def _kept(serde: AnySerde) -> native.KeptValues | None:
    writer = serde.serialize
    if isinstance(writer, native.ShapedWriter) and serde.deserialize is writer.read and can_be_copied(writer.shape):
        return native.KeptValues(writer=writer)
    return None


class PlainFormat:
    """Entries without timestamp."""

    has_headers = False
    keeps_values = True

    def __init__(self, serde: AnySerde) -> None:
        serialize, deserialize = serde.serialize, serde.deserialize
        self.kept = None if serde.immutable else _kept(serde)
        self.number_size = whole_number_size(serialize)
        if serde.immutable:
            self.to_stored: Callable[[Any], Any] = serde.checked or _checking(serialize)
            self.from_stored: Callable[[Any], Any] = identity
            #: Returns the changelog's value of something that is not deleted. Stored bytes are that already.
            self.raw: Callable[[Any], bytes] = serialize
            self._deserialize: Callable[[bytes], Any] = deserialize
            self.stored_again: Callable[[Any, Any], Any] = _unchanged
            return
        self.raw = self._deserialize = identity
        if self.kept is not None:
            self.to_stored, self.from_stored, self.stored_again = self.kept.stored, self.kept, self.kept.stored_again
        else:
            to_stored = self.to_stored = _keeping(_serializing(serialize))
            self.from_stored = lambda stored: None if stored is None else deserialize(stored)
            self.stored_again = lambda value, stored: to_stored(value)

    def physical(self, entry: Entry) -> bytes:
        return self.raw(entry[0])

    def restored(self, record: InputRecord) -> bytes | None:
        return record.value()

    def headers(self, entry: Entry) -> Headers | None:
        return None

    def entry(self, physical: bytes) -> Entry:
        return self._deserialize(physical), NO_TIMESTAMP

    def readable(self, entry: Entry) -> Entry:
        return entry[0], NO_TIMESTAMP


class HeadersLoggedFormat(PlainFormat):
    """Entries without timestamp, whose changelog records have the headers of the record that wrote them."""

    has_headers = True

    def headers(self, entry: Entry) -> Headers | None:
        return entry.headers if entry.__class__ is LoggedEntry else None


class TimestampedFormat(PlainFormat):
    """Entries with the timestamp of the record that wrote them."""

    def __init__(self, serde: AnySerde) -> None:
        super().__init__(serde)
        if self.number_size == LONG_SIZE:
            # As below, in one call: counts are the most frequent writes.
            self.physical = _physical_long  # type: ignore[method-assign]

    def physical(self, entry: Entry) -> bytes:
        return _pack(entry[1]) + self.raw(entry[0])

    def restored(self, record: InputRecord) -> bytes | None:
        raw = record.value()
        return None if raw is None else _pack(record.timestamp()[1]) + raw

    def entry(self, physical: bytes) -> Entry:
        return self._deserialize(physical[8:]), _unpack(physical)[0]

    def readable(self, entry: Entry) -> Entry:
        return ABSENT if entry[0] is None else entry
