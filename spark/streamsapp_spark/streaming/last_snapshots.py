"""Sees to it that a run ends with snapshots of all that is committed.

A process that was killed, in this run or an earlier one, may have committed what no snapshot has: such tasks are opened
once more, and given up with one. Called by ``service`` on the driver, under its lock, when no worker has a task any
more.
"""

from __future__ import annotations

import logging

from streamsapp.errors import StreamsAppError, StreamsError
from streamsapp.runtime.batches.batches import Batches
from streamsapp.runtime.batches.model import LaneOrder

log = logging.getLogger(__name__)

#: Times that tasks are opened, or looked for.
_TRIES = 3


class LastSnapshots:
    """The tasks that are behind."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._tries = 0
        #: To be done in the next batch.
        self.orders: tuple[LaneOrder, ...] = ()

    def are_written(self) -> bool:
        """Return whether all are; else there are orders. Raises ``StreamsError`` when it was tried often enough."""
        try:
            behind = self._batches.behind()
        except StreamsAppError as error:
            self._tell(f"it is not known how far snapshots are: {error}")
            return False
        if behind:
            self._tell("; ".join(map(str, behind)))
        self.orders = self._batches.planner.last([lag.task.id for lag in behind])
        return not behind

    def _tell(self, why: str) -> None:
        self._tries += 1
        log.info("remote state does not have all that is committed: %s", why)
        if self._tries > _TRIES:
            raise StreamsError(
                f"remote state does not have all that is committed: {why}; the next run writes what is missing"
            )
