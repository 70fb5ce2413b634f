"""Shares the processing threads among sub-topologies: by class, by weight, and so that none starves.

Called by the task manager, under its lock, on processing threads. Pure: it is told the time.

Within a class it is start-time fair queueing. Each sub-topology has a virtual time, which goes on by the seconds that
its tasks were held, divided by its weight; the sub-topology with the least is next. One that comes back after it had
nothing to do starts where its class is now: it has saved nothing up. A sub-topology of class latency goes before those
of class bulk, but once bulk tasks have waited for ``LONGEST_WAIT`` one of them has a turn, which nothing cuts short.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice

from streamsapp.tasks.stream_task import StreamTask
from streamsapp.topology.scheduling import Share

#: For how long tasks of class bulk wait at most while others are ready, in seconds.
LONGEST_WAIT = 0.05
#: How long a thread stays with a task while others wait, in seconds: a turn of the class, and of one that waited long.
LATENCY_TURN, BULK_TURN = 0.1, 0.01


class _Shared:
    """The time that a sub-topology has had."""

    def __init__(self, share: Share) -> None:
        self.share = share
        self.virtual_time = 0.0
        #: The seconds for which its tasks were held.
        self.busy = 0.0


class _Class:
    """The sub-topologies of one class."""

    def __init__(self) -> None:
        #: The virtual time at which its last task began.
        self.now = 0.0

    def begin(self, shared: _Shared) -> None:
        """A task of a sub-topology has its turn."""
        shared.virtual_time = self.now = max(shared.virtual_time, self.now)

    def next(self, among: Collection[_Shared]) -> _Shared:
        """The sub-topology that has had least."""
        return min(among, key=lambda each: max(each.virtual_time, self.now))


class FairScheduler:
    """A ``TaskScheduler`` for an application that says how its sub-topologies are scheduled."""

    def __init__(self, shares: Mapping[int, Share], monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.shares = shares
        self._shared = {number: _Shared(share) for number, share in shares.items()}
        self._classes = {True: _Class(), False: _Class()}
        #: Since when tasks of class bulk are ready and none has had a turn; ``None`` if none is.
        self._bulk_waits_since: float | None = None
        #: When the tasks that are held now were taken.
        self._taken_at: dict[StreamTask, float] = {}
        #: Held tasks whose turn is not cut short.
        self._overdue: set[StreamTask] = set()

    def is_apart(self, task: StreamTask) -> bool:
        """Return whether a task is set aside when it fails again and again, or hangs."""
        return self._of(task).share.apart

    def is_bulk(self, task: StreamTask) -> bool:
        """Return whether others go before a task."""
        return not self.is_latency(task)

    def is_latency(self, task: StreamTask) -> bool:
        """Return whether a task goes before others."""
        return self._of(task).share.latency

    def turn(self, task: StreamTask) -> float:
        """The seconds that a thread stays with a task while others wait."""
        return LATENCY_TURN if self.is_latency(task) else BULK_TURN

    def pick(self, ready: Collection[StreamTask]) -> StreamTask:
        """One of ``ready``, which is never empty and has those first that have been ready longest."""
        now = self._monotonic()
        firsts: dict[_Shared, StreamTask] = {}
        for task in ready:
            firsts.setdefault(self._of(task), task)
            if len(firsts) == len(self._shared):
                break
        latency = {shared: task for shared, task in firsts.items() if shared.share.latency}
        bulk = {shared: task for shared, task in firsts.items() if not shared.share.latency}
        since = now if self._bulk_waits_since is None else self._bulk_waits_since
        overdue = bool(bulk) and now - since >= LONGEST_WAIT
        chosen = latency if latency and not overdue else bulk
        self._bulk_waits_since = since if bulk and chosen is latency else None
        of_class = self._classes[chosen is latency]
        shared = of_class.next(chosen)
        of_class.begin(shared)
        task = chosen[shared]
        self._taken_at[task] = now
        if overdue and latency:
            self._overdue.add(task)
        return task

    def gives_way(self, held: Collection[StreamTask], ready: Collection[StreamTask], idle: int) -> list[StreamTask]:
        """The held tasks that are to be given back, as tasks of class latency are ready and too few threads are
        ``idle``."""
        bulk = [task for task in held if not self.is_latency(task) and task not in self._overdue]
        if not bulk:
            return []
        waiting = sum(1 for _ in islice(filter(self.is_latency, ready), idle + len(bulk)))
        return bulk[: max(0, waiting - idle)]

    def gave_back(self, task: StreamTask) -> None:
        """A task is held no more."""
        self._overdue.discard(task)
        taken_at = self._taken_at.pop(task, None)
        if taken_at is not None:
            shared = self._of(task)
            held = self._monotonic() - taken_at
            shared.busy += held
            shared.virtual_time += held / shared.share.weight

    def busy_seconds(self, number: int) -> float:
        """Returns for how many seconds threads have held tasks of a sub-topology. Any thread."""
        return self._shared[number].busy

    def _of(self, task: StreamTask) -> _Shared:
        return self._shared[task.id.subtopology]
