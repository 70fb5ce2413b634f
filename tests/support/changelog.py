"""Reads the records that an epoch writes to changelogs."""

from __future__ import annotations

from collections.abc import Iterator

from streamsapp.state.managed_store import FrozenEpoch


def changelog_records(frozen: FrozenEpoch) -> Iterator[tuple[str, bytes | None, bytes | None, int]]:
    """``(store, key, value, timestamp)``."""
    for store, changes in frozen.changelogs():
        for records in changes.records("changelog", 0, 1000):
            for _, value, key, _, _, _, timestamp, _ in records:
                yield store, key, value, timestamp
