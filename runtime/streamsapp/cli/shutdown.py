"""Ends an instance on SIGTERM, SIGINT and SIGHUP: the first signal closes it in good order, the second does not wait.

SIGHUP comes when the terminal is closed.

A signal that comes while the main thread is about to wait for a lock interrupts nothing: Python runs its handler when
the main thread wakes, which may be never. So a thread learns of signals from Python's wake-up file, which is written to
at once; handlers, which run on the main thread, do only what must happen there.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from streamsapp.errors import ImmediateExit

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

#: A program that signals a process and its whole group (``timeout``, a terminal) sends one signal twice; seconds.
_ONE_PRESS = 0.3
#: The interval in seconds at which the main thread is interrupted until it leaves.
_INSIST = 0.1
#: The time in seconds that leaving may take. A call may wait for another process for ever, or an interrupt may come
#: where Python drops it: either would hold up a process that was asked to end.
_WAY_OUT = 3.0
#: And the time for the log to take the message that it did not end.
_LAST_WORD = 1.0


@contextmanager
def closing_on_signals(
    close: Callable[[], object], one_press: float = _ONE_PRESS, within: float | None = None
) -> Iterator[None]:
    """While the body runs, a first signal calls ``close`` on a thread of its own and a second leaves at once.

    If anything holds closing up, it is left ``within`` seconds after the first, as by a second signal: by
    ``ImmediateExit``, and if that does not leave the body either, the process is ended. A signal within ``one_press``
    seconds of the first is the same wish. On the main thread only.
    """
    heard, said = socket.socketpair()
    said.setblocking(False)
    signals = _Signals(close, one_press, within, heard)
    outlives_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # started by nohup
    wanted = [number for number in _SIGNALS if not (number is signal.SIGHUP and outlives_terminal)]
    handlers = {number: signal.signal(number, signals.interrupt) for number in wanted}
    wakeup = signal.set_wakeup_fd(said.fileno(), warn_on_full_buffer=False)
    try:
        signals.thread.start()
        yield
        if signals.closing.ident is not None:
            signals.closing.join()
    finally:
        signals.over.set()
        signals.left.set()
        signal.set_wakeup_fd(wakeup)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        said.close()
        signals.thread.join()


class _Signals:
    """The signals that came so far."""

    def __init__(
        self, close: Callable[[], object], one_press: float, within: float | None, heard: socket.socket
    ) -> None:
        self._one_press = one_press
        self._within = within
        self._heard = heard
        self._impatient = False
        self._began = 0.0
        self.closing = threading.Thread(target=close, name="shutdown", daemon=True)
        self.thread = threading.Thread(target=self._listen, name="signals", daemon=True)
        #: The main thread leaves.
        self.over = threading.Event()
        #: It has left.
        self.left = threading.Event()

    def interrupt(self, number: int, frame: FrameType | None) -> None:
        """Interrupts the main thread, some time after each signal."""
        if self._impatient and not self.over.is_set():
            self.over.set()
            raise ImmediateExit

    def _listen(self) -> None:
        with self._heard:
            while number := self._heard.recv(1):
                self._take(signal.Signals(number[0]))

    def _take(self, number: signal.Signals) -> None:
        if number not in _SIGNALS or self._impatient:
            return  # from another sender, or our own insisting
        if self.closing.ident is None:
            log.info("%s: committing and closing; once more to leave at once", number.name)
            self._began = time.monotonic()
            self.closing.start()
            if self._within is not None:
                threading.Thread(target=self._expire, args=(number,), name="deadline", daemon=True).start()
        elif time.monotonic() - self._began >= self._one_press:
            log.warning("%s again: leaving without the last commit", number.name)
            self._impatient = True
            threading.Thread(target=self._insist, args=(number,), name="insist", daemon=True).start()

    def _expire(self, number: signal.Signals) -> None:
        """Expires the one deadline for everything that closing waits for: group, producer, transaction, snapshots,
        threads."""
        if not self.over.wait(self._within) and not self._impatient:
            log.warning("closing did not end within %.0f s: leaving; what is not committed is done again", self._within)
            self._impatient = True
            self._insist(number)

    def _insist(self, number: signal.Signals) -> None:
        """Repeats the interrupt until the main thread has taken note, and ends the process if it does not leave."""
        until = time.monotonic() + _WAY_OUT
        while time.monotonic() < until:
            if not self.over.is_set():
                signal.pthread_kill(threading.main_thread().ident or 0, number)
            if self.left.wait(_INSIST):
                return
        # The main thread may hold the log's lock for ever, where no program reads what it writes.
        last = threading.Thread(target=_say_last, daemon=True)
        last.start()
        last.join(_LAST_WORD)
        os._exit(1)


def _say_last() -> None:
    log.warning("leaving did not end within %.0f s: the process ends here", _WAY_OUT)
    logging.shutdown()
