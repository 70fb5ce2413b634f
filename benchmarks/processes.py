"""Wall and CPU time of something done by many processes, Spark's and their children among them.

Called by ``bootstrap.py`` on its main thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.family import CpuTime, adopt_orphans, members, process_rss_mb
from benchmarks.measure import machine_cpu_seconds

_EVERY = 0.2
_CORES = os.cpu_count() or 1


class Taken(NamedTuple):
    """The resources that a run took. ``rss_mb`` is the most that all processes had together; ``other_load`` the share
    of all cores that others took."""

    seconds: float
    cpu_seconds: float
    rss_mb: float
    other_load: float


def timed(action: Callable[[], object]) -> Taken:
    """Do it, and say what the processes took that it started; this one, and the processes that it had before, do not
    count."""
    adopt_orphans()
    before, over = members(os.getpid()), threading.Event()
    taken, peak = CpuTime(os.getpid(), without=before), 0.0

    def watch() -> None:
        nonlocal peak
        while not over.wait(_EVERY):
            taken.seconds()  # so that it has seen processes that end unnoticed
            peak = max(peak, sum(map(process_rss_mb, set(members(os.getpid())) - set(before))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, busy, waited = time.monotonic(), machine_cpu_seconds(), _waited_for()
    try:
        action()
        seconds, busy = time.monotonic() - began, machine_cpu_seconds() - busy
    finally:
        over.set()
        watcher.join()
    own = max(0.01, taken.seconds() + _waited_for() - waited)
    return Taken(seconds, own, peak, max(0.0, busy - own) / (seconds * _CORES))


def _waited_for() -> float:
    """CPU time of the processes that this one has waited for."""
    own = os.times()
    return own.children_user + own.children_system
