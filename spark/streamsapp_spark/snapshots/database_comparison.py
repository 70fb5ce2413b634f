"""Compares two databases of one task entry by entry: one made of history, and one from a snapshot.

Used in Spark's Python workers. Both are walked in the order of their keys' bytes, so nothing is kept in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.serdes.api import or_configured
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import Engine, StoreBuilder
from streamsapp.state.engine.entries import NO_TIMESTAMP
from streamsapp.state.kinds.expiring import ExpiringType
from streamsapp.state.kinds.expiry import Lasting, key_of
from streamsapp.state.kinds.versioned import VersionedType
from streamsapp.state.kinds.versions import Version, VersionLayout
from streamsapp.topology.nodes import SubTopology

Entries = Iterator[tuple[bytes, bytes]]


class Difference(NamedTuple):
    """A key with the bytes that each side has; ``None`` if a side has none."""

    key: bytes
    expected: bytes | None
    found: bytes | None


@dataclass
class Comparison:
    """The differences between two sides, found as they are asked for."""

    expected: Entries
    found: Entries
    #: Keys that either side has, so far.
    keys: int = 0

    def __iter__(self) -> Iterator[Difference]:
        ours, theirs = next(self.expected, None), next(self.found, None)
        while ours is not None or theirs is not None:
            self.keys += 1
            if theirs is None or (ours is not None and ours[0] < theirs[0]):
                assert ours is not None
                yield Difference(ours[0], ours[1], None)
                ours = next(self.expected, None)
            elif ours is None or theirs[0] < ours[0]:
                yield Difference(theirs[0], None, theirs[1])
                theirs = next(self.found, None)
            else:
                if ours[1] != theirs[1]:
                    yield Difference(ours[0], ours[1], theirs[1])
                ours, theirs = next(self.expected, None), next(self.found, None)


class EntryReader:
    """Reads a store's bytes as its owner does."""

    def __init__(self, store: StoreBuilder, topic: str, config: StreamsConfig) -> None:
        self._key_of = (store.key_serde or config.default_key_serde).bind(topic, is_key=True).deserialize
        self._window_of = store.type.window_of
        self._versioned = isinstance(store.type, VersionedType)
        self._expiring = isinstance(store.type, ExpiringType)
        value = or_configured(store.value_serde, config.default_serdes).bind(topic, is_key=False)
        #: Of the store's entries.
        self.format = store.type.format(value)

    def key(self, physical: bytes) -> Any:
        """Returns the key, in stores of windows and sessions with its window."""
        if self._expiring:
            return self._key_of(key_of(physical))
        if self._window_of is None:
            return self._key_of(VersionLayout.key_of(physical) if self._versioned else physical)
        key, start_ms, end_ms = self._window_of(physical)
        return Windowed(self._key_of(key), start_ms, end_ms)

    def value(self, physical: bytes) -> tuple[Any, int | None]:
        """Returns the value, and its time in milliseconds, ``None`` where the store keeps none."""
        stored, timestamp = self.format.entry(physical)
        if isinstance(stored, Version):
            stored, timestamp = stored.value, stored.since
        elif self._expiring and not isinstance(stored, Lasting):
            return "its place in the order of time", None
        return self.format.from_stored(stored), None if timestamp == NO_TIMESTAMP else timestamp


class EntryText:
    """Turns a store's bytes into text for people."""

    def __init__(self, read: EntryReader) -> None:
        self._read = read

    def key(self, physical: bytes) -> str:
        return text_or_bytes(self._read.key, physical)

    def value(self, physical: bytes | None) -> str:
        return "nothing" if physical is None else text_or_bytes(self._value, physical)

    def _value(self, physical: bytes) -> Any:
        value, timestamp = self._read.value(physical)
        return value if timestamp is None else _At(value, timestamp)


class _At(NamedTuple):
    value: Any
    timestamp: int

    def __repr__(self) -> str:
        return f"{self.value!r} of time {self.timestamp}"


def text_or_bytes(decode: Callable[[bytes], Any], data: bytes) -> str:
    """Returns the text of bytes, or the bytes themselves: an altered entry may be anything."""
    try:
        return repr(decode(data))
    except Exception:
        return f"the bytes {data.hex(' ')}"


def compared_stores(stores: Iterable[StoreBuilder], only: str | None) -> list[StoreBuilder]:
    """Returns the stores of a task that snapshots hold and a changelog continues."""
    return [
        each
        for each in stores
        if each.engine is Engine.ROCKSDB
        and (each.logging or each.changelog_topic is not None)
        and only in (None, each.name)
    ]


def audited_stores(part: SubTopology, only: str | None) -> list[StoreBuilder]:
    """Returns the stores that an audit compares: time markers are no result of the input, but a part of it."""
    markers = None if part.time is None else part.time.store
    return [each for each in compared_stores(part.stores, only) if each.name != markers]
