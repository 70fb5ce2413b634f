"""Read access to a store's plain values, whether or not it keeps timestamps beside them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamsapp.state.api import KeyValueStore, ValueAndTimestamp


class ReadOnlyValues:
    """Hides the timestamps of a timestamped store."""

    def __init__(self, store: KeyValueStore[Any, Any]) -> None:
        self._store = store

    @property
    def name(self) -> str:
        return self._store.name

    def get(self, key: Any) -> Any:
        """The value, ``None`` when there is none."""
        return _plain(self._store.get(key))

    def range(self, from_key: Any, to_key: Any) -> Iterator[tuple[Any, Any]]:
        """Entries with ``from_key <= key <= to_key``."""
        return ((key, _plain(value)) for key, value in self._store.range(from_key, to_key))

    def all(self) -> Iterator[tuple[Any, Any]]:
        """All entries in the order of the keys' bytes."""
        return ((key, _plain(value)) for key, value in self._store.all())

    def put(self, key: Any, value: Any) -> None:
        """Not through this view: ``get_state_store`` gives the store itself."""
        raise TypeError(f"this view of store {self.name} is for reading; write through get_state_store({self.name!r})")

    def approximate_num_entries(self) -> int:
        """How many entries there are, roughly."""
        return self._store.approximate_num_entries()


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, ValueAndTimestamp) else value
