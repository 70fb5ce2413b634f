"""Settings of the interpreter that are the whole process's: instances change them while they run, and the process's own
come back with the last instance that has changed one.

**Garbage.** Python's cyclic collector starts after every 700 allocations and, ever so often, walks all objects there
are: with input buffers and write-back layers full of records that was 15-30 % of an instance's CPU. Reference
counting frees records at once anyway; cycles come from exceptions and user code only, and are still collected, less
often.

**Switching.** A thread that works off a backlog gives up the interpreter's lock after 5 ms when another one asks for
it. The polling thread asks many times on the way of one record: behind every request to the system that it makes. With
a backlog each of these costs 5 ms, also for the sub-topologies that go before others.

Called when an instance starts and ends, on any thread.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: Allocations before the youngest generation is looked at, and rounds before the older ones are.
RELAXED = (500_000, 50, 100)
#: For so many seconds a thread may keep the interpreter at most while others wait for it.
SWITCH_INTERVAL = 0.0005


class ProcessSetting(Generic[T]):
    """One setting, and how many instances have changed it."""

    def __init__(self, get: Callable[[], T], put: Callable[[T], object], changed: Callable[[T], T]) -> None:
        """``changed`` returns the setting for instances, of the process's own."""
        self._get = get
        self._put = put
        self._changed = changed
        self._lock = threading.Lock()
        self._instances = 0
        self._before: T = get()

    def change(self) -> None:
        """An instance starts."""
        with self._lock:
            if self._instances == 0:
                self._before = self._get()
                self._put(self._changed(self._before))
            self._instances += 1

    def restore(self) -> None:
        """An instance has ended that changed it."""
        with self._lock:
            self._instances -= 1
            if self._instances == 0:
                self._put(self._before)


CYCLIC_GC = ProcessSetting(gc.get_threshold, lambda threshold: gc.set_threshold(*threshold), lambda before: RELAXED)
#: For instances whose sub-topologies have classes.
SWITCHING = ProcessSetting(sys.getswitchinterval, sys.setswitchinterval, lambda before: min(before, SWITCH_INTERVAL))
