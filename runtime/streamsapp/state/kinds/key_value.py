"""The key-value stores that operators and users get: serdes on top of the write-back layer.

Made with the task; called on the processing thread that holds it. The fast protocol (``key_bytes``, ``read``,
``write``, ``prefetch``) is for operators, which call it once or twice per record. Its functions have no layer of their
own, and callers check for nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn

from streamsapp.errors import StateStoreError
from streamsapp.java_names.lookup import java_names
from streamsapp.processor.api import Duration
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.serdes import Serdes
from streamsapp.state.api import ValueAndTimestamp, ValueTimestampHeaders
from streamsapp.state.engine.entries import (
    Entry,
    EntryFormat,
    PlainFormat,
    TimestampedFormat,
    checked_timestamp,
)
from streamsapp.state.engine.headers import HeadersFormat
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.kinds.facade import GivenHeaders, SerdeFacade
from streamsapp.state.kinds.store_type import Layers, Layout, PlainLayout, StoreParts, StoreType
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack


@java_names("KeyValueStore")
class KeyValueStoreImpl(SerdeFacade):
    """A store of plain values. Its changelog carries the timestamp of the record that wrote the value."""

    def __init__(self, parts: StoreParts) -> None:
        super().__init__(parts)
        layers = parts.layers
        #: Fast protocol. ``read`` gives ``(stored, timestamp)``, ``(None, -1)`` where there is nothing. ``write`` takes
        #: ``(key bytes, stored, timestamp)``; to delete, ``stored`` is ``None`` and the timestamp is that of the record
        #: in process. A plain store gives no timestamps back: -1.
        self.read: Callable[[bytes], Entry] = layers.read
        self.write: Callable[[bytes, Any, int], object] = layers.write
        self.layers: Layers = layers
        self.prefetch: Callable[[Iterable[bytes]], None] = layers.prefetch
        #: The cells in which entries are counted up in place; ``None`` if that cannot be done.
        self.cells = layers.cells if parts.value_serde is Serdes.long() else None
        self._serdes = parts.key_serde, parts.value_serde

    def writes_as(self, key_serde: AnySerde, value_serde: AnySerde) -> bool:
        """Says whether these write keys and values in the bytes that the store has for them."""
        key, value = self._serdes
        return key_serde.serialize is key.serialize and value_serde.serialize is value.serialize

    def deleted_at(self, key: Any) -> int:
        """Returns the time at which a key was deleted in the running epoch."""
        return self._deleted_at(self.key_bytes(key))

    def get(self, key: Any) -> Any:
        return self._value(self.read(self._key(key)))

    def put(self, key: Any, value: Any, ttl: Duration | None = None) -> None:
        if ttl is not None:
            self._refuse_ttl()
        self._put(key, self._key(key), value)

    def put_if_absent(self, key: Any, value: Any, ttl: Duration | None = None) -> Any:
        """Puts the value if the key has none; returns the value that was there."""
        if ttl is not None:
            self._refuse_ttl()
        key_bytes = self._key(key)
        previous = self._value(self.read(key_bytes))
        if previous is None:
            self._put(key, key_bytes, value)
        return previous

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Removes a key, and returns the value that was there."""
        key_bytes = self._key(key)
        previous = self._value(self.read(key_bytes))
        self._put(key, key_bytes, None)
        return previous

    def range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        return self._range(from_key, to_key, reverse=False)

    def reverse_range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        return self._range(from_key, to_key, reverse=True)

    def all(self) -> KeyValueIterator[Any, Any]:
        return self._scan(b"", None, reverse=False)

    def reverse_all(self) -> KeyValueIterator[Any, Any]:
        return self._scan(b"", None, reverse=True)

    def prefix_scan(self, prefix: Any, prefix_serde: AnySerde | None = None) -> KeyValueIterator[Any, Any]:
        """Iterates over the entries whose key's bytes start with the prefix's bytes."""
        start = self._key(prefix) if prefix_serde is None else prefix_serde.serialize(prefix)
        return self._scan(start, prefix_end(start), reverse=False)

    def approximate_num_entries(self) -> int:
        return self.layers.count()

    def open(self) -> None:
        super().open()
        self.write = self._write

    def close(self) -> None:
        super().close()
        self.write = self._write

    def _refuse_ttl(self) -> NoReturn:
        raise StateStoreError(
            f"state store {self._name!r} was built without a time to live; build it with StoreBuilder.with_ttl(), or "
            "its table with Materialized(ttl=...), or leave ttl out"
        )

    def _value(self, entry: Entry) -> Any:
        return self.from_stored(entry[0])

    def _put(self, key: Any, key_bytes: bytes, value: Any) -> None:
        stored = None if value is None else self.to_stored(key, value)
        self.write(key_bytes, stored, self._context_timestamp())

    def _range(self, from_key: Any, to_key: Any, *, reverse: bool) -> KeyValueIterator[Any, Any]:
        start = b"" if from_key is None else self._key(from_key)
        # The end is exclusive below; a zero byte appended is the next key there can be.
        end = None if to_key is None else self._key(to_key) + b"\x00"
        if end is not None and start >= end:
            return KeyValueIterator(iter(()))
        return self._scan(start, end, reverse=reverse)

    def _scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> KeyValueIterator[Any, Any]:
        deserialize_key, value = self._deserialize_key, self._value
        entries = self.layers.scan(start, end, reverse=reverse)
        return KeyValueIterator((deserialize_key(key), value(entry)) for key, entry in entries)


