"""The types of the native data path's cells and of the logs in which they are written, as Python sees them: each is a
class of ``records.c``, and used on the thread of whoever has made it, unless it says otherwise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, overload


class CellWrites(Sequence[tuple[bytes, tuple[Any, int]]]):
    """Writes as ``(key, (stored, timestamp))``. (This is a type; the classes are the library's.)"""

    @overload
    def __getitem__(self, at: int, /) -> tuple[bytes, tuple[Any, int]]: ...

    @overload
    def __getitem__(self, at: slice, /) -> CellRun: ...

    @abstractmethod
    def __getitem__(self, at: Any, /) -> Any: ...


class CellRun(CellWrites):
    """Some writes in a row of a log, which stay in it."""

    @abstractmethod
    def stage(
        self,
        put: Callable[[bytes, bytes, Any], object],
        delete: Callable[[bytes, Any], object],
        family: Any,
        /,
    ) -> None:
        """Gives the physical keys and the physical form of their entries, as ``TimestampedFormat`` writes longs, to
        ``put``; keys of deletions to ``delete``."""


class CellLog(CellWrites):
    """The writes of an epoch to a store whose entries are cells, in their order. A key comes again if its cell was
    forgotten in between."""

    @abstractmethod
    def behind(self, size: int, /) -> CellRun:
        """All writes, by their keys without the first ``size`` bytes."""

    @abstractmethod
    def keys_from(self, begin: int, /) -> list[bytes]:
        """The keys of ``log[begin:]``."""

    @abstractmethod
    def entry(self, cell: Any, /) -> tuple[Any, int] | None:
        """The entry of a cell; ``None`` if it is not in the log, and for anything else than a cell. A cell knows where
        it is in the logs of the last two epochs in which it was written, and in the last one that absorbed it."""

    @abstractmethod
    def cell(self, at: int, /) -> Any:
        """The cell of a write."""

    @abstractmethod
    def absorb(self, newer: CellLog, /) -> None:
        """Takes the writes of another log; one that it has of the same cell is replaced."""

    @abstractmethod
    def in_order(self) -> CellLog:
        """A log of the last write of each key, by key."""

    @abstractmethod
    def only(self, keys: list[bytes], /) -> CellLog:
        """A log of the writes of some keys: of those that ``keys_from`` gave, in that order."""


class Cells(Protocol):
    """The cells of a store by key, and their cache, in two generations; made with a function that returns the entry of
    a key whose cell is not there, or a cell that was forgotten; and with the number of bytes before a key's end where
    the start of its window stands, in 8 bytes, 0 if keys have none."""

    def __len__(self) -> int: ...
    def __contains__(self, key_bytes: bytes, /) -> bool: ...

    #: The number of cells of the older generation.
    older: int

    def read(self, key_bytes: bytes, /) -> Any:
        """The cell of a key, which is remembered from now on."""

    def at_hand(self, key_bytes: bytes, /) -> Any:
        """The cell of a key if it is there in any generation, or ``None``; on any thread."""

    def put(self, key_bytes: bytes, entry: tuple[Any, int], /) -> None:
        """Remembers an entry that was read, if there is no cell."""

    def write(self, key_bytes: bytes, stored: Any, timestamp: int, /) -> None:
        """Writes a count, or ``None`` for what is deleted."""

    def begin(self) -> CellLog:
        """An epoch begins; returns the log to which its writes go."""

    def grow_old(self) -> int:
        """Makes the younger generation the older one, and forgets that, but for cells that were written in the last two
        epochs. Returns the latest start of the windows whose cells are forgotten, the highest number there is if keys
        have none; -1 if no cell is."""

    def clear(self) -> None:
        """Forgets all."""
