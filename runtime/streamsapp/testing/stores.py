"""Shows a store's plain values, whether or not it keeps timestamps beside them, as Kafka's test driver does. Called on
the test's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamsapp.java_names.lookup import java_names
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import KeyValueStore, ValueAndTimestamp
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.kinds.key_value import TimestampedKeyValueStoreImpl
from streamsapp.state.kinds.window import WindowStoreImpl


@java_names("KeyValueStore")
class PlainValues:
    """Hides the timestamps of a key-value store. Values that a test writes have the driver's wall-clock time."""

    def __init__(self, store: KeyValueStore[Any, Any], now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        self._timestamped = isinstance(store, TimestampedKeyValueStoreImpl)

    @property
    def name(self) -> str:
        return self._store.name

    def get(self, key: Any) -> Any:
        """Returns the value, ``None`` if there is none."""
        return _plain(self._store.get(key))

    def put(self, key: Any, value: Any) -> None:
        """Writes a value; ``None`` deletes the key."""
        self._store.put(key, self._kept(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Writes the value if the key has none; returns the value that was there."""
        return _plain(self._store.put_if_absent(key, self._kept(value)))

    def put_all(self, entries: Iterable[tuple[Any, Any]]) -> None:
        """Writes pairs of key and value, one after the other."""
        for key, value in entries:
            self.put(key, value)

    def delete(self, key: Any) -> Any:
        """Removes a key, and returns the value that was there."""
        return _plain(self._store.delete(key))

    def range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        """Iterates over the entries with ``from_key <= key <= to_key``."""
        return _plain_entries(self._store.range(from_key, to_key))

    def reverse_range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        """Iterates over the entries of ``range`` from the last to the first (KIP-614)."""
        return _plain_entries(self._store.reverse_range(from_key, to_key))

    def all(self) -> KeyValueIterator[Any, Any]:
        """Iterates over all entries in the order of the keys' bytes."""
        return _plain_entries(self._store.all())

    def reverse_all(self) -> KeyValueIterator[Any, Any]:
        """Iterates over all entries from the last to the first (KIP-614)."""
        return _plain_entries(self._store.reverse_all())

    def prefix_scan(self, prefix: Any, prefix_serde: AnySerde | None = None) -> KeyValueIterator[Any, Any]:
        """Iterates over the entries whose key's bytes start with those of the prefix (KIP-614)."""
        return _plain_entries(self._store.prefix_scan(prefix, prefix_serde))

    def approximate_num_entries(self) -> int:
        """Returns roughly how many entries there are."""
        return self._store.approximate_num_entries()

    def _kept(self, value: Any) -> Any:
        return ValueAndTimestamp(value, self._now_ms()) if self._timestamped and value is not None else value


@java_names("WindowStore")
class PlainWindows:
    """Hides the timestamps of a window store. Values that a test writes have the driver's wall-clock time."""

    def __init__(self, store: WindowStoreImpl, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms

    @property
    def name(self) -> str:
        return self._store.name

    def put(self, key: Any, value: Any, window_start_ms: int) -> None:
        """Writes the value of the key's window that starts then; ``None`` deletes it."""
        if self._store.keeps_timestamps and value is not None:
            value = ValueAndTimestamp(value, self._now_ms())
        self._store.put(key, value, window_start_ms)

    def fetch(self, key: Any, from_ms: int, to_ms: int | None = None) -> Any:
        """Returns the value of the window that starts at ``from_ms``; with ``to_ms`` an iterator over
        ``(start, value)``."""
        found = self._store.fetch(key, from_ms, to_ms)
        return _plain(found) if to_ms is None else _plain_entries(found)

    def backward_fetch(self, key: Any, from_ms: int, to_ms: int) -> KeyValueIterator[int, Any]:
        """Iterates over the windows of ``fetch``, the latest first (KIP-617)."""
        return _plain_entries(self._store.backward_fetch(key, from_ms, to_ms))

    def fetch_range(self, from_key: Any, to_key: Any, from_ms: int, to_ms: int) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the windows that start between, of keys from ``from_key`` to ``to_key`` (``None`` is an open
        end)."""
        return _plain_entries(self._store.fetch_range(from_key, to_key, from_ms, to_ms))

    def backward_fetch_range(
        self, from_key: Any, to_key: Any, from_ms: int, to_ms: int
    ) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the windows of ``fetch_range`` in the opposite order (KIP-617)."""
        return _plain_entries(self._store.backward_fetch_range(from_key, to_key, from_ms, to_ms))

    def all(self) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over every window."""
        return _plain_entries(self._store.all())

    def backward_all(self) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over every window in the opposite order (KIP-617)."""
        return _plain_entries(self._store.backward_all())


def _plain_entries(found: KeyValueIterator[Any, Any]) -> KeyValueIterator[Any, Any]:
    return KeyValueIterator((key, _plain(value)) for key, value in found)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, ValueAndTimestamp) else value
