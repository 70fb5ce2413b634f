"""Buffers of joins of a stream with a versioned table: records that wait for late updates of the table (KIP-923).

Made with the task; used on the processing thread that holds it. Keys in the changelog are Kafka Streams': ``0 (1 byte)
‖ timestamp (8 bytes) ‖ key ‖ sequence (4 bytes)``, so that the oldest record comes first. Values are those of
``suppress`` (:mod:`.buffered`). Nothing is read before something is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from struct import Struct
from types import MappingProxyType
from typing import Any

from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.serdes.windowed import MAX_TIMESTAMP
from streamsapp.state.engine.entries import NO_TIMESTAMP, EntryFormat, PhysicalEntry
from streamsapp.state.engine.headers import loggable
from streamsapp.state.engine.segments import Segments
from streamsapp.state.engine.store_engine import Reads
from streamsapp.state.kinds.buffered_record import Buffered, BufferedFormat, origin
from streamsapp.state.kinds.facade import Facade
from streamsapp.state.kinds.store_type import Layout, StoreParts
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack

_TIME = Struct(">xq")
_SEQUENCE = Struct(">I")
_MAX_SEQUENCE = (1 << 31) - 1
#: The number of records that are taken out at once.
_CHUNK = 500


def _time_of(logical: bytes) -> int:
    timestamp: int = _TIME.unpack_from(logical)[0]
    return timestamp


class GraceLayout(Segments):
    """Entries that do not expire, in the order of their times."""

    def __init__(self) -> None:
        super().__init__(MAX_TIMESTAMP, MAX_TIMESTAMP, _time_of)
        #: Nothing that waits is older.
        self.earliest = 0

    def restored(
        self, records: Sequence[InputRecord], format: EntryFormat, committed: Reads
    ) -> Sequence[PhysicalEntry]:
        self.earliest = 0
        return super().restored(records, format, committed)

    def stand_at(self, facts: bytes | None) -> None:
        self.earliest = 0
        super().stand_at(facts)


class GraceBuffer(Facade):
    """Records that wait until stream time has passed them by the grace."""

    def __init__(self, parts: StoreParts, layout: GraceLayout, grace_ms: int) -> None:
        super().__init__(parts)
        self._layout = layout
        self._grace = grace_ms
        self._serialize_key = parts.key_serde.serialize
        self._serialize = parts.value_serde.serialize
        self._deserialize_key = parts.key_serde.deserialize
        self._deserialize = parts.value_serde.deserialize

    def add(self, key: Any, value: Any, timestamp: int, headers: Headers | None, record: InputRecord | None) -> bool:
        """Let a record wait, unless stream time has passed it by the grace already. Returns whether it waits."""
        layout = self._layout
        if timestamp < layout.stream_time - self._grace:
            return False
        # Bytes first, so that a record that cannot be written changes nothing.
        key_bytes, data, headers = self._serialize_key(key), self._serialize(value), loggable(headers)
        layout.observe(timestamp)
        layout.appended += 1
        logical = _TIME.pack(timestamp) + key_bytes + _SEQUENCE.pack(layout.appended & _MAX_SEQUENCE)
        waiting = Buffered(0, None, None, data, timestamp, *origin(record), headers)
        self._write(layout.physical(logical, timestamp), waiting, NO_TIMESTAMP)
        layout.earliest = min(layout.earliest, timestamp)
        return True

    def advance(self, timestamp: int) -> None:
        """Moves stream time on, if the timestamp is later: it is that of a record that does not wait here."""
        self._layout.observe(timestamp)

    def take_due(self) -> list[tuple[bytes, Buffered]]:
        """Takes some of the records that waited long enough, the oldest first, with their keys; returns none only if
        none did."""
        layout, due = self._layout, self._layout.stream_time - self._grace
        if layout.earliest > due:
            return []
        start = layout.physical(_TIME.pack(layout.earliest), layout.earliest)
        found = self._layers.look(start, None, reverse=False)
        taken: list[tuple[bytes, Buffered]] = []
        layout.earliest = MAX_TIMESTAMP
        for physical, (waiting, _) in islice(found, _CHUNK + 1):
            layout.earliest = waiting.timestamp
            if layout.earliest > due or len(taken) == _CHUNK:
                break
            taken.append((physical, waiting))
        for physical, _ in taken:
            self._write(physical, None, NO_TIMESTAMP)
        return taken

    def record(self, physical: bytes, waiting: Buffered) -> tuple[Any, Any]:
        """Key and value of the record that was taken."""
        assert waiting.new is not None
        key = Segments.logical(physical)[_TIME.size : -_SEQUENCE.size]
        return self._deserialize_key(key), self._deserialize(waiting.new)


@dataclass(frozen=True)
class GraceType:
    """The buffer of one join."""

    grace_ms: int

    name = "grace"
    window_of = None
    keeps_timestamps = False
    changelog_settings = MappingProxyType[str, str]({})

    def format(self, value_serde: AnySerde) -> EntryFormat:
        return BufferedFormat("a join with a grace")

    def layout(self) -> GraceLayout:
        return GraceLayout()

    def facade(self, parts: StoreParts) -> GraceBuffer:
        assert isinstance(parts.layout, GraceLayout)
        return GraceBuffer(parts, parts.layout, self.grace_ms)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        return None
