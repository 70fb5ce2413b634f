"""The part that the facades of all store types have in common: a name, serdes, and writes that end with the task.

Made with the task, on the polling thread; called on the processing thread that holds the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from streamsapp.errors import StateStoreError
from streamsapp.state.engine.entries import NO_TIMESTAMP, Entry, EntryFormat, ToStored, kept_key, storing
from streamsapp.state.engine.headers import HeadersFormat, loggable
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.recent_entries import Recent
from streamsapp.state.kinds.store_type import Layers, StoreParts


class Facade:
    """A store that can be written to while its task is open."""

    def __init__(self, parts: StoreParts) -> None:
        self._name = parts.name
        self._layers: Layers = parts.layers
        self._write: Callable[[bytes, Any, int], None] = parts.layers.write

    @property
    def name(self) -> str:
        return self._name

    def open(self) -> None:
        """Takes writes again, from callers that ask for the function anew."""
        self._write = self._layers.write

    def close(self) -> None:
        """Makes writes raise from here on; reads raise as soon as the layers lose their engine."""
        self._write = self._refuse_write

    def _refuse_write(self, key: bytes, stored: Any, timestamp: int) -> None:
        raise StateStoreError(f"state store {self._name!r} is closed; stores may be used only while their task is open")


class SerdeFacade(Facade):
    """A store that users call with keys and values, and operators with the bytes of keys and values as stored."""

    def __init__(self, parts: StoreParts) -> None:
        super().__init__(parts)
        self._context_timestamp = parts.context_timestamp
        self._deserialize_key: Callable[[bytes], Any] = parts.key_serde.deserialize
        #: Fast protocol: the bytes of a key.
        self.key_bytes: Callable[[Any], bytes] = kept_key(parts.key_serde)
        #: ``(key, value)``, the value not being ``None``; raises ``ValueError`` for a value that could not be written.
        self.to_stored: ToStored = storing(parts.name, parts.value_serde, parts.format)
        self.from_stored: Callable[[Any], Any] = parts.format.from_stored
        #: The bytes of a stored value, as its serde wrote them.
        self.raw: Callable[[Any], bytes] = parts.format.raw

    def _deleted_at(self, physical: bytes) -> int:
        """Returns the time at which an entry was deleted in the running epoch."""
        deleted = self._layers.running(physical)
        return NO_TIMESTAMP if deleted is None else deleted[1]

    def _key(self, key: Any) -> bytes:
        if key is None:
            raise StateStoreError(f"null key for state store {self._name!r}; filter records without a key first")
        return self.key_bytes(key)


def headers_format_of(store: object) -> HeadersFormat | None:
    """Returns the format of a store that keeps headers; ``None`` for every other one."""
    given = getattr(store, "given_headers", None)
    return given.format if isinstance(given, GivenHeaders) else None


class GivenHeaders:
    """The headers of values that users put into a store with headers: those that the value has. A deletion has those of
    the record in process, and so does a value without any of its own."""

    def __init__(self, format: EntryFormat) -> None:
        assert isinstance(format, HeadersFormat)
        self.format = format

    @contextmanager
    def of(self, value: Any) -> Iterator[None]:
        """Has the store write ``value`` with its headers meanwhile."""
        before = self.format.now
        if value is not None and (given := getattr(value, "headers", None)) is not None:
            self.format.now = list(loggable(given) or ()) or None
        try:
            yield
        finally:
            self.format.now = before


class SegmentedFacade(SerdeFacade):
    """A store whose entries expire by segments: windows by their start, sessions by their end."""

    def __init__(self, parts: StoreParts, segments: Segments) -> None:
        super().__init__(parts)
        self._segments = segments
        self._recent: Recent | None = None
        #: Takes entries that are not read through the cache.
        self._append: Callable[[bytes, Entry], None] = self._layers.append

    def keep_recent(self) -> None:
        """Holds the newest entries in memory, for an operator that asks for the neighbours of every record. The
        caller has the only facade through which the store is written."""
        self._recent = Recent(self._segments, self._layers.room)

    @property
    def stream_time(self) -> int:
        """The latest time of all entries that were ever written, in milliseconds; -1 if none was."""
        return self._segments.stream_time

    def expired_at(self, stream_time: int) -> int:
        """The earliest time that is still kept once an entry of ``stream_time`` was written."""
        return self._segments.expired_at(stream_time)

    def open(self) -> None:
        super().open()
        self._append = self._layers.append

    def close(self) -> None:
        super().close()
        self._append = self._refuse_append

    def _refuse_append(self, key: bytes, entry: Entry) -> None:
        self._refuse_write(key, *entry)


def directed(segments: range, reverse: bool) -> range:
    """Returns the segments in the order in which they are read."""
    return segments[::-1] if reverse else segments
