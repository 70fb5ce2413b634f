"""Divides the tasks among as many lanes as there are cores, also when there are more of them later.

Called by ``service`` on the driver, under its lock, between batches.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from streamsapp.clock import Clock
from streamsapp.errors import StreamsError
from streamsapp.runtime.micro_batches.lanes import DriverClaim
from streamsapp.runtime.micro_batches.model import LaneOrder
from streamsapp.runtime.micro_batches.planning import MicroBatchPlanner

log = logging.getLogger(__name__)

#: The time for which there have to be more cores than lanes until tasks are divided into more: all of them are restored
#: then. Seconds.
_GROWN_FOR = 30.0


class LaneDivision:
    """The cores that there are, and the division of tasks that fits them."""

    def __init__(self, planner: MicroBatchPlanner, claim: DriverClaim, clock: Clock, cores: int) -> None:
        self._planner = planner
        self._claim = claim
        self._clock = clock
        self.cores = cores
        #: Since when there are so many.
        self._since = clock.monotonic()
        #: All lanes are to be given up.
        self._begun = False
        #: Tasks are divided anew, and lanes of the division before are not fenced yet.
        self.unfenced = False

    def has_cores(self, cores: int) -> None:
        """There are so many now."""
        if max(1, cores) != self.cores:
            self.cores, self._since = max(1, cores), self._clock.monotonic()

    def orders(self, lanes: Collection[int]) -> tuple[LaneOrder, ...] | None:
        """The next step, while workers have ``lanes``: orders to give them up, or none while others are not fenced.
        ``None`` if the division is as it is to be."""
        planner = self._planner
        if not (self._begun or self.unfenced or self._is_due()):
            return None
        if lanes:
            self._begun = True
            return planner.given_up(lanes)
        if not self.unfenced:
            log.info("there are %d cores, and tasks in %d lanes: they are divided again", self.cores, planner.lanes)
            planner.divide(max(planner.lanes, min(self.cores, planner.tasks)))
            self._begun, self.unfenced = False, True
        try:
            # A process may be left with a lane of the division before: none of this one is opened until it is fenced.
            self._claim.fence_lanes()
        except StreamsError as error:
            log.warning("%s; trying again", error)
            return ()
        self.unfenced = False
        return None

    def _is_due(self) -> bool:
        grown = min(self.cores, self._planner.tasks) > self._planner.lanes
        return grown and self._clock.monotonic() - self._since >= _GROWN_FOR
