"""Reports to the user's listeners how restoring and updating go: restore listeners of active tasks, standby listeners
of replicas (KIP-167, KIP-988).

Called on the restoration thread. The listeners are looked up at each event: the user may set them later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from streamsapp.kafka.consumer import PartitionConsumer
from streamsapp.runtime.changelog_reader import ChangelogReader
from streamsapp.runtime.listeners import StandbyUpdateListener, StateRestoreListener, SuspendReason

log = logging.getLogger(__name__)


class RestoreEvents:
    """Knows which listener hears of what."""

    def __init__(
        self,
        consumer: PartitionConsumer,
        restore_listener: Callable[[], StateRestoreListener | None],
        standby_listener: Callable[[], StandbyUpdateListener | None],
    ) -> None:
        self._consumer = consumer
        self._restore_listener = restore_listener
        self._standby_listener = standby_listener

    def started(self, reader: ChangelogReader) -> None:
        """Reading begins."""
        if reader.end is None:
            if (standby := self._standby_listener()) is not None:
                standby.on_update_start(reader.partition, reader.store, reader.position)
        elif (restore := self._restore_listener()) is not None:
            restore.on_restore_start(reader.partition, reader.store, reader.position, reader.end)

    def applied(self, reader: ChangelogReader, last_offset: int, count: int) -> None:
        """A batch was applied."""
        if reader.follows:
            if (standby := self._standby_listener()) is not None:
                end = self._end(reader)
                standby.on_batch_loaded(reader.partition, reader.store, reader.task.id, last_offset, count, end)
        elif (restore := self._restore_listener()) is not None:
            restore.on_batch_restored(reader.partition, reader.store, last_offset, count)

    def ended(self, reader: ChangelogReader) -> None:
        """An active task's store is complete."""
        if (restore := self._restore_listener()) is not None:
            restore.on_restore_end(reader.partition, reader.store, reader.applied)

    def suspended(self, reader: ChangelogReader, reason: SuspendReason) -> None:
        """Reading ends before the end; what a listener raises here cannot undo that, so it is logged."""
        try:
            if reader.follows:
                if (standby := self._standby_listener()) is not None:
                    end = self._end(reader)
                    standby.on_update_suspended(reader.partition, reader.store, reader.position, end, reason)
            elif (restore := self._restore_listener()) is not None:
                restore.on_restore_suspended(reader.partition, reader.store, reader.applied)
        except Exception:
            log.exception("a listener raised when it heard that store %s is suspended; going on", reader.store)

    def _end(self, reader: ChangelogReader) -> int:
        """The newest end that is known without asking the broker."""
        observed = -1 if reader.observed is None else reader.observed.end_offset
        watermarks = self._consumer.watermarks(reader.partition, cached=True)
        return max(reader.position, observed, -1 if watermarks is None else watermarks[1])
