"""The cache of a store's layers: entries that were read or written lately, in two generations.

Made by the write-back layer, and used on the processing thread that holds the task; other threads look in by
:meth:`ReadCache.at_hand`.
"""

from __future__ import annotations

from collections.abc import Callable

from streamsapp.state.engine.entries import Entry

#: Later than any window begins.
ANY_TIME = (1 << 63) - 1


class Unwritten:
    """The keys whose entries do not exist if a cache misses them: nothing from one key on was written before the cache
    last forgot something."""

    def __init__(self, unwritten_from: Callable[[], bytes]) -> None:
        """Takes a function that returns the key from which on nothing was ever written, or ``b""``."""
        self._unwritten_from = unwritten_from
        #: An entry that is missing does not exist if its key is not less. ``b""`` if that is not known of any, ``None``
        #: if it was not asked since the cache forgot something.
        self.begin: bytes | None = None

    def learn(self) -> None:
        """The cache has all that is written from now on."""
        self.begin = self._unwritten_from()

    def forget(self) -> None:
        """The cache has forgotten something."""
        self.begin = None


class ReadCache(dict[bytes, Entry]):
    """A dict that asks for keys it misses, so that a hot read is one lookup in C. Beside it there is the generation
    before, which is forgotten when the younger one grows old. :class:`~streamsapp.native.Cells` is the same for cells
    in C."""

    __slots__ = ("_load", "_old")

    def __init__(self, load: Callable[[bytes], Entry]) -> None:
        super().__init__()
        self._load = load
        self._old: dict[bytes, Entry] = {}

    def __missing__(self, key: bytes) -> Entry:
        entry = self[key] = self._load(key)
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

    def grow_old(self) -> int:
        """Makes the younger generation the older one, and forgets that. Returns ``ANY_TIME``, or -1 if there was
        nothing to forget."""
        forgets = bool(self._old)
        # The dict itself stays: its lookup has been handed out.
        self._old = dict(self)
        super().clear()
        return ANY_TIME if forgets else -1

    def clear(self) -> None:
        super().clear()
        self._old = {}
