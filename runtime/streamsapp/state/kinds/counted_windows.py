"""The windows that a store counts in, by start. The key of a record's count is made of two parts: the bytes of the
record's key, and the bytes that all windows of one start have around it. A new window costs no look into the store.

Made with the operator that counts; used on the processing thread that holds the task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from streamsapp import native
from streamsapp.state.engine.segments import Segments
from streamsapp.state.kinds.store_type import Layers
from streamsapp.state.layers.read_cache import ANY_TIME

#: So many windows are remembered between two commits, and all windows of one step even if they are more.
WINDOWS_AT_HAND = 1024

#: A start, an end, and what all windows that start then have around their keys.
Window: TypeAlias = "tuple[int, int, native.Window]"


class CountedWindows:
    """The windows of a store that are counted in; windows of one start share the bytes around their keys."""

    def __init__(self, layers: Layers, segments: Segments, around: Callable[[int], tuple[bytes, bytes]]) -> None:
        """Takes ``around``, which returns the bytes before and after the key in the physical keys of windows that start
        at a time."""
        self._layers = layers
        self.segments = segments
        self._around = around
        self._windows: dict[int, native.Window] = {}
        #: Called when windows are forgotten: no caller may go on to use them.
        self.on_forgotten: list[Callable[[], None]] = []
        layers.on_forgotten(self._forget)

    def at(self, start_ms: int) -> native.Window:
        """Returns what the windows that start then have in common, the same object until they are forgotten."""
        found = self._windows.get(start_ms)
        if found is None:
            if not self._windows:
                self._layers.peek(b"", committed=True)  # which finds out whether the store is open
            is_new = start_ms > self.segments.stream_time
            before, after = self._around(start_ms)
            found = self._windows[start_ms] = native.Window(before=before, after=after, whole=is_new)
        return found

    def bound(self, most: int) -> None:
        """Forgets the earliest windows if there are more than twice as many as that."""
        if len(self._windows) > 2 * most:
            self._keep(sorted(self._windows)[-most:])

    def _forget(self, latest: int) -> None:
        """The cache has forgotten cells of windows that start until then; in the middle of a record perhaps, whose
        windows a caller holds."""
        for start, around in self._windows.items():
            around.whole = around.whole and start > latest
        if latest == ANY_TIME:
            self._keep(())

    def _keep(self, starts: Iterable[int]) -> None:
        self._windows = {start: self._windows[start] for start in starts}
        for forget in self.on_forgotten:
            forget()
