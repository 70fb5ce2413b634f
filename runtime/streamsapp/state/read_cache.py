"""The cache of a store's layers: entries that were read or written lately, in two generations.

Made by the write-back layer, and used on the processing thread that holds the task; other threads look in by
:meth:`ReadCache.at_hand`.
"""

from __future__ import annotations

from collections.abc import Callable

from streamsapp.state.entries import ABSENT, Entry


class ReadCache(dict[bytes, Entry]):
    """A dict that asks for keys it misses, so that a hot read is one lookup in C; and the generation before, which is
    forgotten when the younger one grows old. :class:`~streamsapp.native.Cells` is the same for cells in C."""

    __slots__ = ("_complete_from", "_load", "_old", "_unwritten_from")

    def __init__(self, load: Callable[[bytes], Entry], unwritten_from: Callable[[], bytes]) -> None:
        super().__init__()
        self._load = load
        self._unwritten_from = unwritten_from
        self._old: dict[bytes, Entry] = {}
        #: Keys from this one on that are missing do not exist; ``None`` if this is not known since it was cleared.
        self._complete_from: bytes | None = None

    def __missing__(self, key: bytes) -> Entry:
        if self._complete_from and key >= self._complete_from:
            return ABSENT
        entry = self[key] = self._load(key)
        if self._complete_from is None:
            self._complete_from = self._unwritten_from()
        return entry

    @property
    def older(self) -> int:
        """The number of entries of the older generation."""
        return len(self._old)

    def at_hand(self, key: bytes) -> Entry | None:
        """Returns the entry of a key if it is there in any generation."""
        entry = self.get(key)
        return self._old.get(key) if entry is None else entry

    def put(self, key: bytes, entry: Entry) -> None:
        """Remembers an entry that was read."""
        self[key] = entry

    def grow_old(self) -> None:
        """Makes the younger generation the older one, and forgets that."""
        # The dict itself stays: its lookup has been handed out.
        self._old = dict(self)
        super().clear()
        self._complete_from = None

    def clear(self) -> None:
        super().clear()
        self._old = {}
        self._complete_from = None
