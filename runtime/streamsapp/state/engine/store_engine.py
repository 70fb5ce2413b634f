"""The protocols of the engines under the layers of a store, which hold committed entries.

Read on processing threads and by queries; written on the polling thread after a commit and on the restoration thread.
Keys are physical ones (:class:`~streamsapp.state.kinds.store_type.Layout`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from streamsapp.state.engine.entries import Entry, PhysicalEntry
from streamsapp.state.engine.epoch import Range, Writes


class Reads(Protocol):
    """Reads the committed entries of one store."""

    def get(self, key: bytes) -> Entry:
        """Returns the entry, or ``ABSENT``."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[Entry]: ...

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Iterates over the entries with ``start <= key < end``: a stable view but for epochs of this store applied
        meanwhile."""
        ...

    def count(self) -> int: ...

    def count_change(self, uncommitted: Mapping[bytes, Entry]) -> int:
        """Returns by how much these writes will change :meth:`count`, as exactly as it can know."""
        ...


class StoreEngine(Reads, Protocol):
    """Holds the committed entries of one store."""

    def take_in(self, epoch: Writes, slice_size: int) -> Iterator[None]:
        """Takes a committed epoch: its writes, then its deleted ranges. Yields after ``slice_size`` writes at most."""
        ...

    def restore(self, restored: Sequence[PhysicalEntry], deleted: Sequence[Range]) -> None:
        """Takes entries of changelogs in the order of their keys (of one key's the last wins), then deleted ranges."""
        ...

    def statistics(self) -> dict[str, int]:
        """Returns figures for metrics."""
        ...
