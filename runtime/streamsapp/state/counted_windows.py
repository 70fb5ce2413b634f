"""The windows that a store counts in, by start and key: a record finds its count by the bytes of its key alone, and the
key that the store has for a window is made once per window and commit.

Made with the operator that counts; used on the processing thread that holds the task. The store has every count, too:
this is only a cache, in place of the write-back layer's, and begins anew whenever the store does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from streamsapp import native
from streamsapp.record import Headers
from streamsapp.state.entries import Cell
from streamsapp.state.segments import Segments
from streamsapp.state.store_type import Layers

#: So many windows are remembered between two commits, and those of one step even if they are more.
WINDOWS_AT_HAND = 1024
#: The epoch of a cell that another writer has replaced in the store: none has it any more.
_REPLACED = -1


class _Parts:
    """:class:`~streamsapp.native.WindowParts` in Python."""

    __slots__ = ("after", "before", "older", "whole")

    def __init__(self, before: bytes, after: bytes, whole: bool, /) -> None:
        self.before, self.after, self.whole = before, after, whole
        self.older: dict[bytes, Any] = {}


def _cell(physical: bytes, stored: int | None, timestamp: int, /) -> Cell:
    cell = Cell((stored, timestamp))
    cell.held = False
    return cell


class WindowCells(dict[bytes, Any]):
    """The counts of the windows that start at one time, by the bytes of their keys."""

    __slots__ = ("_cell", "_layers", "_segments", "_start", "around")

    def __init__(
        self,
        layers: Layers,
        segments: Segments,
        start_ms: int,
        around: native.WindowParts,
        cell: Callable[[bytes, Any, int], Any],
    ) -> None:
        super().__init__()
        self._layers = layers
        self._segments = segments
        self._start = start_ms
        self._cell = cell
        self.around = around

    def count_anew(self, key: bytes, cell: Any, timestamp: int) -> Any:
        """Counts one more in a window whose ``cell``, if one is known, is not of the running epoch. Returns the one
        that may be changed in place from now on."""
        around = self.around
        if cell is None and around.older:
            cell = around.older.get(key)
        physical = around.before + key + around.after
        if cell is not None or not around.whole:
            return self._count_known(key, physical, cell, timestamp)
        # The first count of a window: with many keys most are.
        cell = self[key] = self._cell(physical, 1, timestamp)
        self._layers.keep_cell(physical, cell)
        if self._start > self._segments.stream_time:
            self._segments.observe(self._start)
        return cell

    def _count_known(self, key: bytes, physical: bytes, cell: Any, timestamp: int) -> Any:
        """Counts one more in a window that may have a count already."""
        layers = self._layers
        known: Any = layers.read_uncached(physical) if cell is None or cell.epoch == _REPLACED else cell
        count, changed_at = known[0], known[1]
        if timestamp > changed_at:
            changed_at = timestamp
        count = 1 if count is None else count + 1
        if not isinstance(known, tuple) and known.epoch == layers.epoch:
            cell = known  # forgotten here, or of the generation before, but in the running epoch
            cell[0], cell[1] = count, changed_at
        elif cell is not None and cell.epoch == _REPLACED:
            cell[0], cell[1] = count, changed_at  # the same one, as it may be noted to be sent
            layers.keep_cell(physical, cell)
        else:
            cell = self._cell(physical, count, changed_at)
            layers.keep_cell(physical, cell)
        if self._start > self._segments.stream_time:
            self._segments.observe(self._start)
        self[key] = cell
        return cell

    def written(self, key: bytes, stored: Any, timestamp: int) -> None:
        """Notes that somebody else wrote a window."""
        around = self.around
        cell = self.get(key)
        if cell is None:
            cell = around.older.get(key)
        if cell is None:
            around.whole = False
        elif cell.epoch in (_REPLACED, self._layers.epoch):
            cell[0], cell[1] = stored, timestamp
            cell.epoch = _REPLACED
            self[key] = cell
        else:
            self.pop(key, None)
            around.older.pop(key, None)
            around.whole = False

    def grow_old(self) -> None:
        """Makes room: what is not counted until the next time is forgotten then."""
        around = self.around
        around.whole = around.whole and not around.older
        around.older = dict(self)
        self.clear()


def _counting(
    late: Callable[[], None],
    held: list[Any] | None,
    held_headers: dict[int, Headers] | None,
    forward: Callable[..., None] | None,
) -> Callable[..., None]:
    """Does as :meth:`streamsapp.native.WindowCounting.count`, in Python; there is no short cut to a topic."""

    def count(
        windows: tuple[tuple[int, int, WindowCells, Any], ...],
        key: Any,
        key_bytes: bytes,
        timestamp: int,
        closed_until: int,
        epoch: int,
        headers: Headers | None,
        straight: None,
    ) -> None:
        for start, end, cells, _ in windows:
            if end <= closed_until:
                late()
                continue
            cell = cells.get(key_bytes)
            if cell is not None and cell.epoch == epoch:
                cell[0] += 1
                if timestamp > cell[1]:
                    cell[1] = timestamp
            else:
                cell = cells.count_anew(key_bytes, cell, timestamp)
            if forward is not None:
                forward(key, start, end, *cell, headers)
            if held is None or held_headers is None:
                continue
            if not cell.held:
                cell.held = True
                held.append((cell, key, start, end))
            if headers is not None:
                held_headers[id(cell)] = headers
            elif held_headers:
                held_headers.pop(id(cell), None)

    return count


class CountedWindows:
    """All that is remembered of a store's windows."""

    def __init__(self, layers: Layers, segments: Segments, around: Callable[[int], tuple[bytes, bytes]]) -> None:
        """Takes ``around``, which tells the bytes before and after the key in the physical keys of windows that start
        at a time."""
        self._layers = layers
        self._segments = segments
        self._around = around
        #: Counts the windows of a record in C, if it can be had.
        self.library = library = native.data_path_at_hand()
        self._made_of: tuple[Callable[[bytes, bytes, bool], native.WindowParts], Callable[[bytes, Any, int], Any]] = (
            (_Parts, _cell) if library is None else (library.Window, library.Cell)
        )
        self._windows: dict[int, WindowCells] = {}
        #: Called when windows are forgotten: nobody may go on to use them.
        self.forgotten: Callable[[], None] = lambda: None

    def counter(
        self,
        late: Callable[[], None],
        held: list[Any] | None,
        headers: dict[int, Headers] | None,
        forward: Callable[..., None] | None,
    ) -> Callable[..., None]:
        """Returns the function that counts a record, as ``WindowCounting.count`` says."""
        if self.library is None:
            return _counting(late, held, headers, forward)
        return self.library.WindowCounter(self._layers, self._segments, late, held, headers, forward).count

    def __len__(self) -> int:
        """Returns the number of counts of the newest generation; on any thread."""
        return sum(map(len, list(self._windows.values())))

    def at(self, start_ms: int) -> WindowCells:
        """Returns the counts of the windows that start then, the same ones until they are forgotten."""
        found = self._windows.get(start_ms)
        if found is None:
            if not self._windows:
                self._layers.read_uncached(b"")  # which finds out whether the store is open
            around, cell = self._made_of
            parts = around(*self._around(start_ms), start_ms > self._segments.stream_time)
            found = self._windows[start_ms] = WindowCells(self._layers, self._segments, start_ms, parts, cell)
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
