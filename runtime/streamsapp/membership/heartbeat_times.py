"""The times of a member's heartbeats, and of the requests by which it begins a rebalance.

A member learns of a rebalance by its next heartbeat, and no member that has joined commits before the last one has
joined. So all members beat at the same moments: they count from the answer to SyncGroup, which all of them get at once.
A member that wants a rebalance asks for it just before such a moment. While one is expected, heartbeats come fast.

Used by ``classic_protocol``, on the membership's thread.
"""

from __future__ import annotations

from streamsapp.brokers.event_loop import WakeUp
from streamsapp.clock import Clock
from streamsapp.membership.wire import GroupSettings

#: Between two heartbeats while a rebalance is expected, and for how long one is, in seconds.
EXPECTING_INTERVAL, EXPECTED_FOR = 0.01, 1.0
#: How long before the others' heartbeats a member begins to join, in seconds: a commit under way ends first.
LEAD = 0.03
#: A moment that is further away is not waited for, in seconds: heartbeats are as seldom as the user wants them.
FURTHEST = 0.3
#: A beat that would follow the last one by less than this part of the interval is left out: the timer was early.
_TOO_SOON = 0.1


class HeartbeatTimes:
    """Counts from the beginning of the generation, in monotonic seconds."""

    def __init__(self, settings: GroupSettings, clock: Clock, wake_up: WakeUp) -> None:
        self._settings = settings
        self._clock = clock
        self._wake_up = wake_up
        self._began = clock.monotonic()
        self._expected_until = self._began

    def begin(self, *, expecting: bool) -> None:
        """A generation begins. ``expecting``: the next one follows soon, as tasks are on their way."""
        self._began = self._clock.monotonic()
        self._expected_until = self._began + EXPECTED_FOR if expecting else self._began
        self._wake_up.notify()

    async def wait(self, *, resting: bool) -> None:
        """Return when a heartbeat is due: when a generation begins, too."""
        await self._wake_up.wait(self.beat_in(resting=resting))

    @property
    def _expecting(self) -> bool:
        return self._clock.monotonic() < self._expected_until

    def beat_in(self, *, resting: bool) -> float:
        """Seconds until the next heartbeat."""
        settings = self._settings
        interval = settings.resting_interval if resting else settings.heartbeat_interval
        return self._until_next(min(interval, EXPECTING_INTERVAL) if self._expecting else interval)

    def join_in(self) -> float:
        """Seconds until a member that wants a rebalance begins to join: just before a moment at which all beat, be
        they at rest or not."""
        interval = self._settings.resting_interval
        if self._expecting or interval > FURTHEST:
            return 0.0
        return max(0.0, self._until_next(interval) - min(LEAD, interval / 2))

    def _until_next(self, interval: float) -> float:
        left = interval - (self._clock.monotonic() - self._began) % interval
        return left if left > _TOO_SOON * interval else left + interval
