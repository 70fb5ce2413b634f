"""The windows that a store counts in, by start and key: a record finds its count by the bytes of its key alone, and the
key that the store has for a window is made once per window and commit.

Made with the operator that counts; used on the processing thread that holds the task. The store has every count, too:
this is only a cache, in place of the write-back layer's, and begins anew whenever the store does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamsapp.state.entries import Cell
from streamsapp.state.segments import Segments
from streamsapp.state.store_type import Layers

#: So many windows are remembered between two commits, and those of one step even if they are more.
WINDOWS_AT_HAND = 1024
#: The epoch of a cell that another writer has replaced in the store: none has it any more.
_REPLACED = -1


class WindowCells(dict[bytes, Cell]):
    """The counts of the windows that start at one time, by the bytes of their keys."""

    __slots__ = ("_after", "_before", "_layers", "_older", "_segments", "_start", "_whole")

    def __init__(self, layers: Layers, segments: Segments, start_ms: int, around: tuple[bytes, bytes]) -> None:
        super().__init__()
        self._layers = layers
        self._segments = segments
        self._start = start_ms
        self._before, self._after = around
        #: The generation before, which is asked for what is missing.
        self._older: dict[bytes, Cell] = {}
        #: True if keys that are missing have no such window: nothing was written that starts so late.
        self._whole = start_ms > segments.stream_time

    def count_anew(self, key: bytes, cell: Cell | None, timestamp: int) -> Cell:
        """Counts one more in a window whose ``cell``, if one is known, is not of the running epoch. Returns the one
        that may be changed in place from now on."""
        if cell is None and self._older:
            cell = self._older.get(key)
        if cell is not None or not self._whole:
            return self._count_known(key, cell, timestamp)
        # The first count of a window: with many keys most are.
        cell = self[key] = Cell((1, timestamp))
        cell.held = False
        self._layers.keep_cell(self._before + key + self._after, cell)
        if self._start > self._segments.stream_time:
            self._segments.observe(self._start)
        return cell

    def _count_known(self, key: bytes, cell: Cell | None, timestamp: int) -> Cell:
        """Counts one more in a window that may have a count already."""
        layers, physical = self._layers, self._before + key + self._after
        known: Any = layers.read_uncached(physical) if cell is None or cell.epoch == _REPLACED else cell
        count, changed_at = known
        if timestamp > changed_at:
            changed_at = timestamp
        entry = 1 if count is None else count + 1, changed_at
        if known.__class__ is Cell and known.epoch == layers.epoch:
            cell = known  # forgotten here, or of the generation before, but in the running epoch
            cell[:] = entry
        elif cell is not None and cell.epoch == _REPLACED:
            cell[:] = entry  # the same one, as it may be noted to be sent
            layers.keep_cell(physical, cell)
        else:
            cell = Cell(entry)
            cell.held = False
            layers.keep_cell(physical, cell)
        if self._start > self._segments.stream_time:
            self._segments.observe(self._start)
        self[key] = cell
        return cell

    def written(self, key: bytes, stored: Any, timestamp: int) -> None:
        """Notes that somebody else wrote a window."""
        cell = self.get(key) or self._older.get(key)
        if cell is None:
            self._whole = False
        elif cell.epoch in (_REPLACED, self._layers.epoch):
            cell[:] = stored, timestamp
            cell.epoch = _REPLACED
            self[key] = cell
        else:
            self.pop(key, None)
            self._older.pop(key, None)
            self._whole = False

    def grow_old(self) -> None:
        """Makes room: what is not counted until the next time is forgotten then."""
        self._whole = self._whole and not self._older
        self._older = dict(self)
        self.clear()


class CountedWindows:
    """All that is remembered of a store's windows."""

    def __init__(self, layers: Layers, segments: Segments, around: Callable[[int], tuple[bytes, bytes]]) -> None:
        """Takes ``around``, which tells the bytes before and after the key in the physical keys of windows that start
        at a time."""
        self._layers = layers
        self._segments = segments
        self._around = around
        self._windows: dict[int, WindowCells] = {}
        #: Called when windows are forgotten: nobody may go on to use them.
        self.forgotten: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """Returns the number of counts of the newest generation; on any thread."""
        return sum(map(len, list(self._windows.values())))

    def at(self, start_ms: int) -> WindowCells:
        """Returns the counts of the windows that start then, the same ones until they are forgotten."""
        found = self._windows.get(start_ms)
        if found is None:
            if not self._windows:
                self._layers.read_uncached(b"")  # which finds out whether the store is open
            found = WindowCells(self._layers, self._segments, start_ms, self._around(start_ms))
            self._windows[start_ms] = found
        return found

    def bound(self, most: int) -> None:
        """Forgets the earliest windows if there are more than twice as many as that."""
        if len(self._windows) > 2 * most:
            self._keep(sorted(self._windows)[-most:])

    def forget(self) -> None:
        """Begins anew, after somebody wrote or reverted what lies below."""
        self._keep(())

    def make_room(self, room: int) -> None:
        """Forgets windows that the store keeps no longer, and counts that were not asked for lately if there are more
        than there is room for. Called between two epochs."""
        expired_before = self._segments.expired_before
        if any(start < expired_before for start in self._windows):
            self._keep([start for start in self._windows if start >= expired_before])
        if len(self) > room:
            for cells in self._windows.values():
                cells.grow_old()

    def written(self, key: bytes, start_ms: int, stored: Any, timestamp: int) -> None:
        """Notes that somebody else wrote a window."""
        if (cells := self._windows.get(start_ms)) is not None:
            cells.written(key, stored, timestamp)

    def _keep(self, starts: Iterable[int]) -> None:
        self._windows = {start: self._windows[start] for start in starts}
        self.forgotten()
