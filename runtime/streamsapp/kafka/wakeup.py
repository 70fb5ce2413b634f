"""Ends the wait of one thread: any other thread can, and so does a descriptor that is watched, as a socket.

Made with an instance, for its polling thread, which waits in the main consumer's ``poll``. Threads that have something
for it notify. A notification that no thread waits for is kept: the next wait returns at once.
"""

from __future__ import annotations

import math
import os
import select
import weakref
from contextlib import suppress

_PAYLOAD = b"\0"
_MOST_BYTES = 4096


class Wakeup:
    """A pipe that is readable when the waiting thread has something to do."""

    def __init__(self) -> None:
        self._reader, self._writer = _pipe()
        # Not at the end of the process: threads that were left behind may still notify.
        weakref.finalize(self, _close, self._reader, self._writer).atexit = False
        self._notifications, self._either = select.poll(), select.poll()
        self._notifications.register(self._reader, select.POLLIN)
        self._either.register(self._reader, select.POLLIN)
        self._notified = False

    def notify(self) -> None:
        """End the wait, or the next one. Any thread; publish first what the woken thread shall see."""
        if not self._notified:
            self._notified = True
            with suppress(BlockingIOError):  # full, so it is readable
                os.write(self._writer, _PAYLOAD)

    def watch(self, descriptor: int) -> None:
        """Have ``wait`` end while the descriptor is readable, which is no notification. For the thread that waits."""
        self._either.register(descriptor, select.POLLIN)

    def unwatch(self, descriptor: int) -> None:
        """Before the descriptor is closed."""
        self._either.unregister(descriptor)

    def wait(self, timeout: float) -> bool:
        """Return when something was notified since the last wait, or after ``timeout`` seconds, and say which. The
        caller looks at everything afterwards: notifications are forgotten here, and only here."""
        return self._wait(self._either, timeout)

    def wait_without_records(self, timeout: float) -> bool:
        """As ``wait``, but records do not end it: they end the next ``wait``."""
        return self._wait(self._notifications, timeout)

    def _wait(self, of: select.poll, timeout: float) -> bool:
        notified = False
        for reader, _ in of.poll(math.ceil(1000 * timeout)):  # less than a millisecond would be no wait
            if reader == self._reader:
                os.read(reader, _MOST_BYTES)
                notified, self._notified = True, False
        return notified


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    return reader, writer


def _close(*ends: int) -> None:
    for end in ends:
        os.close(end)
