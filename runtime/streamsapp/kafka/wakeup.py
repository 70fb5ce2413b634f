"""Ends the wait of one thread: any other thread can, and so does a consumer's librdkafka when records arrive.

Made with an instance, for its polling thread, which waits in the main consumer's ``poll``. Threads that have something
for it notify. A notification that nobody waits for is kept: the next wait returns at once.
"""

from __future__ import annotations

import math
import os
import select
import weakref
from contextlib import suppress
from ctypes import c_char_p, c_int, c_size_t, c_void_p

from confluent_kafka import Consumer

from streamsapp.kafka.librdkafka_handle import handle_of, librdkafka

_PAYLOAD = b"\0"
_MOST_BYTES = 4096


class Wakeup:
    """Two pipes, of which one is readable when the waiting thread has something to do: that of records, and that of all
    else."""

    def __init__(self) -> None:
        self._reader, self._writer = _pipe()
        self._records_reader, self._records_writer = _pipe()
        # Not at the end of the process: threads that were left behind may still notify.
        ends = (self._reader, self._writer, self._records_reader, self._records_writer)
        weakref.finalize(self, _close, *ends).atexit = False
        self._notifications, self._either = select.poll(), select.poll()
        self._notifications.register(self._reader, select.POLLIN)
        for reader in (self._reader, self._records_reader):
            self._either.register(reader, select.POLLIN)
        self._notified = False

    def notify(self) -> None:
        """End the wait, or the next one. Any thread; publish first what the woken thread shall see."""
        if not self._notified:
            self._notified = True
            with suppress(BlockingIOError):  # full, so it is readable
                os.write(self._writer, _PAYLOAD)

    def notify_of_records(self, consumer: Consumer) -> int:
        """Have librdkafka end the wait whenever the consumer's queue is no longer empty.

        Returns the descriptor that librdkafka's threads write to. It is the caller's, to be closed when the consumer is
        closed and not before: they would write to whatever file or socket got its number.
        """
        writer = os.dup(self._records_writer)
        queue = _library.rd_kafka_queue_get_consumer(handle_of(consumer))
        _library.rd_kafka_queue_io_event_enable(queue, writer, _PAYLOAD, len(_PAYLOAD))
        _library.rd_kafka_queue_destroy(queue)
        return writer

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
            if reader in (self._reader, self._records_reader):
                os.read(reader, _MOST_BYTES)
                notified = True
            if reader == self._reader:
                self._notified = False
        return notified


def _pipe() -> tuple[int, int]:
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    return reader, writer


def _close(*ends: int) -> None:
    for end in ends:
        os.close(end)


_library = librdkafka(
    {
        "rd_kafka_queue_get_consumer": (c_void_p, [c_void_p]),
        "rd_kafka_queue_io_event_enable": (None, [c_void_p, c_int, c_char_p, c_size_t]),
        "rd_kafka_queue_destroy": (None, [c_void_p]),
    }
)
