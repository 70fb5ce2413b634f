"""The interfaces of key-value stores for users, and the builder that describes a store.

User code calls these on processing threads. Reads see the writes of the running commit interval.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from streamsapp.java_names.lookup import java_names
from streamsapp.plain_text import plain_text
from streamsapp.record import Headers
from streamsapp.serdes.api import AnySerde
from streamsapp.state.iterators import KeyValueIterator

if TYPE_CHECKING:
    from streamsapp.processor.api import Duration
    from streamsapp.state.kinds.store_type import StoreType

K = TypeVar("K")
V = TypeVar("V")


@java_names("ValueAndTimestamp")
class ValueAndTimestamp(NamedTuple):
    """The value that a timestamped store holds for a key, and its timestamp in milliseconds since 1970."""

    value: Any
    timestamp: int


@java_names("ValueTimestampHeaders")
class ValueTimestampHeaders(ValueAndTimestamp):
    """The value that a store with headers holds for a key: a :class:`ValueAndTimestamp` with the headers of the record
    that wrote it (KIP-1271)."""

    _headers: Headers

    def __new__(cls, value: Any, timestamp: int, headers: Headers | None = None) -> ValueTimestampHeaders:
        made = super().__new__(cls, value, timestamp)
        made._headers = list(headers or ())
        return made

    @property
    def headers(self) -> Headers:
        """Pairs of a name and bytes or ``None``, in order; none for a record without."""
        return self._headers

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.headers == getattr(other, "headers", [])

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = ValueAndTimestamp.__hash__

    def __repr__(self) -> str:
        return f"ValueTimestampHeaders(value={self.value!r}, timestamp={self.timestamp}, headers={self.headers!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value, self.timestamp, self.headers)


@java_names("AggregationWithHeaders")
class AggregationWithHeaders(NamedTuple):
    """The aggregate that a session store with headers holds for a session, and the headers of the record that wrote it
    (KIP-1271)."""

    aggregation: Any
    headers: Headers


def with_headers(
    value: Any, timestamp: int | None, headers: Headers | None
) -> ValueTimestampHeaders | AggregationWithHeaders:
    """Returns a value as stores with headers give it. Sessions have no timestamp: ``None``, or -1."""
    if timestamp is None or timestamp < 0:
        return AggregationWithHeaders(value, list(headers or ()))
    return ValueTimestampHeaders(value, timestamp, headers)


class Engine(Enum):
    """The engine that holds committed entries: RocksDB or memory."""

    ROCKSDB = "rocksdb"
    MEMORY = "memory"


@java_names("StoreBuilder")
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
    #: Says whether the DSL made it for a table: ``dsl_store_format`` decides whether it keeps headers.
    of_table: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", plain_text(self.name))

    def __hash__(self) -> int:
        return hash(self.name)  # settings are a dictionary; builders of one name are compared

    def with_logging_enabled(self, config: dict[str, str] | None = None) -> StoreBuilder:
        """Returns the same with a changelog topic, which is the default; ``config`` holds topic settings on top of the
        usual ones."""
        return replace(self, logging=True, log_config=dict(config or {}))

    def with_logging_disabled(self) -> StoreBuilder:
        """Returns the same without a changelog: the store is lost with the local disk."""
        return replace(self, logging=False, log_config={})

    def with_caching_enabled(self) -> StoreBuilder:
        """Returns the same with caching, which is the default. It changes no result: every store has its writes in
        memory until they are committed."""
        return replace(self, caching=True)

    def with_caching_disabled(self) -> StoreBuilder:
        """Returns the same without caching. It changes no result, and is there for programs that come from Java."""
        return replace(self, caching=False)


class KeyValueStore(Protocol, Generic[K, V]):
    """Maps keys to values, and iterates in the order of the keys' bytes (Kafka Streams' ``KeyValueStore``).

    Reads see the writes that the task has made and not committed yet. Iterators see a stable view and should be closed
    or exhausted before the processor returns: they are context managers (``with store.range("a", "b") as found``).
    A key of ``None``, and a store whose task has been closed, raise ``StateStoreError``.
    """

    @property
    def name(self) -> str:
        """The name by which processors and queries ask for the store."""
        ...

    def get(self, key: K) -> V | None:
        """Returns the value of a key, ``None`` if it has none."""
        ...

    def put(self, key: K, value: V | None, ttl: Duration | None = None) -> None:
        """Writes the value of a key; ``None`` deletes it. Raises ``ValueError`` for a value that the serde cannot
        write.

        In a store that was built with a time to live (``Stores.key_value_store_with_ttl_builder``, or
        ``Materialized(ttl=...)``) the value is over once the task's stream time is ``ttl`` later than the record, or
        than the value's own timestamp in a store with timestamps; ``None`` stands for the store's own ``ttl``. A value
        that is over already deletes the key. Other stores raise ``StateStoreError`` for a ``ttl``.
        """
        ...

    def put_if_absent(self, key: K, value: V | None, ttl: Duration | None = None) -> V | None:
        """Writes the value only if the key has none. Returns the value that the key had before."""
        ...

    def put_all(self, entries: Iterable[tuple[K, V | None]]) -> None:
        """Writes pairs of key and value, one after the other, as ``put`` does."""
        ...

    def delete(self, key: K) -> V | None:
        """Deletes a key. Returns the value that it had, ``None`` if it had none."""
        ...

    def range(self, from_key: K | None, to_key: K | None) -> KeyValueIterator[K, V]:
        """Iterates over the entries with ``from_key <= key <= to_key``, compared by their bytes; ``None`` is an open
        end."""
        ...

    def reverse_range(self, from_key: K | None, to_key: K | None) -> KeyValueIterator[K, V]:
        """Iterates over the entries of ``range``, the highest key first (KIP-617)."""
        ...

    def all(self) -> KeyValueIterator[K, V]:
        """Iterates over all entries, the lowest key first."""
        ...

    def reverse_all(self) -> KeyValueIterator[K, V]:
        """Iterates over all entries, the highest key first (KIP-617)."""
        ...

    def prefix_scan(self, prefix: Any, prefix_serde: AnySerde | None = None) -> KeyValueIterator[K, V]:
        """Iterates over the entries whose keys' bytes start with those of ``prefix``, which ``prefix_serde`` writes, or
        the key's own serde without one (KIP-614)."""
        ...

    def approximate_num_entries(self) -> int:
        """Returns about how many entries there are: keys that were overwritten or deleted may count."""
        ...
