"""Reads that a thread waits for go before files that no thread waits for.

One for all tasks of an instance, which share its network and its processors. Asked on every thread that reads a store
whose files are not all here, and on the threads that fill them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Precedence:
    """Counts reads that wait and threads that fill files: of these one goes on whatever happens, so that files come to
    an end under every load."""

    def __init__(self, fillers: int) -> None:
        """Takes the number of threads that fill files."""
        self._lock = Lock()
        self._most = fillers
        self._filling = 0
        #: Reads that wait for a part of a file.
        self.waiting = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Counts a read while it waits."""
        with self._lock:
            self.waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self.waiting -= 1

    def begin_filling(self) -> bool:
        """Says whether this thread may fill files now; it says so at the :meth:`end_filling`."""
        with self._lock:
            allowed = self._filling < max(1, self._most - self.waiting)
            self._filling += allowed
            return allowed

    def end_filling(self) -> None:
        with self._lock:
            self._filling -= 1
