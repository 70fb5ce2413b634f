"""Python's cyclic garbage collector, with buffered records and stores marked as no cycles.

It starts after every 700 allocations and, ever so often, walks all objects there are: with input buffers and write-back
layers full of records that was 15-30 % of an instance's CPU. Reference counting frees records at once anyway; cycles
come from exceptions and user code only, and are still collected, just not as often.

Called when an instance starts and ends, on any thread; the process's own settings come back with the last instance.
"""

from __future__ import annotations

import gc
import threading

#: Allocations before the youngest generation is looked at, and rounds before the older ones are.
RELAXED = (500_000, 50, 100)

_lock = threading.Lock()
_instances = 0
_before = (0, 0, 0)


def relax() -> None:
    """An instance starts."""
    global _instances, _before  # noqa: PLW0603 - the collector is the process's, and so is this count
    with _lock:
        if _instances == 0:
            _before = gc.get_threshold()
            gc.set_threshold(*RELAXED)
        _instances += 1


def restore() -> None:
    """An instance has ended."""
    global _instances  # noqa: PLW0603
    with _lock:
        _instances -= 1
        if _instances == 0:
            gc.set_threshold(*_before)
