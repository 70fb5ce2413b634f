"""Stores with a time to live as interactive queries see them.

Read on threads that query, beside the thread that writes the store (:mod:`streamsapp.state.layers.views`). An entry
that is over by the stream time of the task is not shown, whether it is deleted yet or not. A query of committed entries
shows those of the last commit, as does a standby: the deletions come with the commit of the task.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamsapp.state.engine.entries import ABSENT, Entry
from streamsapp.state.kinds.expiry import ENTRY, PLACE, ExpiryFormat, ExpiryLayout
from streamsapp.state.layers.views import Readers, StoreView
from streamsapp.state.layers.write_back import WriteBack


class ExpiringView(StoreView):
    """Reads one store with a time to live of one task, by the keys of its entries."""

    def __init__(self, layers: WriteBack, layout: ExpiryLayout, format: ExpiryFormat, readers: Readers) -> None:
        super().__init__(layers, format.plain, readers)
        self._layout = layout

    def get(self, key: bytes, *, committed: bool) -> Entry:
        return self._shown(super().get(ENTRY + key, committed=committed), committed)

    def range(self, start: bytes, end: bytes | None, *, committed: bool) -> Iterator[tuple[bytes, Entry]]:
        for key, entry in super().range(ENTRY + start, PLACE if end is None else ENTRY + end, committed=committed):
            shown = self._shown(entry, committed)
            if shown[0] is not None:
                yield key[len(ENTRY) :], shown

    def _shown(self, entry: Entry, committed: bool) -> Entry:
        stored, timestamp = entry
        if stored is None or not (committed or stored.until > self._layout.stream_time()):
            return ABSENT
        return stored.value, timestamp
