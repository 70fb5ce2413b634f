"""Ends an instance on SIGTERM and SIGINT: the first signal closes it in good order, the second does not wait.

Handlers run on the main thread, between two instructions of whatever it does; so they only start a thread.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Impatient(BaseException):
    """A second signal came: leave now. Not an ``Exception``, so that nothing on the way handles it."""


@contextmanager
def closing_on_signals(close: Callable[[], object]) -> Iterator[None]:
    """While the body runs, a first signal calls ``close`` on a thread of its own and a second leaves at once."""
    closing = threading.Thread(target=close, name="shutdown", daemon=True)

    def on_signal(number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if closing.ident is not None:
            log.warning("%s again: leaving without the last commit", name)
            raise Impatient
        log.info("%s: committing and closing; once more to leave at once", name)
        closing.start()

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
        if closing.ident is not None:
            closing.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
