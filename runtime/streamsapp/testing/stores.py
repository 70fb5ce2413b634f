"""Reads a store's plain values, whether or not it keeps timestamps beside them. Called on the test's thread."""

from __future__ import annotations

from typing import Any

from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import KeyValueStore, ValueAndTimestamp
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.window import WindowStoreImpl


class ReadOnlyValues:
    """Hides the timestamps of a timestamped store."""

    def __init__(self, store: KeyValueStore[Any, Any]) -> None:
        self._store = store

    @property
    def name(self) -> str:
        return self._store.name

    def get(self, key: Any) -> Any:
        """Returns the value, ``None`` if there is none."""
        return _plain(self._store.get(key))

    def range(self, from_key: Any, to_key: Any) -> KeyValueIterator[Any, Any]:
        """Iterates over the entries with ``from_key <= key <= to_key``."""
        return _plain_entries(self._store.range(from_key, to_key))

    def all(self) -> KeyValueIterator[Any, Any]:
        """Iterates over all entries in the order of the keys' bytes."""
        return _plain_entries(self._store.all())

    def put(self, key: Any, value: Any) -> None:
        """Refuses to write through this view: ``get_state_store`` gives the store itself."""
        raise TypeError(f"this view of store {self.name} is for reading; write through get_state_store({self.name!r})")

    def approximate_num_entries(self) -> int:
        """Returns roughly how many entries there are."""
        return self._store.approximate_num_entries()


class ReadOnlyWindows:
    """Hides the timestamps of a timestamped window store."""

    def __init__(self, store: WindowStoreImpl) -> None:
        self._store = store

    @property
    def name(self) -> str:
        return self._store.name

    def fetch(self, key: Any, from_ms: int, to_ms: int | None = None) -> Any:
        """Returns the value of the window that starts at ``from_ms``; with ``to_ms`` an iterator over
        ``(start, value)``."""
        found = self._store.fetch(key, from_ms, to_ms)
        return _plain(found) if to_ms is None else _plain_entries(found)

    def fetch_range(self, from_key: Any, to_key: Any, from_ms: int, to_ms: int) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over the windows that start between, of keys from ``from_key`` to ``to_key`` (``None`` is an open
        end)."""
        return _plain_entries(self._store.fetch_range(from_key, to_key, from_ms, to_ms))

    def all(self) -> KeyValueIterator[Windowed[Any], Any]:
        """Iterates over every window."""
        return _plain_entries(self._store.all())


def _plain_entries(found: KeyValueIterator[Any, Any]) -> KeyValueIterator[Any, Any]:
    return KeyValueIterator((key, _plain(value)) for key, value in found)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, ValueAndTimestamp) else value
