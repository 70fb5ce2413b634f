"""The progress of a producer's records: written on the thread of its connection, read on the producer's own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition

from confluent_kafka import KafkaError

from streamsapp.kafka.producing.wire import Name
from streamsapp.record import RawRecord

#: Why a record could not be written, and the record: without a topic where no record is at fault.
Failure = tuple[KafkaError, RawRecord]


class Progress:
    """The records' progress. Written on the connection's thread, read on the producer's."""

    def __init__(self, changed: Condition | None = None) -> None:
        """Tests give the way to wait."""
        #: Bytes that were taken out of the outbox and not acknowledged.
        self.on_the_way = 0
        #: Records that are acknowledged, or refused.
        self.finished = 0
        self.failures: list[Failure] = []
        #: How many failures there were, also if they were taken.
        self.failed = 0
        #: The offset after the last record that is acknowledged, of partitions where it was reported.
        self.ends: dict[Name, int] = {}
        self._changed = changed or Condition()
        #: The condition that the producer's thread waits for, if it has named one.
        self._awaited: Callable[[], bool] | None = None

    def fail(self, error: KafkaError, record: RawRecord) -> None:
        """A record could not be written; or no record can, if it has no topic."""
        self.failed += 1
        self.failures.append((error, record))

    def wrote(self, name: Name, offset: int, count: int) -> None:
        """So many records were written, the first of them at this offset; -1 if that is not known."""
        if offset < 0:
            self.ends.pop(name, None)
        else:
            self.ends[name] = offset + count

    def tell(self) -> None:
        """Something has changed. A thread that waits for something else sleeps on: waking it costs more than this."""
        with self._changed:
            if self._awaited is None or self._awaited():
                self._changed.notify_all()

    def wait(self, timeout: float) -> None:
        """Return when something changes, or after so many seconds."""
        with self._changed:
            self._changed.wait(timeout)

    def wait_for(self, holds: Callable[[], bool], timeout: float) -> None:
        """Return when it holds, or after so many seconds. It is asked on the connection's thread, too."""
        with self._changed:
            self._awaited = holds
            try:
                self._changed.wait_for(holds, timeout)
            finally:
                self._awaited = None
