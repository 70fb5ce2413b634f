"""Wall and CPU time of something done by many processes, Spark's and their children among them.

Called by ``bootstrap.py`` and ``spark_batches.py``. Whatever is started carries a mark in its environment, wherever it
belongs later: Spark's Python workers leave the family of who started them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_EVERY = 0.2
_CORES = os.cpu_count() or 1
_TICKS = os.sysconf("SC_CLK_TCK")
_NAME = "STREAMSAPP_BENCH"
_MARK = f"{_NAME}={os.getpid()}".encode()
os.environ[_NAME] = str(os.getpid())


class Taken(NamedTuple):
    """The resources that a run took. ``rss_mb`` is the most that all processes had together; ``other_load`` the share
    of all cores that others took."""

    seconds: float
    cpu_seconds: float
    rss_mb: float
    other_load: float


def timed(action: Callable[[], object]) -> Taken:
    """Do it, and say what it took."""
    before, cpu, over = set(marked()), dict[int, float](), threading.Event()
    peak = 0.0

    def watch() -> None:
        nonlocal peak
        while not over.wait(_EVERY):
            found = {pid: each for pid, each in marked().items() if pid not in before}
            cpu.update((pid, seconds) for pid, (seconds, _) in found.items())
            peak = max(peak, sum(rss for _, rss in found.values()))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, busy = time.monotonic(), _busy_seconds()
    try:
        action()
        seconds, busy = time.monotonic() - began, _busy_seconds() - busy
    finally:
        over.set()
        watcher.join()
    own = max(0.01, sum(cpu.values()))
    return Taken(seconds, own, peak, max(0.0, busy - own) / (seconds * _CORES))


def marked() -> dict[int, tuple[float, float]]:
    """CPU seconds and resident megabytes of every process with the mark."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if path.name != str(os.getpid()) and _MARK in (path / "environ").read_bytes().split(b"\0"):
                user, system = (path / "stat").read_text().rpartition(")")[2].split()[11:13]
                pages = int((path / "statm").read_text().split()[1])
                found[int(path.name)] = ((int(user) + int(system)) / _TICKS, pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        except OSError:
            continue  # it has ended, or is somebody else's
    return found


def _busy_seconds() -> float:
    ticks = [int(field) for field in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / _TICKS
