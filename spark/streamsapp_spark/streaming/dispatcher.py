"""Hands the lanes of a batch to the processes that ask for them.

A process asks as long as it gets one (a *puller*: one partition of Spark's). It gets the lanes that it had before;
lanes without a process, or of a process that did not come to this batch, are divided among the processes that came. If
a process that stays has fewer lanes than another one, the other one gives some up, at the end of a batch; and lanes of
a process that stays away are for others. A process that had a lane and went without a report is fenced by the next one
that gets it. So results are right even if this module is wrong. A process has the lane of an open order until it
reports that it does not go on.

Called on the threads of the channel.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from threading import Condition

from streamsapp.runtime.micro_batches.model import LaneOrder

#: The time that a batch waits for all of its pullers before it gives their lanes to the ones that came, in seconds.
RENDEZVOUS = 2.0
#: The batches in a row that a process has to come to, or stay away from, until lanes are moved for it: each move costs
#: the restoring of tasks.
_SETTLED = 3


@dataclass(eq=False)
class Puller:
    """One partition of a batch, in some process."""

    process: str
    partition: int
    attempt: int
    #: The uid of its pod; empty where there are none.
    pod: str = ""
    #: Lanes that it was given and has not ended.
    running: set[int] = field(default_factory=set)
    #: The attempt at the same partition that was given up for lost.
    before: Puller | None = None
    #: Records of the lanes that it has reported, and what they sent.
    records: int = 0
    outputs: int = 0


class Dispatcher:
    """The lanes of the batch under way, and their processes."""

    def __init__(self, rendezvous: float = RENDEZVOUS) -> None:
        self._rendezvous = rendezvous
        self._condition = Condition()
        self._waiting: dict[int, LaneOrder] = {}
        self._given: dict[int, LaneOrder] = {}
        self._owners: dict[int, str] = {}
        self._expected = 0
        self._came: dict[int, Puller] = {}
        self._gather_until = 0.0
        #: When a process was lost last, in monotonic seconds.
        self._lost_at = 0.0
        #: Batches in a row that each process has come to, and that each one with lanes has not.
        self._present: dict[str, int] = {}
        self._away: dict[str, int] = {}
        #: The process that had each lane last.
        self._before: dict[int, str] = {}
        #: The pods that took part in the last batch that ended.
        self.pods: frozenset[str] = frozenset()
        #: Lanes that went to another process than before, since the start.
        self.moves = 0

    @property
    def lanes(self) -> dict[int, str]:
        """The process that has each lane."""
        with self._condition:
            return dict(self._owners)

    @property
    def done(self) -> bool:
        """True if nothing of the batch is left."""
        with self._condition:
            return not self._waiting and not self._given

    @property
    def waits(self) -> bool:
        """True if lanes of a process that was lost wait for longer than the next one in its place may take to come."""
        with self._condition:
            return bool(self._waiting) and time.monotonic() > self._lost_at + self._rendezvous

    def begin(self, orders: Iterable[LaneOrder], pullers: int) -> None:
        """A batch of so many pullers; what was left of the one before is planned anew by then."""
        with self._condition:
            if self._came:
                self._take_attendance()
            if self._came and not self._waiting and not self._given:
                self.pods = frozenset(puller.pod for puller in self._came.values() if puller.pod)
            for puller in self._came.values():
                puller.running.clear()  # a late report ends nothing of this batch
            self._waiting = {order.number: order for order in orders}
            self._given = {}
            self._expected = pullers
            self._came = {}
            self._condition.notify_all()

    def uneven(self) -> list[int]:
        """The lanes to be given up so that processes with fewer get them: one for each of these, and only while two
        lanes and more are between the two."""
        with self._condition:
            has: dict[str, list[int]] = {process: [] for process in sorted(self._present)}
            for number, owner in sorted(self._owners.items()):
                if owner in has:
                    has[owner].append(number)
            moving = []
            for process in [each for each in has if self._present[each] >= _SETTLED]:
                most = max(has.values(), key=len)
                if len(most) - len(has[process]) > 1:
                    moving.append(most[-1])
                    has[process].append(most.pop())
            return moving

    def deserted(self) -> list[int]:
        """Lanes whose process stays away, which have none from now on. They may not be due, and no process would write
        their snapshots."""
        with self._condition:
            lost = [number for number, owner in self._owners.items() if self._away.get(owner, 0) >= _SETTLED]
            for number in lost:
                del self._owners[number]
            return lost

    def join(self, process: str, partition: int, attempt: int, pod: str = "") -> Puller:
        """A puller comes. An earlier attempt at the same partition was given up for lost: its lanes wait again."""
        with self._condition:
            puller = Puller(process, partition, attempt, pod)
            if not self._came:
                self._gather_until = time.monotonic() + self._rendezvous
            puller.before = before = self._came.get(partition)
            self._came[partition] = puller
            if before is not None:
                self._lose(before)
            self._condition.notify_all()
            return puller

    def take(self, puller: Puller) -> LaneOrder | None:
        """The next lane for a puller; ``None`` when there is none for it. Waits for the other pullers at first."""
        with self._condition:
            while len(self._came) < self._expected and (left := self._gather_until - time.monotonic()) > 0:
                self._condition.wait(left)
            self._divide()
            if self._came.get(puller.partition) is not puller:
                return None
            mine = next((each for each in self._waiting if self._owners[each] == puller.process), None)
            if mine is None:
                return None
            puller.running.add(mine)
            order = self._given[mine] = self._waiting.pop(mine)
            return order

    def reported(self, puller: Puller, number: int, *, goes_on: bool = False) -> bool:
        """A lane is done, or ``goes_on``; whether it was still the puller's."""
        with self._condition:
            if number not in puller.running:
                return False
            if goes_on:
                return True
            puller.running.discard(number)
            order = self._given.pop(number)
            if order.gives_up:
                self._owners.pop(number, None)
            self._condition.notify_all()
            return True

    def lose(self, puller: Puller) -> None:
        """A puller is gone: what it had is for others, or for its next attempt."""
        with self._condition:
            self._lose(puller)
            self._condition.notify_all()

    def _lose(self, puller: Puller) -> None:
        if puller.running:
            self._lost_at = time.monotonic()
        for number in puller.running:
            self._owners.pop(number, None)
            if number in self._given:
                self._waiting[number] = self._given.pop(number)
        puller.running.clear()

    def _take_attendance(self) -> None:
        """Counts the last batch for each process."""
        here = {puller.process for puller in self._came.values()}
        self._present = {process: self._present.get(process, 0) + 1 for process in here}
        away = set(self._owners.values()) - here
        self._away = {process: self._away.get(process, 0) + 1 for process in away}

    def _divide(self) -> None:
        """Lanes without a process go to the processes that are here and have the fewest."""
        here = {puller.process for puller in self._came.values()}
        for number in self._waiting:
            owner = self._owners.get(number)
            if owner not in here:
                loads = dict.fromkeys(sorted(here), 0)
                for each in self._owners.values():
                    if each in loads:
                        loads[each] += 1
                owner = self._owners[number] = min(loads, key=lambda each: loads[each])
                self.moves += self._before.get(number, owner) != owner
                self._before[number] = owner
