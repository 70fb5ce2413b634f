"""The store of a left or outer join of two streams: records of both sides that have found no other record yet.

Made with the task; called on the processing thread that holds it. Keys are Kafka Streams':
``timestamp (8 bytes) ‖ side (1 byte, 1 is left) ‖ key``, so that the oldest record comes first. A value is the list of
all records of that side, key and time (:mod:`streamsapp.serdes.left_or_right`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from types import MappingProxyType
from typing import Any

from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine.entries import EntryFormat, PlainFormat
from streamsapp.state.kinds.facade import SerdeFacade
from streamsapp.state.kinds.store_type import Layout, PlainLayout, StoreParts
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack

_KEY = Struct(">q?")


class OuterJoinLayout(PlainLayout):
    """Knows of the records that wait what both sides of the join share."""

    def __init__(self) -> None:
        #: The state of the join in a task besides its records: put here and read by the operators of both sides. It
        #: begins anew with the committed state: while the task was a replica, other instances wrote that.
        self.progress: Any = None

    def stand_at(self, facts: bytes | None) -> None:
        self.progress = None


class OuterJoinStore(SerdeFacade):
    """Keeps records that wait for another one, in the order of their times."""

    def __init__(self, parts: StoreParts, shared: OuterJoinLayout) -> None:
        super().__init__(parts)
        self.shared = shared

    def add(self, timestamp: int, is_left: bool, key: bytes, value: Any) -> None:
        """Keeps a record that has found no other. Raises ``ValueError`` for a value that cannot be written."""
        physical = _KEY.pack(timestamp, is_left) + key
        waiting = self._layers.read(physical)[0]
        values = [] if waiting is None else self.from_stored(waiting)
        stored = self.to_stored(key, [*values, (is_left, value)])
        self._write(physical, stored, timestamp)

    def remove(self, timestamp: int, is_left: bool, key: bytes, now: int) -> None:
        """Removes the records of this side, key and time: they have found another one, of the time ``now``."""
        physical = _KEY.pack(timestamp, is_left) + key
        if self._layers.read(physical)[0] is not None:
            self._write(physical, None, now)

    def delete(self, physical: bytes, now: int) -> None:
        """Deletes the entry that :meth:`waiting` gave under this key: it was sent, for a record of the time ``now``."""
        self._write(physical, None, now)

    def waiting(self, from_ms: int) -> Iterator[tuple[int, bool, bytes, Any]]:
        """Iterates over ``(timestamp, is_left, physical key, stored)`` of all records that wait from a time on, the
        oldest first. To be read before something is written."""
        for physical, (stored, _) in self._layers.look(_KEY.pack(from_ms, False), None, reverse=False):
            timestamp, is_left = _KEY.unpack_from(physical)
            yield timestamp, is_left, physical, stored

    def newest(self, from_ms: int) -> int:
        """Returns the time of the newest record that waits; ``from_ms`` if it is not later."""
        for physical, _ in self._layers.look(_KEY.pack(from_ms, False), None, reverse=True):
            timestamp: int = _KEY.unpack_from(physical)[0]
            return timestamp
        return from_ms

    def count(self, stored: Any) -> int:
        """Returns the number of records in one entry of :meth:`waiting`."""
        return len(self.from_stored(stored))

    def records(self, physical: bytes, stored: Any) -> tuple[Any, list[Any]]:
        """Returns the key and the values of an entry of :meth:`waiting`."""
        key = self._deserialize_key(physical[_KEY.size :])
        return key, [value for _, value in self.from_stored(stored)]


@dataclass(frozen=True)
class OuterJoinType:
    """The type of stores for records that wait until they are joined, or sent without a partner; the changelog is
    compacted."""

    name = "outer_join"
    window_of = None
    keeps_timestamps = False
    changelog_settings = MappingProxyType[str, str]({})

    def format(self, value_serde: AnySerde) -> EntryFormat:
        return PlainFormat(value_serde)

    def layout(self) -> Layout:
        return OuterJoinLayout()

    def facade(self, parts: StoreParts) -> OuterJoinStore:
        assert isinstance(parts.layout, OuterJoinLayout)
        return OuterJoinStore(parts, parts.layout)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        return None


OUTER_JOIN = OuterJoinType()
