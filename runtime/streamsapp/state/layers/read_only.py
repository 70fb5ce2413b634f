"""Reads a store without layers above its engine: only committed entries, for any number of threads.

Global stores are given to tasks so. The engine comes and goes with the store's owner; a scan is as stable as the
engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

from streamsapp.errors import StateStoreError
from streamsapp.state.engine.entries import Entry
from streamsapp.state.engine.store_engine import Reads


class ReadOnlyLayers:
    """The :class:`~streamsapp.state.kinds.store_type.Layers` of a facade that cannot write."""

    epoch = 0
    cells = None

    def __init__(self, why: str) -> None:
        """Takes ``why`` the store cannot be written here, for the message to a caller that tries."""
        self._why = why
        self._committed: Reads | None = None
        self.read: Callable[[bytes], Entry] = self._get
        self.write: Callable[[bytes, Any, int], None] = self._refuse

    def attach(self, committed: Reads | None) -> None:
        """Makes reads go to this engine from now on; ``None`` says that the store is closed."""
        self._committed = committed

    def prefetch(self, keys: Iterable[bytes]) -> None:
        """Does nothing: there is no cache to keep the entries in."""

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        return self._engine().scan(start, end, reverse=reverse)

    look = scan

    def peek(self, key: bytes, *, committed: bool) -> Entry:
        return self._engine().get(key)

    def count(self) -> int:
        return self._engine().count()

    def room(self) -> int:
        """Returns 0: there is no cache."""
        return 0

    def append(self, key: bytes, entry: Entry) -> NoReturn:
        self._refuse(key, *entry)

    def forget(self, key: bytes) -> NoReturn:
        raise StateStoreError(self._why)

    def is_dirty(self, key: bytes) -> bool:
        return False

    def on_forgotten(self, told: object) -> NoReturn:
        raise StateStoreError(self._why)

    def running(self, key: bytes) -> NoReturn:
        raise StateStoreError(self._why)

    def _get(self, key: bytes) -> Entry:
        return self._engine().get(key)

    def _engine(self) -> Reads:
        if self._committed is None:
            raise StateStoreError("the state store is closed; stores may be used only while their task is open")
        return self._committed

    def _refuse(self, key: bytes, stored: Any, timestamp: int) -> NoReturn:
        raise StateStoreError(self._why)
