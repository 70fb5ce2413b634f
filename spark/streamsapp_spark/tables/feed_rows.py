"""The records of a changelog as rows of its store. Used in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import error as StructError  # noqa: N812 - as Python names errors
from typing import Any

from streamsapp.config.streams_config import StreamsConfig
from streamsapp.errors import ConfigError, StreamsError
from streamsapp.record import InputRecord
from streamsapp.serdes.windowed import Windowed
from streamsapp.state.api import StoreBuilder
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.expiring import ExpiringType
from streamsapp.state.kinds.expiry import ENTRY
from streamsapp.state.kinds.key_value import KeyValueType
from streamsapp.state.kinds.session import SessionType
from streamsapp.state.kinds.versioned import VersionedType
from streamsapp.state.kinds.versions import LATEST
from streamsapp.state.kinds.window import WindowType
from streamsapp_spark.snapshots.database_comparison import EntryReader
from streamsapp_spark.tables.columns import StoreColumns

_KINDS = (KeyValueType, WindowType, SessionType, VersionedType)


def refuse_without_feed(store: StoreBuilder) -> None:
    """Raises ``ConfigError`` for a store that has no changes to read."""
    if not isinstance(store.type, _KINDS):
        raise ConfigError(f"option 'store': {store.name} is a buffer of the runtime's own, and has no change feed")
    if not store.logging and store.changelog_topic is None:
        raise ConfigError(f"option 'store': {store.name} has no changelog, so it has no change feed")


class ChangelogRows:
    """Reads the records of one task's changelog as its owner restores them."""

    def __init__(
        self, store: StoreBuilder, topic: str, config: StreamsConfig, columns: StoreColumns, task: str
    ) -> None:
        self._read = EntryReader(store, topic, config)
        self._columns, self._task = columns, task
        self._timed = store.type.keeps_timestamps or columns.versioned
        self._physical = _physical_keys(store)
        self._versioned = columns.versioned

    def rows(self, records: Sequence[InputRecord]) -> Iterator[tuple[Any, ...]]:
        """Yields a row for each record that has a key; the value of a deletion is null. Raises ``StreamsError``, which
        names the record, for one that is no entry of the store."""
        for record in records:
            key = record.key()
            if key is not None:  # only a table's source topic has others, and the table skips them
                yield self._row(key, record)

    def _row(self, key: bytes, record: InputRecord) -> tuple[Any, ...]:
        columns = self._columns
        try:
            named = self._read.key(self._physical(key))
            value, time = self._value(record)
            value = columns.value(value)
            window = (named.start_ms, named.end_ms) if isinstance(named, Windowed) and columns.windowed else ()
            shown = columns.key(named.key if window else named)
        except (StreamsError, ValueError, TypeError, IndexError, StructError) as error:
            where = f"{record.topic()}-{record.partition()}@{record.offset()}"
            raise StreamsError(
                f"record {where} is no entry of store {columns.store}: {error}; a feed goes on behind it with a new "
                f"checkpointLocation and option('startingOffsets', '{{\"{record.partition()}\": {record.offset() + 1}, "
                "...}')"
            ) from error
        return (shown, *window, value, time, self._task, record.offset())

    def _value(self, record: InputRecord) -> tuple[Any, int | None]:
        """Returns the value and its time; of a deletion, the time of the record that deleted."""
        at = record.timestamp()[1] if self._timed else None
        if record.value() is None:
            return None, at
        if self._versioned:
            versions: Any = self._read.format
            return versions.from_stored(versions.logged(record.value())), at
        physical = self._read.format.restored(record)
        return (None, at) if physical is None else self._read.value(physical)


def _physical_keys(store: StoreBuilder) -> Callable[[bytes], bytes]:
    """Returns what makes a physical key, as the store's reader knows it, of a key of the changelog."""
    if isinstance(store.type, ExpiringType):
        return lambda key: ENTRY + key
    if isinstance(store.type, VersionedType):
        return lambda key: LATEST + key
    layout = store.type.layout()
    if isinstance(layout, Segments):
        return lambda key: layout.physical(key, 0)  # the segment is not read
    return lambda key: key
