"""Reads stores for interactive queries: from outside of the task, while it processes, commits and closes.

The task's owner opens and closes the lease; queries read on threads of their own. They read the engine below the
write-back layer, which holds committed entries only. They read the layer too where it does no harm to show entries that
may yet be reverted. Nothing here waits for processing, and processing waits for nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Condition
from typing import Any

from streamsapp.errors import StoreNotAvailableError
from streamsapp.state.api import ValueAndTimestamp, with_headers
from streamsapp.state.engine.entries import NO_TIMESTAMP, Entry, EntryFormat
from streamsapp.state.engine.headers import Headed
from streamsapp.state.layers.write_back import WriteBack

#: A range is given up for a close after at most so many more entries.
_CHUNK = 256


class Readers:
    """Counts the readers of the stores of one task. Closing waits for them: RocksDB must not be closed under a reader,
    and its directory is not free while one holds it."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._reading = 0
        self._open = False

    def open(self) -> None:
        """Lets readers in."""
        with self._changed:
            self._open = True

    def close(self) -> None:
        """Lets no reader in, and waits for the current readers: for one key, or a few hundred entries of a range."""
        with self._changed:
            self._open = False
            self._changed.wait_for(lambda: not self._reading)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keeps the stores open meanwhile. The caller must not wait for the thread that closes them."""
        with self._changed:
            self.check()
            self._reading += 1
        try:
            yield
        finally:
            with self._changed:
                self._reading -= 1
                self._changed.notify_all()

    def check(self) -> None:
        """Raises when the owner wants to close."""
        if not self._open:
            raise StoreNotAvailableError("the store is closed here; its task is moving or starting again")


class StoreView:
    """Reads one store of one task. Keys are serialised; an entry becomes a value by :meth:`value`."""

    def __init__(self, layers: WriteBack, format: EntryFormat, readers: Readers) -> None:
        self._layers = layers
        self._format = format
        #: To be held during :meth:`get` and :meth:`range`.
        self.readers = readers

    def get(self, key: bytes, *, committed: bool) -> Entry:
        """Returns the entry of a key; ``committed`` leaves out writes that may be reverted."""
        return self._layers.peek(key, committed=committed)

    def range(self, start: bytes, end: bytes | None, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries with ``start <= key < end``, of one moment as far as they are committed."""
        for number, found in enumerate(self._layers.peek_range(start, end, committed=committed)):
            if not number % _CHUNK:
                self.readers.check()
            yield found

    def value(self, entry: Entry) -> Any:
        """Returns the value as ``KeyValueStore.get`` does, with its timestamp if the store keeps one."""
        stored, timestamp = entry
        if stored is None:
            return None
        value = self._format.from_stored(stored)
        if isinstance(stored, Headed):
            return with_headers(value, timestamp, stored.headers)
        return value if timestamp == NO_TIMESTAMP else ValueAndTimestamp(value, timestamp)

    def raw(self, entry: Entry) -> bytes | None:
        """Returns the serialised value without its timestamp."""
        return None if entry[0] is None else self._format.raw(entry[0])