class TimestampedKeyValueStoreImpl(KeyValueStoreImpl):
    """A store of :class:`ValueAndTimestamp`. Its changelog carries the value alone, with its timestamp."""

    def _value(self, entry: Entry) -> ValueAndTimestamp | None:
        stored, timestamp = entry
        return None if stored is None else ValueAndTimestamp(self.from_stored(stored), timestamp)

    def _put(self, key: Any, key_bytes: bytes, value: tuple[Any, int] | None) -> None:
        if value is None or value[0] is None:
            self.write(key_bytes, None, self._context_timestamp())
        else:
            self.write(key_bytes, self.to_stored(key, value[0]), checked_timestamp(self._name, key, value[1]))


class HeadersKeyValueStoreImpl(TimestampedKeyValueStoreImpl):
    """A store of :class:`ValueTimestampHeaders`. Its changelog carries the value alone, with its timestamp and its
    headers."""

    def __init__(self, parts: StoreParts) -> None:
        super().__init__(parts)
        self.given_headers = GivenHeaders(parts.format)

    def _value(self, entry: Entry) -> ValueTimestampHeaders | None:
        stored, timestamp = entry
        if stored is None:
            return None
        return ValueTimestampHeaders(self.from_stored(stored), timestamp, stored.headers)

    def _put(self, key: Any, key_bytes: bytes, value: tuple[Any, int] | None) -> None:
        with self.given_headers.of(value):
            super()._put(key, key_bytes, value)


@dataclass(frozen=True)
class KeyValueType:
    """The type of stores with one value per key."""

    name: str
    keeps_timestamps: bool
    keeps_headers: bool = False
    changelog_settings = MappingProxyType[str, str]({})
    window_of = None

    def with_headers(self) -> StoreType:
        return TIMESTAMPED_KEY_VALUE_WITH_HEADERS if self.keeps_timestamps else self

    def format(self, value_serde: AnySerde) -> EntryFormat:
        plain = TimestampedFormat(value_serde) if self.keeps_timestamps else PlainFormat(value_serde)
        return HeadersFormat(plain) if self.keeps_headers else plain

    def layout(self) -> Layout:
        return PlainLayout()

    def facade(self, parts: StoreParts) -> KeyValueStoreImpl:
        if self.keeps_headers:
            return HeadersKeyValueStoreImpl(parts)
        return TimestampedKeyValueStoreImpl(parts) if self.keeps_timestamps else KeyValueStoreImpl(parts)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        return StoreView(layers, format, readers)


KEY_VALUE: StoreType = KeyValueType("key_value", keeps_timestamps=False)
TIMESTAMPED_KEY_VALUE: StoreType = KeyValueType("timestamped_key_value", keeps_timestamps=True)
TIMESTAMPED_KEY_VALUE_WITH_HEADERS: StoreType = KeyValueType(
    "timestamped_key_value_with_headers", keeps_timestamps=True, keeps_headers=True
)


def prefix_end(prefix: bytes) -> bytes | None:
    """Returns the first key after all that start with the prefix; ``None`` if there is none."""
    stem = prefix.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else None
