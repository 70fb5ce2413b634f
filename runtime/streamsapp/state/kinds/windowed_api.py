"""The interfaces of window, session and versioned stores for users' annotations.

User code gets these from ``context.get_state_store(name)`` and calls them on processing threads. Reads see the writes
of the running commit interval. Timestamps are milliseconds since 1970. Bounds of ranges are inclusive; ``None`` is
open.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar, overload

from streamsapp.serdes.windowed import Windowed
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.kinds.versioned import VersionedRecord

K = TypeVar("K")
V = TypeVar("V")
K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)


class WindowStore(Protocol, Generic[K, V]):
    """Keeps values by key and window start, for as long as the store's retention says (Kafka Streams'
    ``WindowStore``).

    A persistent store iterates over several keys segment by segment, and by key within a segment; a store in memory
    iterates by time, then by key. A key of ``None`` raises ``StateStoreError``.
    """

    @property
    def name(self) -> str:
        """The name by which processors and queries ask for the store."""
        ...

    def put(self, key: K, value: V | None, window_start_ms: int) -> None:
        """Writes the value of the key's window that starts at ``window_start_ms``; ``None`` deletes it. A window that
        the store no longer keeps is not written."""
        ...

    @overload
    def fetch(self, key: K, from_ms: int) -> V | None:
        """Returns the value of the window that starts then, ``None`` if there is none."""
        ...

    @overload
    def fetch(self, key: K, from_ms: int, to_ms: int) -> KeyValueIterator[int, V]:
        """Iterates over ``(start, value)`` of the key's windows with ``from_ms <= start <= to_ms``, by time."""
        ...

    def backward_fetch(self, key: K, from_ms: int, to_ms: int) -> KeyValueIterator[int, V]:
        """Iterates over the windows of ``fetch``, the latest first (KIP-617)."""
        ...

    def fetch_range(
        self, from_key: K | None, to_key: K | None, from_ms: int, to_ms: int
    ) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over the windows with ``from_ms <= start <= to_ms`` of the keys from ``from_key`` to ``to_key``."""
        ...

    def backward_fetch_range(
        self, from_key: K | None, to_key: K | None, from_ms: int, to_ms: int
    ) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over the windows of ``fetch_range`` in the opposite order (KIP-617)."""
        ...

    def all(self) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over every window that is kept."""
        ...

    def backward_all(self) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over every window in the opposite order (KIP-617)."""
        ...


class SessionStore(Protocol, Generic[K, V]):
    """Keeps values by session: a key with the times of its first and last record (KIP-94). A key of ``None`` raises
    ``StateStoreError``."""

    @property
    def name(self) -> str:
        """The name by which processors and queries ask for the store."""
        ...

    def put(self, session: Windowed[K], value: V | None) -> None:
        """Writes the value of a session, whose ends are both inclusive; ``None`` deletes it."""
        ...

    def remove(self, session: Windowed[K]) -> None:
        """Deletes a session."""
        ...

    def fetch_session(self, key: K, start_ms: int, end_ms: int) -> V | None:
        """Returns the value of exactly this session, ``None`` if there is none."""
        ...

    def find_sessions(self, key: K, earliest_end_ms: int, latest_start_ms: int) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over the key's sessions that end at ``earliest_end_ms`` or later and start at ``latest_start_ms`` or
        earlier."""
        ...

    def fetch(self, key: K) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over all sessions of a key, by their ends."""
        ...

    def fetch_range(self, from_key: K | None, to_key: K | None) -> KeyValueIterator[Windowed[K], V]:
        """Iterates over all sessions of the keys from ``from_key`` to ``to_key``."""
        ...


class VersionedKeyValueStore(Protocol, Generic[K_contra, V_contra]):
    """Keeps the values that each key had, and from when to when, for as long as the store's history says (KIP-889)."""

    @property
    def name(self) -> str:
        """The name by which processors and queries ask for the store."""
        ...

    def put(self, key: K_contra, value: V_contra | None, timestamp: int) -> int:
        """Writes the value that a key has from ``timestamp`` on; ``None`` says that it has none from then on.

        Returns the time until when the value is valid: that of the next version, or -1 if there is no later one.
        Returns ``PUT_RETURN_CODE_NOT_PUT`` if the time lies before the history and nothing was written.
        """
        ...

    def get(self, key: K_contra, as_of: int | None = None) -> VersionedRecord | None:
        """Returns the latest version of a key, or the version that was valid at ``as_of``; ``None`` if it had none
        then, or the time lies before the history."""
        ...

    def delete(self, key: K_contra, timestamp: int) -> VersionedRecord | None:
        """Ends the validity of the version at that time, and returns that version."""
        ...
