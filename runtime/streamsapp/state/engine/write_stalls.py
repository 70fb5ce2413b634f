"""The times in which RocksDB takes no writes of a task, as its flushes or compactions are behind.

Written on the thread that writes, which waits; read on any thread, by ``/status`` and metrics.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

#: The work that has to end before RocksDB takes writes again.
Cause: TypeAlias = Literal["compaction", "flush"]


class WriteStalls:
    """The stalls since the database was opened."""

    def __init__(self) -> None:
        #: The cause of the stall under way; ``None``: there is none.
        self.waits_for: Cause | None = None
        #: The seconds of the longest stall.
        self.longest = 0.0
        self._lasts = self._before = 0.0

    @property
    def seconds(self) -> float:
        """The seconds of all stalls."""
        return self._before + self._lasts

    def goes_on(self, cause: Cause, lasts: float) -> None:
        """A write has waited for so many seconds, and waits on."""
        self.waits_for = cause
        self._lasts = lasts
        self.longest = max(self.longest, lasts)

    def ended(self) -> None:
        """A write went through, or failed."""
        self.waits_for = None
        self._before, self._lasts = self.seconds, 0.0
