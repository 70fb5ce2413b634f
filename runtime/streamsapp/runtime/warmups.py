"""Notices warm-up replicas that have caught up: their tasks can move now (KIP-441). Polling thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from streamsapp.clock import Clock
from streamsapp.record import TaskId
from streamsapp.tasks.stream_task import StreamTask

#: Seconds until the instance reports again to the group a replica that is still a warm-up: the leader may have put the
#: move off.
REMINDER = 2.0


class Warmups:
    """Remembers what was reported to the group."""

    def __init__(self, lag: Callable[[StreamTask], int | None], acceptable_lag: int, clock: Clock) -> None:
        self._lag = lag
        self._acceptable_lag = acceptable_lag
        self._clock = clock
        self._told: dict[TaskId, float] = {}

    def caught_up(self, replicas: Iterable[StreamTask]) -> bool:
        """Return whether the group should hear of any of these warm-up replicas now."""
        now = self._clock.monotonic()
        ready = [
            task.id
            for task in replicas
            if now >= self._told.get(task.id, now)
            and (lag := self._lag(task)) is not None
            and lag <= self._acceptable_lag
        ]
        self._told.update(dict.fromkeys(ready, now + REMINDER))
        return bool(ready)
