"""Memory that was used once, given back to the system.

Called by the server on the threads of its connections, after an answer that took much. A page is made of many small
objects and a few large ones, in the arena of its thread; glibc keeps what is freed there, for each of them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable


def _trimmer() -> Callable[[int], object]:
    """``malloc_trim`` where the C library has it."""
    if sys.platform == "linux":
        found = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if found is not None:
            trim: Callable[[int], object] = found
            return trim
    return lambda _: None


_trim = _trimmer()


def give_back_memory() -> None:
    """Let the C library return memory that it holds unused; other threads run meanwhile."""
    _trim(0)
