"""The memory of a program while it runs, and how it grows.

Called by ``paced.py``, on its thread; samples are taken on a thread of their own.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from dataclasses import dataclass

from benchmarks import family

#: The fewest samples through which a line is drawn.
_FEWEST = 10


@dataclass(frozen=True)
class Memory:
    """The memory of a process: in the end, and its growth in MB an hour with the standard error of that."""

    mb: float
    slope: float
    error: float


class MemoryWatch:
    """Takes samples of a program's memory on a thread of its own."""

    def __init__(self, program: int, every: float) -> None:
        self._program, self._every = program, every
        self._over = threading.Event()
        self.samples = list[tuple[float, float]]()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(self._every):
            self.samples.append((time.monotonic() / 3600, family.rss_mb(self._program)))

    def end(self) -> Memory:
        """Stop, and return what was found."""
        self._over.set()
        self._thread.join()
        return fitted([*self.samples, (time.monotonic() / 3600, family.rss_mb(self._program))])


def fitted(samples: list[tuple[float, float]]) -> Memory:
    """The last value, and the slope of the line of least squares through samples ``(hour, MB)`` with its error."""
    if len(samples) < _FEWEST:
        return Memory(samples[-1][1], math.nan, math.nan)
    hours, sizes = zip(*samples, strict=True)
    slope, intercept = statistics.linear_regression(hours, sizes)
    rest = sum((size - intercept - slope * hour) ** 2 for hour, size in samples)
    spread = sum((hour - statistics.fmean(hours)) ** 2 for hour in hours)
    return Memory(sizes[-1], slope, math.sqrt(rest / (len(samples) - 2) / spread))
