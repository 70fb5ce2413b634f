"""The newest entries of a store with a retention, by key. Operators that ask for the neighbours of every record find
them here, without a look at the engine.

Called on the processing thread that holds the task, by the facade that writes the store. The store has every entry,
too; this is only a cache, and begins anew whenever the store was restored or reverted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from streamsapp.state.engine.segments import Segments

#: ``(time, number, stored, ...)``; time and number distinguish the entries of a key.
Item: TypeAlias = tuple[Any, ...]

#: Expired entries are looked for when there are twice as many as were left the last time, but no fewer than this.
_LEAST = 1_000


class Recent:
    """Holds every entry of a store from some time on, which is as early as memory allows."""

    def __init__(self, segments: Segments, room: Callable[[], int]) -> None:
        """``room`` returns how many entries may be held."""
        self._segments = segments
        self._room = room
        self._items: dict[bytes, list[Item]] = {}
        #: The numbers of entries, and of keys that no longer have any.
        self._count = 0
        self._limit = 0
        self._complete_from = 0
        self._begun = -1

    def __len__(self) -> int:
        """Returns the number of entries, and of keys that no longer have any."""
        return self._count

    def between(self, key: bytes, from_ms: int, to_ms: int) -> Sequence[Item] | None:
        """Returns the entries of a key in order, both bounds inclusive; expired ones may be among them. ``None`` says
        that some may not be here."""
        if self._begun != self._segments.begun:
            self._begin()
        if from_ms < self._complete_from:
            return None
        items = self._items.get(key)
        if not items or (last := items[-1][0]) < from_ms:
            return ()
        first = 0 if items[0][0] >= from_ms else bisect_left(items, (from_ms,))
        return items[first:] if last <= to_ms else items[first : bisect_left(items, (to_ms + 1,))]

    def put(self, key: bytes, item: Item) -> None:
        """Adds an entry, or puts it in the place of the entry with this time and number. Until the store was asked for
        recent entries, this has to come before the write that moves its time."""
        time = item[0]
        if self._begun != self._segments.begun:
            self._begin()
        if time < self._complete_from:
            return
        items = self._items.get(key)
        if not items:
            if items is not None:
                items.append(item)
                return
            self._items[key] = [item]
        elif (last := items[-1])[0] < time or (last[0] == time and last[1] < item[1]):
            items.append(item)
        else:
            at = bisect_left(items, item[:2])
            if items[at][:2] == item[:2]:
                items[at] = item
                return
            items.insert(at, item)
        self._count += 1
        if self._count > self._limit:
            self._make_room()

    def remove(self, key: bytes, time: int, number: int) -> None:
        """Forgets an entry that the store has no more."""
        if self._begun != self._segments.begun:
            self._begin()
        if time < self._complete_from or not (items := self._items.get(key)):
            return
        at = 0 if len(items) == 1 else bisect_left(items, (time, number))
        if at == len(items) or (found := items[at])[0] != time or found[1] != number:
            return
        del items[at]
        if items:
            self._count -= 1
        # Else the list stays, and counts, as an entry that goes mostly makes room for another one of its key.

    def _begin(self) -> None:
        """The store has only committed entries: all of them are at or before its stream time."""
        self._begun = self._segments.begun
        self._items.clear()
        self._count = self._limit = 0
        self._complete_from = self._segments.stream_time + 1

    def _make_room(self) -> None:
        segments, room = self._segments, self._room()
        self._forget_before(segments.expired_before)
        # An entry that moves stream time is later than it was, and stays even where there is no room for it.
        while self._count > room and self._complete_from <= segments.stream_time:
            earliest = max(self._complete_from, segments.expired_before)
            self._complete_from = (earliest + segments.stream_time) // 2 + 1
            self._forget_before(self._complete_from)
        self._limit = min(max(2 * self._count, _LEAST), room)

    def _forget_before(self, time: int) -> None:
        kept: dict[bytes, list[Item]] = {}
        for key, items in self._items.items():
            if items and items[-1][0] >= time:
                kept[key] = items if items[0][0] >= time else items[bisect_left(items, (time,)) :]
        self._items = kept
        self._count = sum(map(len, kept.values()))
