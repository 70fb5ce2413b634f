"""Key-value stores whose entries have a time to live: from a stream time on they are over.

Made with the task; called on the processing thread that holds it. :mod:`.expiry` has the forms of entries and their
order in time. The task takes over entries out of the store as its stream time reaches them, before a record of that
time is processed (:mod:`streamsapp.tasks.expiry`). So the fast protocol, for operators, looks at no time; users' reads
do, for between two of these deletions user code may run that deletions of a table reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from streamsapp.errors import StateStoreError, TopologyError
from streamsapp.processor.api import Duration, duration_ms
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine.entries import ABSENT, Entry, EntryFormat, PlainFormat
from streamsapp.state.iterators import KeyValueIterator
from streamsapp.state.kinds.expiring_view import ExpiringView
from streamsapp.state.kinds.expiry import ENTRY, NEVER, PLACE, ExpiryFormat, ExpiryLayout, Lasting, lasts_until
from streamsapp.state.kinds.key_value import KeyValueStoreImpl, KeyValueType, TimestampedKeyValueStoreImpl
from streamsapp.state.kinds.store_type import Layout, StoreParts, StoreType
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack

#: No time of a record and time to live add up to more than a time can be.
_MAX_TTL_MS = 1 << 62
_BEFORE_ALL = -1


class Written(Enum):
    """The result of a write."""

    KEPT = 0
    #: The value was over already: it took away the one that was there.
    OVER = 1
    #: The value was over already, and there was none.
    OVER_AND_NOTHING_THERE = 2


class NextDue:
    """The stream time of a task, and the time from which on an entry of any of its stores may be over. Loops in C read
    that for every record, in its slot."""

    __slots__ = ("next_due", "now")

    def __init__(self) -> None:
        self.next_due: float = _BEFORE_ALL
        #: Returns the stream time; -1 before the first record, and while the task does not process.
        self.now: Callable[[], int] = lambda: _BEFORE_ALL


class ExpiringStoreImpl(KeyValueStoreImpl):
    """A store of plain values with a time to live."""

    def __init__(self, parts: StoreParts, ttl_ms: int | None) -> None:
        """Takes the time to live of values that are put without one; ``None``: they are never over."""
        assert isinstance(parts.format, ExpiryFormat)
        assert isinstance(parts.layout, ExpiryLayout)
        super().__init__(replace(parts, format=parts.format.plain))
        self._ttl = ttl_ms
        self._layout = parts.layout
        self._order = parts.layout.order
        self._due = NextDue()
        self.read = self._read
        self.write = self.keep
        self.prefetch = self._prefetch

    # ---- fast protocol -------------------------------------------------------------------------------------------

    def keep(self, key: bytes, stored: Any, timestamp: int) -> Written:
        """Writes a value, which lives from its timestamp on; ``None`` deletes. A value that is over already deletes,
        too."""
        layers, physical, until = self._layers, ENTRY + key, NEVER
        before: Lasting | None = layers.read(physical)[0]
        over = False
        if stored is not None:
            until = lasts_until(timestamp, self._ttl)
            over = until <= self._due.now()
        if over and before is None:
            return Written.OVER_AND_NOTHING_THERE
        if stored is None or over:
            self._write(physical, None, timestamp)
        elif before is not None and before.until == until:
            self._write(physical, Lasting(stored, until, before.epoch), timestamp)
            return Written.KEPT
        else:
            self._write(physical, Lasting(stored, until, self._placed(until, key)), timestamp)
        if before is not None:
            self._order.remove(layers, before, key)
        return Written.OVER if over else Written.KEPT

    def _placed(self, until: int, key: bytes) -> int:
        if until == NEVER:
            return _BEFORE_ALL
        if until < self._due.next_due:
            self._due.next_due = until
        return self._order.add(self._layers, until, key)

    def _read(self, key: bytes) -> Entry:
        found = self._layers.read(ENTRY + key)
        return ABSENT if found[0] is None else (found[0].value, found[1])

    def _prefetch(self, keys: Iterable[bytes]) -> None:
        self._layers.prefetch([ENTRY + key for key in keys])

    # ---- for the task --------------------------------------------------------------------------------------------

    def follow(self, due: NextDue) -> None:
        """Has the times of a task that begins to process."""
        self._due = due
        self._layout.stream_time = due.now

    @property
    def first_due(self) -> float:
        """The time from which on the next entry is over, infinite if there is none."""
        return self._order.first(self._layers)[0]

    def take_over(self) -> tuple[bytes, Any, int]:
        """Deletes the entry that is over first, as of the time from which on it is; there has to be one. Returns its
        key, the stored value and that time."""
        until, key = self._order.first(self._layers)
        physical = ENTRY + key
        found: Lasting | None = self._layers.read(physical)[0]
        if found is None or found.until != until:
            raise StateStoreError(
                f"the state store {self._name!r} has no entry for a time of its order; delete the state of the task, "
                "which is then restored from its changelogs"
            )
        self._write(physical, None, found.until)
        self._order.remove(self._layers, found, key)
        return key, found.value, found.until

    def key_of(self, key: bytes) -> Any:
        """Returns a key of its bytes."""
        return self._deserialize_key(key)

    # ---- for users -----------------------------------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        return self._value(self._living(self._key(key)))

    def put(self, key: Any, value: Any, ttl: Duration | None = None) -> None:
        default = self._ttl
        if ttl is not None:
            self._ttl = self._checked(key, ttl)
        try:
            super().put(key, value)
        finally:
            self._ttl = default

    def put_if_absent(self, key: Any, value: Any, ttl: Duration | None = None) -> Any:
        previous = self.get(key)
        if previous is None:
            self.put(key, value, ttl)
        return previous

    def delete(self, key: Any) -> Any:
        previous = self.get(key)
        self.put(key, None)
        return previous

    def approximate_num_entries(self) -> int:
        """Returns about how many entries there are. In a store without a default, entries with a time count twice."""
        return self.layers.count() // (1 if self._ttl is None else 2)

    def deleted_at(self, key: Any) -> int:
        return self._deleted_at(ENTRY + self.key_bytes(key))

    def open(self) -> None:
        super().open()
        self.write = self.keep

    def close(self) -> None:
        super().close()
        self.write = self.keep

    def _checked(self, key: Any, ttl: Duration) -> int:
        try:
            return ttl_in_ms(f"state store {self._name!r}, key {key!r:.100}: put(ttl=...)", ttl)
        except TopologyError as error:
            raise ValueError(str(error)) from None

    def _living(self, key: bytes) -> Entry:
        stored, timestamp = self._layers.read(ENTRY + key)
        return ABSENT if stored is None or stored.until <= self._due.now() else (stored.value, timestamp)

    def _scan(self, start: bytes, end: bytes | None, *, reverse: bool) -> KeyValueIterator[Any, Any]:
        deserialize_key, value, now, skip = self._deserialize_key, self._value, self._due.now(), len(ENTRY)
        entries = self.layers.scan(ENTRY + start, PLACE if end is None else ENTRY + end, reverse=reverse)
        return KeyValueIterator(
            (deserialize_key(key[skip:]), value((stored.value, timestamp)))
            for key, (stored, timestamp) in entries
            if stored.until > now
        )


class ExpiringTimestampedStoreImpl(ExpiringStoreImpl, TimestampedKeyValueStoreImpl):
    """The same with timestamps: a value lives from its own on."""


@dataclass(frozen=True)
class ExpiringType(KeyValueType):
    """The type of key-value stores with a time to live."""

    #: Of values that are put without one, in milliseconds; ``None``: they live until they are deleted.
    ttl_ms: int | None = None

    def with_headers(self) -> StoreType:
        """Returns the same type: it keeps no headers of records."""
        return self

    def format(self, value_serde: AnySerde) -> EntryFormat:
        plain = super().format(value_serde)
        assert isinstance(plain, PlainFormat)
        return ExpiryFormat(plain, self.ttl_ms)

    def layout(self) -> Layout:
        return ExpiryLayout()

    def facade(self, parts: StoreParts) -> KeyValueStoreImpl:
        made = ExpiringTimestampedStoreImpl if self.keeps_timestamps else ExpiringStoreImpl
        return made(parts, self.ttl_ms)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        assert isinstance(layout, ExpiryLayout)
        assert isinstance(format, ExpiryFormat)
        return ExpiringView(layers, layout, format, readers)


def ttl_in_ms(where: str, ttl: Duration) -> int:
    """Returns a time to live in milliseconds; raises ``TopologyError`` for one that no entry can have."""
    try:
        found = duration_ms(ttl)
    except TopologyError as error:
        raise TopologyError(f"{where}: {error}") from None
    if not 1 <= found <= _MAX_TTL_MS:
        raise TopologyError(
            f"{where}: a time to live is at least 1 ms and at most {_MAX_TTL_MS} ms, got {found} ms; leave ttl out for "
            "entries that live until they are deleted"
        )
    return found


KEY_VALUE_WITH_TTL = ExpiringType("ttl_key_value", keeps_timestamps=False)
TIMESTAMPED_KEY_VALUE_WITH_TTL = ExpiringType("ttl_timestamped_key_value", keeps_timestamps=True)
