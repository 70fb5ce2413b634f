"""The engine under a write-back layer: where committed entries live.

Read on processing threads; written on the polling thread after a commit and on the restoration thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from streamsapp.state.entries import Entry


class Committed(Protocol):
    """Committed entries of one store."""

    def get(self, key: bytes) -> Entry:
        """The entry, or ``ABSENT``."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[Entry]: ...

    def scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, Entry]]:
        """Entries with ``start <= key < end``; a stable view but for epochs of this store applied meanwhile."""
        ...

    def count(self) -> int: ...

    def count_change(self, uncommitted: Mapping[bytes, Entry]) -> int:
        """By how much these writes will change :meth:`count`, as exactly as it can be told."""
        ...
