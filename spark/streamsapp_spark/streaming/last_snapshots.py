"""Sees to it that a run ends with snapshots of all that is committed.

A process that was killed, in this run or an earlier one, may have committed what no snapshot has: such tasks are opened
once more, and given up with one. Called by ``service`` on the driver, under its lock, when no worker has a task any
more.
"""

from __future__ import annotations

import logging

from streamsapp.clock import Clock
from streamsapp.errors import StreamsAppError, StreamsError
from streamsapp.runtime.micro_batches.batches import MicroBatches
from streamsapp.runtime.micro_batches.model import LaneOrder
from streamsapp.runtime.snapshot_lag import SnapshotLag

log = logging.getLogger(__name__)

#: Times that tasks are opened, or looked for, and the time between two looks when it is not known, in seconds.
_TRIES, _PAUSE = 3, 5.0


class LastSnapshots:
    """The tasks that are behind."""

    def __init__(self, batches: MicroBatches, clock: Clock) -> None:
        self._batches = batches
        self._clock = clock
        self._tries = 0
        self._look_at = clock.monotonic()
        #: To be done in the next batch.
        self.orders: tuple[LaneOrder, ...] = ()

    def are_written(self) -> bool:
        """Return whether all are; else there are orders, or it is asked again. Raises ``StreamsError`` when it was
        tried often enough."""
        if self._clock.monotonic() < self._look_at:
            return False
        behind, why = self._look()
        self.orders = self._batches.planner.last([lag.task.id for lag in behind])
        if not why:
            return True
        if not behind:
            self._look_at = self._clock.monotonic() + _PAUSE
        self._tries += 1
        log.info("remote state does not have all that is committed: %s", why)
        if self._tries > _TRIES:
            raise _unwritten(why)
        return False

    def check(self) -> None:
        """Raise ``StreamsError`` if some are not written, after a query that can write no more."""
        if why := self._look()[1]:
            raise _unwritten(why)

    def _look(self) -> tuple[list[SnapshotLag], str]:
        """The snapshots that are behind, and why remote state may lack something; nothing if it has all."""
        try:
            behind = self._batches.behind()
        except StreamsAppError as error:
            return [], f"it is not known how far snapshots are: {error}"
        return behind, "; ".join(map(str, behind))


def _unwritten(why: str) -> StreamsError:
    return StreamsError(f"remote state does not have all that is committed: {why}; the next run writes what is missing")
