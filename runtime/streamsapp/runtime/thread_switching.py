"""Shortens the time for which a thread may keep the interpreter while others wait for it, where some sub-topologies go
before others.

A thread that works off a backlog gives up the interpreter's lock after 5 ms when another one asks for it. The polling
thread asks many times on the way of one record: behind every request to the system that it makes. With a backlog each
of these costs 5 ms, whatever goes first. Called when an instance starts and ends, on any thread; the process's own
setting comes back with the last instance that has changed it.
"""

from __future__ import annotations

import sys
import threading

#: Seconds.
INTERVAL = 0.0005

_lock = threading.Lock()
_instances = 0
_before = 0.005


def hasten() -> None:
    """An instance with scheduling classes starts."""
    global _instances, _before  # noqa: PLW0603 - the interval is the process's, and so is this count
    with _lock:
        if _instances == 0:
            _before = sys.getswitchinterval()
            sys.setswitchinterval(min(_before, INTERVAL))
        _instances += 1


def restore() -> None:
    """It has ended."""
    global _instances  # noqa: PLW0603
    with _lock:
        _instances -= 1
        if _instances == 0:
            sys.setswitchinterval(_before)
