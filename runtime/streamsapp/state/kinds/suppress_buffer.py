"""The buffers of ``suppress``: updates of a table that wait, with the next one to go on at the top.

Made with the task; used on the processing thread that holds the task. Kept in memory, as in Kafka Streams; the
changelog has Kafka Streams' bytes. Entries lie under their key, as in every store, so that commit, revert and restore
are those of all stores. The order in which they go on is derived from them, and again after a restore or a revert.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from streamsapp.record import Headers, InputRecord
from streamsapp.serdes.api import AnySerde
from streamsapp.state.engine.entries import NO_TIMESTAMP, EntryFormat, PhysicalEntry
from streamsapp.state.engine.headers import loggable
from streamsapp.state.engine.store_engine import Reads
from streamsapp.state.kinds.buffered_record import Buffered, BufferedFormat
from streamsapp.state.kinds.facade import Facade
from streamsapp.state.kinds.store_type import Layers, Layout, PlainLayout, StoreParts
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack

#: Of each changelog record: the form of its value.
_HEADERS: Headers = [("v", b"\x03")]


class BufferOrder(PlainLayout):
    """Orders the updates that wait: by buffer time, then by their key's bytes."""

    def __init__(self) -> None:
        #: A heap of ``(buffer time, key)``; ``None`` until it is asked for.
        self.waiting: list[tuple[int, bytes]] | None = None
        #: Bytes of all entries.
        self.size = 0

    def restored(
        self, records: Sequence[InputRecord], format: EntryFormat, committed: Reads
    ) -> Sequence[PhysicalEntry]:
        self.waiting = None
        return super().restored(records, format, committed)

    def stand_at(self, facts: bytes | None) -> None:
        self.waiting = None

    def load(self, layers: Layers) -> list[tuple[int, bytes]]:
        """Derives the order from the entries of the store."""
        entries = [(key, entry[0]) for key, entry in layers.scan(b"", None, reverse=False)]
        self.size = sum(buffered.size(key) for key, buffered in entries)
        self.waiting = [(buffered.time, key) for key, buffered in entries]
        heapify(self.waiting)
        return self.waiting

    def statistics(self) -> Mapping[str, int]:
        waiting = self.waiting
        return (
            {} if waiting is None else {"suppression_buffer_count": len(waiting), "suppression_buffer_size": self.size}
        )


class SuppressionBuffer(Facade):
    """Holds the updates that wait, the last one of each key."""

    def __init__(self, parts: StoreParts, order: BufferOrder) -> None:
        super().__init__(parts)
        self._order = order
        self.serialize_key: Callable[[Any], bytes] = parts.key_serde.serialize
        self.deserialize_key: Callable[[bytes], Any] = parts.key_serde.deserialize
        self.serialize: Callable[[Any], bytes] = parts.value_serde.serialize
        self.deserialize: Callable[[bytes], Any] = parts.value_serde.deserialize

    @property
    def count(self) -> int:
        """The number of updates that wait."""
        return len(self._waiting())

    @property
    def size(self) -> int:
        """The bytes of all updates that wait."""
        self._waiting()
        return self._order.size

    @property
    def first_time(self) -> int | None:
        """The buffer time of the update that goes on first; ``None`` if none waits."""
        waiting = self._waiting()
        return waiting[0][0] if waiting else None

    def get(self, key: bytes) -> Buffered | None:
        """Returns the update of a key that waits, ``None`` if none does."""
        found: Buffered | None = self._layers.read(key)[0]
        return found

    def put(self, key: bytes, update: Buffered) -> None:
        """Puts a newer update of a key in the place of the waiting one, and keeps the time and prior value of that."""
        waiting, order = self._waiting(), self._order
        before, headers = self.get(key), loggable(update.headers)
        if before is None:
            update = update._replace(prior=update.old, headers=headers)
            # All that can raise is done by now: an update that cannot be written changes nothing.
            size = update.size(key)
            heappush(waiting, (update.time, key))
        else:
            update = update._replace(prior=before.prior, time=before.time, headers=headers)
            size = update.size(key) - before.size(key)
        order.size += size
        self._write(key, update, NO_TIMESTAMP)

    def first(self) -> tuple[bytes, Buffered]:
        """Returns the update that goes on first; there must be one."""
        key = self._waiting()[0][1]
        return key, self._layers.read(key)[0]

    def remove_first(self) -> None:
        """Removes the update that has gone on."""
        key, update = self.first()
        heappop(self._waiting())
        self._order.size -= update.size(key)
        self._write(key, None, NO_TIMESTAMP)

    def _waiting(self) -> list[tuple[int, bytes]]:
        waiting = self._order.waiting
        return self._order.load(self._layers) if waiting is None else waiting


@dataclass(frozen=True)
class SuppressionType:
    """The type of the buffer of one ``suppress``."""

    name = "suppression"
    window_of = None
    keeps_timestamps = False

    @property
    def changelog_settings(self) -> Mapping[str, str]:
        return {}

    def format(self, value_serde: AnySerde) -> EntryFormat:
        return BufferedFormat("suppress", _HEADERS)

    def layout(self) -> BufferOrder:
        return BufferOrder()

    def facade(self, parts: StoreParts) -> SuppressionBuffer:
        assert isinstance(parts.layout, BufferOrder)
        return SuppressionBuffer(parts, parts.layout)

    def view(self, layers: WriteBack, layout: Layout, format: EntryFormat, readers: Readers) -> StoreView | None:
        return None


SUPPRESSION = SuppressionType()
