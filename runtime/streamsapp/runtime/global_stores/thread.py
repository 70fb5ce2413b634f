"""The global thread: keeps this instance's copies of global stores complete (as Kafka Streams' GlobalStreamThread).

Started with the instance; :meth:`GlobalThread.begin` reports that a broker answers, and no task starts before
:attr:`GlobalThread.restored` is set. It has a consumer of its own, outside any group, and reads all partitions of all
global topics:

    1. restore: every partition up to the end that it had when this began, from where the stores on disk stand
    2. update, for as long as the instance runs: each batch goes through the processors into the stores

A failure that it cannot go on after ends it, and by the failures queue the instance: no other thread can take its
place. The stores stay readable until :meth:`GlobalThread.stop`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from queue import SimpleQueue
from typing import NoReturn

from streamsapp.clock import Clock
from streamsapp.errors import StateStoreError, TaskCorruptedError, TopicError
from streamsapp.kafka.fetching.fetched import Fetched
from streamsapp.record import TopicPartition
from streamsapp.runtime.global_stores.reading import GlobalReading
from streamsapp.runtime.global_stores.task import GlobalTask
from streamsapp.runtime.listeners import StateRestoreListener
from streamsapp.runtime.thread_failure import ThreadFailure
from streamsapp.state.kinds.key_value import KeyValueStoreImpl
from streamsapp.state.layers.views import StoreView
from streamsapp.topology.nodes import GlobalStore

log = logging.getLogger(__name__)

#: How often the stores are restored from the beginning before that is given up.
ATTEMPTS = 3
#: Records that a crash may cost to read again, as in Kafka Streams.
UNFLUSHED = 10_000


class FlushSchedule:
    """Decides when the stores' entries in memory go to disk."""

    def __init__(self, interval: float, clock: Clock) -> None:
        """``interval``: seconds between two flushes, at least."""
        self._interval = interval
        self._clock = clock
        self._unflushed = 0
        self._next = 0.0

    def written(self, count: int) -> None:
        """So many more records were processed."""
        self._unflushed += count

    def take_due(self) -> bool:
        """Return whether to flush now; if so, counting begins anew."""
        now = self._clock.monotonic()
        if self._unflushed < UNFLUSHED or now < self._next:
            return False
        self._next = now + self._interval
        self._unflushed = 0
        return True


class GlobalThread(threading.Thread):
    """Restores and updates the global stores of one instance."""

    def __init__(
        self,
        name: str,
        task: GlobalTask,
        reading: GlobalReading,
        flushes: FlushSchedule,
        failures: SimpleQueue[ThreadFailure],
        listener: Callable[[], StateRestoreListener | None],
    ) -> None:
        """``listener`` gives the one that is set now."""
        super().__init__(name=name, daemon=True)
        self._task = task
        self.reading = reading
        self._flushes = flushes
        self._failures = failures
        self._listener = listener
        self._begun = threading.Event()
        self._stopping = threading.Event()
        #: Set when all stores are complete: tasks may start.
        self.restored = threading.Event()
        #: Partitions that are being restored, and the offset at which each is complete.
        self._waiting: dict[TopicPartition, int] = {}

    # ---- other threads -----------------------------------------------------------------------------------------

    @property
    def stores(self) -> Mapping[str, KeyValueStoreImpl]:
        """The stores by name, read-only, for tasks; complete once ``restored`` is set."""
        return self._task.stores.for_tasks

    @property
    def definitions(self) -> Iterable[GlobalStore]:
        """The stores as the topology has them, with their topics."""
        return self._task.by_topic.values()

    @property
    def views(self) -> Mapping[str, StoreView]:
        """The stores as interactive queries see them."""
        return self._task.stores.views

    def statistics(self) -> dict[str, dict[str, int]]:
        """Figures per store."""
        return self._task.stores.statistics()

    def begin(self) -> None:
        """Restore, then go on updating."""
        self._begun.set()

    def stop(self) -> None:
        """End after the batch under way; no thread reads the stores any more."""
        self._stopping.set()
        self._begun.set()

    def is_stopping(self) -> bool:
        """Says whether the thread is to end."""
        return self._stopping.is_set()

    # ---- global thread -----------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            self._begun.wait()
            if not self._stopping.is_set():
                self._restore()
            while not self._stopping.is_set():
                self._update()
        except BaseException as error:
            self._failures.put(ThreadFailure(self.name, error))
            self._stopping.wait()
        finally:
            self._close()

    def _close(self) -> None:
        try:
            self._task.close()
        except Exception:
            log.exception("closing the global stores failed; they are read from the last flushed place next time")
        self.reading.close()

    # ---- restoring ---------------------------------------------------------------------------------------------

    def _restore(self) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._restore_once()
                return
            except TaskCorruptedError as error:
                if attempt == ATTEMPTS:
                    raise
                log.warning("%s; the global stores are wiped and restored from the beginning", error)
                self.reading.unassign(self._waiting)
                self._waiting.clear()
                self._task.wipe()

    def _restore_once(self) -> None:
        self._task.open()
        self.reading.locate()
        self._waiting = {partition: it.observed.end_offset for partition, it in self.reading.partitions.items()}
        if (listener := self._listener()) is not None:
            for partition, it in self.reading.partitions.items():
                listener.on_restore_start(partition, it.store, it.position, self._waiting[partition])
        self.reading.assign(self._waiting)
        self._take_complete()
        while self._waiting and not self._stopping.is_set():
            self._restore_batches(self.reading.fetch())
            self._take_complete()
        if not self._waiting:
            self._task.stores.flush()
            self._task.start()
            self.reading.assign(self.reading.partitions)
            self.restored.set()

    def _restore_batches(self, fetched: Fetched) -> None:
        for partition, records in fetched.records:
            it = self.reading.partitions[partition]
            count = self._task.restore(partition, records)
            it.position = records[-1].offset() + 1
            it.restored += count
            if (listener := self._listener()) is not None:
                listener.on_batch_restored(partition, it.store, it.position - 1, count)
        self.reading.note_ends(fetched)
        if (truncated := self.reading.truncated(fetched)) is not None:
            raise TaskCorruptedError(truncated)

    def _take_complete(self) -> None:
        """Complete partitions wait for the others: records after their ends are for the processors."""
        complete = [each for each, end in self._waiting.items() if self.reading.partitions[each].position >= end]
        self.reading.unassign(complete)
        for partition in complete:
            it = self.reading.partitions[partition]
            # It has all that the partition had when that was observed: queries must not wait for the next look.
            it.observed = replace(it.observed, position=self._waiting.pop(partition))
            if (listener := self._listener()) is not None:
                listener.on_restore_end(partition, it.store, it.restored)

    # ---- updating ----------------------------------------------------------------------------------------------

    def _update(self) -> None:
        try:
            fetched = self.reading.fetch()
        except TopicError:
            # A topic that comes back under this name is another one.
            self._task.stores.forget_positions()
            raise
        if (outdated := self.reading.outdated(fetched)) is not None:
            self._begin_anew_after_restart(outdated)
        for partition, records in fetched.records:
            self._task.update(partition, records)
            self.reading.partitions[partition].position = records[-1].offset() + 1
            self._flushes.written(len(records))
        self.reading.note_ends(fetched)
        if (truncated := self.reading.truncated(fetched)) is not None:
            self._begin_anew_after_restart(truncated)
        if self._flushes.take_due():
            self._task.stores.flush()
        self.reading.observe_lag()

    def _begin_anew_after_restart(self, why: str) -> NoReturn:
        self._task.stores.forget_positions()
        raise StateStoreError(f"{why}; restart, then the global stores are restored from the beginning")
