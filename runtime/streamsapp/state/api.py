"""The interfaces of key-value stores for users, and the builder that describes a store.

User code calls these on processing threads. Reads see the writes of the running commit interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from streamsapp.serdes.api import AnySerde
from streamsapp.state.iterators import KeyValueIterator

if TYPE_CHECKING:
    from streamsapp.state.store_type import StoreType

K = TypeVar("K")
V = TypeVar("V")


class ValueAndTimestamp(NamedTuple):
    """The value that a timestamped store holds for a key, and its timestamp in milliseconds since 1970."""

    value: Any
    timestamp: int


class Engine(Enum):
    """The engine that holds committed entries: RocksDB or memory."""

    ROCKSDB = "rocksdb"
    MEMORY = "memory"


@dataclass(frozen=True)
class StoreBuilder:
    """Holds everything that is decided about a store before a task makes it.

    ``changelog_topic`` is set when a table's source topic serves as changelog (topology optimisation); otherwise the
    changelog is ``<application id>-<name>-changelog``.
    """

    name: str
    type: StoreType
    engine: Engine = Engine.ROCKSDB
    key_serde: AnySerde | None = None
    value_serde: AnySerde | None = None
    logging: bool = True
    log_config: dict[str, str] = field(default_factory=dict)
    caching: bool = True
    changelog_topic: str | None = None

    def with_logging_enabled(self, config: dict[str, str] | None = None) -> StoreBuilder:
        """Returns the same with a changelog topic, which is the default; ``config`` holds topic settings on top of the
        usual ones."""
        return replace(self, logging=True, log_config=dict(config or {}))

    def with_logging_disabled(self) -> StoreBuilder:
        """Returns the same without a changelog: the store is lost with the local disk."""
        return replace(self, logging=False, log_config={})

    def with_caching_enabled(self) -> StoreBuilder:
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder:
        return replace(self, caching=False)


class KeyValueStore(Protocol, Generic[K, V]):
    """Maps keys to values, and iterates in the order of the keys' bytes.

    Iterators see a stable view and should be closed or exhausted before the processor returns: they are context
    managers (``with store.range("a", "b") as found``).
    """

    @property
    def name(self) -> str: ...
    def get(self, key: K) -> V | None: ...
    def put(self, key: K, value: V | None) -> None: ...
    def put_if_absent(self, key: K, value: V | None) -> V | None: ...
    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None: ...
    def delete(self, key: K) -> V | None: ...
    def range(self, from_key: K | None, to_key: K | None) -> KeyValueIterator[K, V]:
        """Iterates over the entries with ``from_key <= key <= to_key``; ``None`` is an open end."""
        ...

    def reverse_range(self, from_key: K | None, to_key: K | None) -> KeyValueIterator[K, V]: ...
    def all(self) -> KeyValueIterator[K, V]: ...
    def reverse_all(self) -> KeyValueIterator[K, V]: ...
    def prefix_scan(self, prefix: Any, prefix_serde: AnySerde | None = None) -> KeyValueIterator[K, V]: ...
    def approximate_num_entries(self) -> int: ...
