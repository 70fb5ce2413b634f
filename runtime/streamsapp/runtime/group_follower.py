"""The instance's view of its group: the assignment it follows, and the answers it owes.

Called on the polling thread. The group is joined when the global stores are complete, because tasks read them from
their first record on:

    OUT ──join──► RESTORING_GLOBAL_STORES ──restored──► JOINED          without global stores: OUT ──join──► JOINED
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from streamsapp.clock import Clock
from streamsapp.config.streams_config import StreamsConfig
from streamsapp.kafka.sending import AbortableError
from streamsapp.membership.api import Assignment, Holdings, Membership, TaskCatalogue
from streamsapp.record import TaskId
from streamsapp.runtime.application_layout import ApplicationLayout
from streamsapp.runtime.global_stores.thread import GlobalThread
from streamsapp.runtime.hand_overs import HandOvers
from streamsapp.runtime.readiness import Readiness
from streamsapp.runtime.warmups import Warmups
from streamsapp.tasks.stream_task import StreamTask


class FollowingPhase(enum.Enum):
    """The steps of an instance on its way into the group."""

    OUT = "out"
    RESTORING_GLOBAL_STORES = "restoring global stores"
    JOINED = "joined"


class GroupFollower:
    """The instance's assignment, and its right to write."""

    def __init__(
        self,
        membership: Membership,
        global_thread: GlobalThread | None,
        config: StreamsConfig,
        clock: Clock,
        lag: Callable[[StreamTask], int | None],
    ) -> None:
        self.membership = membership
        self._global = global_thread
        self._exactly_once = config.exactly_once
        self._clock = clock
        self._phase = FollowingPhase.OUT
        self._join: Callable[[], None] = lambda: None
        #: The last assignment; ``None`` before the first, and while the group goes on without this instance.
        self.assignment: Assignment | None = None
        self.hand_overs = HandOvers(clock, exactly_once=config.exactly_once)
        self.readiness = Readiness(lag, config.acceptable_recovery_lag, clock)
        self._warmups = Warmups(lag, config.acceptable_recovery_lag, clock)
        self._draining = False
        #: True if this instance was surely a member when that was looked at last.
        self.safe = False

    # ---- joining -----------------------------------------------------------------------------------------------

    def join(self, catalogue: TaskCatalogue, holdings: Callable[[int], Holdings]) -> None:
        """Join, or have the global stores restored first. ``holdings`` is given the generation of the assignment, on
        the membership's thread."""

        def held() -> Holdings:
            return holdings(-1 if self.assignment is None else self.assignment.generation)

        self._join = lambda: self.membership.start(catalogue, held)
        if self._global is None:
            self._enter()
        else:
            self._phase = FollowingPhase.RESTORING_GLOBAL_STORES
            self._global.begin()

    def waits(self) -> bool:
        """Return whether the global stores are still being restored; when they are complete, the group is joined."""
        if self._phase is not FollowingPhase.RESTORING_GLOBAL_STORES:
            return False
        if self._global is None or not self._global.restored.is_set():
            return True
        self._enter()
        return False

    def _enter(self) -> None:
        self._phase = FollowingPhase.JOINED
        self._join()
        if self._draining:
            self.membership.drain()

    # ---- following ---------------------------------------------------------------------------------------------

    def lost(self) -> None:
        """The group went on without this instance."""
        self.assignment = None
        self.readiness.lost()

    def follow_warmups(self, tasks: Mapping[TaskId, StreamTask]) -> None:
        """A warm-up replica that has caught up is reason to assign anew."""
        wanted = frozenset() if self.assignment is None else self.assignment.warmup
        if wanted and self._warmups.caught_up(tasks[each] for each in wanted & tasks.keys()):
            self.membership.rejoin()

    # ---- the right to write ------------------------------------------------------------------------------------

    @property
    def may_write(self) -> bool:
        """True if no other instance can have taken over. Under exactly once the broker decides that: it fences
        producers."""
        return self._exactly_once or self._clock.monotonic() < self.membership.safe_until

    def check_session(self) -> None:
        """A process that stood still, or lost the coordinator for too long, must not send its remaining records: its
        tasks may run elsewhere by now."""
        before, self.safe = self.safe, self.may_write
        if before and not self.safe:
            raise AbortableError("no sign of life from the group's coordinator: other instances may have taken over")

    # ---- draining ----------------------------------------------------------------------------------------------

    def drain(self) -> None:
        """Ask the others to take over."""
        self._draining = True
        self.membership.drain()

    def drained(self, layout: ApplicationLayout | None) -> bool:
        """Return whether the others have everything that any of them can take."""
        if self.assignment is None or layout is None or not self._draining:
            return False
        others = [peer for peer in self.assignment.peers.values() if not peer.draining]
        if not others:
            return True
        # In the assignment from before the drain this instance is one of those that do not drain.
        wanted = layout.plans.keys() - self.assignment.held_back
        return not self.assignment.active and wanted <= set().union(*(peer.active for peer in others))
