"""The interfaces of window, session and versioned stores for users' annotations.

User code gets these from ``context.get_state_store(name)`` and calls them on processing threads. Reads see the writes
of the running commit interval. Timestamps are milliseconds since 1970. Bounds of ranges are inclusive; ``None`` is
open.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar, overload

from streamsapp.serdes.windowed import Windowed
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.versioned import VersionedRecord

K = TypeVar("K")
V = TypeVar("V")
K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)


class WindowStore(Protocol, Generic[K, V]):
    """Keeps values by key and window start, for as long as the store's retention says.

    A persistent store iterates several keys segment by segment and by key within one; a store in memory by time, then
    by key.
    """

    @property
    def name(self) -> str: ...

    def put(self, key: K, value: V | None, window_start_ms: int) -> None:
        """Writes a window's value; ``None`` deletes it."""
        ...

    @overload
    def fetch(self, key: K, from_ms: int) -> V | None:
        """Returns the value of the window that starts then, ``None`` if there is none."""
        ...

    @overload
    def fetch(self, key: K, from_ms: int, to_ms: int) -> KeyValueIterator[int, V]:
        """Iterates over ``(start, value)`` of the key's windows that start between, by time."""
        ...

    def backward_fetch(self, key: K, from_ms: int, to_ms: int) -> KeyValueIterator[int, V]: ...
    def fetch_range(
        self, from_key: K | None, to_key: K | None, from_ms: int, to_ms: int
    ) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over the windows of a range of keys that start between."""
        ...

    def backward_fetch_range(
        self, from_key: K | None, to_key: K | None, from_ms: int, to_ms: int
    ) -> KeyValueIterator[Windowed[K], V]: ...
    def all(self) -> KeyValueIterator[Windowed[K], V]: ...
    def backward_all(self) -> KeyValueIterator[Windowed[K], V]: ...


class SessionStore(Protocol, Generic[K, V]):
    """Keeps values by session: a key with the times of its first and last record (KIP-94)."""

    @property
    def name(self) -> str: ...

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Writes a session's value; ``None`` deletes it."""
        ...

    def remove(self, session: Windowed[K]) -> None: ...
    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """Returns the value of exactly this session, ``None`` if there is none."""
        ...

    def find_sessions(self, key: K, earliest_end_ms: int, latest_start_ms: int) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over the key's sessions that end at ``earliest_end_ms`` or later and start at ``latest_start_ms`` or
        earlier."""
        ...

    def fetch(self, key: K) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over all sessions of a key, by time."""
        ...

    def fetch_range(self, from_key: K | None, to_key: K | None) -> KeyValueIterator[Windowed[K], V]: ...


class VersionedKeyValueStore(Protocol, Generic[K_contra, V_contra]):
    """Keeps values by key and time: a key has the value it had at any moment of the history that is kept (KIP-889)."""

    @property
    def name(self) -> str: ...

    def put(self, key: K_contra, value: V_contra | None, timestamp: int) -> int:
        """Writes the value of a key from ``timestamp`` on; ``None`` deletes it. Returns its ``valid_to`` (KIP-889)."""
        ...

    def get(self, key: K_contra, as_of: int | None = None) -> VersionedRecord | None:
        """Returns the latest version, or the one that was valid at ``as_of``; ``None`` if there is none."""
        ...

    def delete(self, key: K_contra, timestamp: int) -> VersionedRecord | None:
        """Ends the validity of the version at that time, and returns that version."""
        ...
