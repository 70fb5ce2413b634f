"""Ends an instance on SIGTERM and SIGINT: the first signal closes it in good order, the second does not wait.

Handlers run on the main thread, between two instructions of whatever it does; so they only start a thread.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

#: Whoever signals a process and its whole group (``timeout``, a terminal) sends one signal twice; seconds.
_ONE_PRESS = 0.3


class Impatient(BaseException):
    """A second signal came: leave now. Not an ``Exception``, so that nothing on the way handles it."""


@contextmanager
def closing_on_signals(close: Callable[[], object], one_press: float = _ONE_PRESS) -> Iterator[None]:
    """While the body runs, a first signal calls ``close`` on a thread of its own and a second leaves at once.

    What comes within ``one_press`` seconds of the first is the same wish.
    """
    closing = threading.Thread(target=close, name="shutdown", daemon=True)
    began = 0.0

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal began
        name = signal.Signals(number).name
        if closing.ident is not None and time.monotonic() - began < one_press:
            return
        if closing.ident is not None:
            log.warning("%s again: leaving without the last commit", name)
            raise Impatient
        log.info("%s: committing and closing; once more to leave at once", name)
        began = time.monotonic()
        closing.start()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
        if closing.ident is not None:
            closing.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
