"""A made-up consumer group: which pod runs and follows which task, and how far each replica truly is behind.

Used by ``simulated_cluster``, one thread. Nothing here knows the operator: this is the truth that it can only observe.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

#: Records behind with which a replica may take over without the task standing still for long.
CAUGHT_UP = 500
FRESH_REPLICA_LAG = 6_000
CATCH_UP_PER_SECOND = 2_000
HELD_BACK_PER_SECOND = 400


@dataclass
class Replica:
    """A standby, and what its pod last saw of it, and when by its own clock."""

    lag: float
    seen_lag: int | None = None
    seen_at: float | None = None
    paused: bool = False


def is_known(task: str, revision: str) -> bool:
    """Says whether pods of this revision have the task's sub-topology."""
    return not task.startswith("2_") or revision.endswith("+")


@dataclass
class Task:
    id: str
    stateful: bool
    owner: str | None = None
    #: The owner restores it until then.
    restored_at: float = 0.0
    replicas: dict[str, Replica] = field(default_factory=dict)
    #: The seconds that a restore from its snapshot would take, if there is one.
    restore_seconds: float | None = None

    def runs(self, now: float) -> bool:
        return self.owner is not None and now >= self.restored_at


@dataclass
class Member:
    """A process in the group, named by its pod's uid."""

    revision: str
    generation: int | None = None
    #: When it hears of the generation that was agreed upon last.
    joins_at: float = 0.0
    #: Of its pod's clock.
    clock_offset: float = 0.0
    held_back: bool = False
    paused: bool = False
    stuck_observer: bool = False


class Group:
    """All tasks of one application."""

    def __init__(self, rng: random.Random, partitions: int, standbys: int, *, remote_state: bool) -> None:
        self._rng = rng
        self._standbys = standbys
        #: The seconds that a restore takes at most.
        self.worst_restore = 90.0
        self._remote = remote_state
        self.members: dict[str, Member] = {}
        self.generation = 0
        self._rebalanced_at: float | None = None
        #: When the leader looks whether a task can move now.
        self._looks_at: float | None = None
        numbers = [("0", True), ("1", False)]
        self.tasks = {
            f"{sub}_{partition}": Task(f"{sub}_{partition}", stateful)
            for sub, stateful in numbers
            for partition in range(partitions)
        }

    def add_subtopology(self, number: str, partitions: int) -> None:
        """Known only to members of revisions whose name ends with ``+``."""
        for partition in range(partitions):
            self.tasks.setdefault(f"{number}_{partition}", Task(f"{number}_{partition}", True))

    def join(self, uid: str, revision: str, clock_offset: float, now: float) -> None:
        self.members[uid] = Member(revision, clock_offset=clock_offset)
        self.unsettle(now)

    def leave(self, uid: str, now: float) -> None:
        """Its tasks run nowhere until the others have agreed."""
        if self.members.pop(uid, None) is None:
            return
        for task in self.tasks.values():
            task.replicas.pop(uid, None)
            if task.owner == uid:
                task.owner = None
        self.unsettle(now)

    def unsettle(self, now: float) -> None:
        self._rebalanced_at = now + self._rng.uniform(0.3, 2.5)

    def state_of(self, uid: str, now: float) -> str:
        member = self.members[uid]
        if self._rebalanced_at is not None or member.generation != self.generation or now < member.joins_at:
            return "REBALANCING"
        return "RUNNING"

    def tick(self, now: float, seconds: float) -> None:
        for member in self.members.values():
            if member.generation != self.generation and self._rebalanced_at is None and now >= member.joins_at:
                member.generation = self.generation
        if self._rebalanced_at is not None and now >= self._rebalanced_at:
            self._rebalance(now)
        if self._looks_at is not None and now >= self._looks_at and self._rebalanced_at is None:
            self._looks_at = None
            self.unsettle(now)
        for task in self.tasks.values():
            self._drift(task, now, seconds)

    def is_caught_up(self, uid: str, now: float) -> bool:
        """Says whether the pod has caught up, which ``/readyz`` waits for."""
        if self.state_of(uid, now) != "RUNNING":
            return False
        return all(
            (task.owner != uid or task.runs(now))
            and (uid not in task.replicas or task.replicas[uid].lag <= CAUGHT_UP or self.members[uid].held_back)
            for task in self.tasks.values()
        )

    def _drift(self, task: Task, now: float, seconds: float) -> None:
        if self._remote and task.stateful:
            task.restore_seconds = (task.restore_seconds or 20) + self._rng.uniform(-3, 3) * seconds
            task.restore_seconds = min(max(task.restore_seconds, 1.0), self.worst_restore)
        for uid, replica in task.replicas.items():
            member = self.members[uid]
            if member.held_back or member.paused:
                replica.lag += HELD_BACK_PER_SECOND * seconds
            elif replica.lag > CAUGHT_UP:
                replica.lag = max(0.0, replica.lag - CATCH_UP_PER_SECOND * seconds)
            else:
                replica.lag = self._rng.uniform(0, 300) if self._rng.random() < 0.99 else 1_500.0
            replica.paused = member.paused
            if not member.stuck_observer and self._rng.random() < seconds:
                replica.seen_lag, replica.seen_at = int(replica.lag), now + member.clock_offset

    def _rebalance(self, now: float) -> None:
        self.generation += 1
        self._rebalanced_at = None
        for member in self.members.values():
            member.joins_at = now + self._rng.uniform(0, 1.0)
        for task in self.tasks.values():
            able = [uid for uid, member in self.members.items() if is_known(task.id, member.revision)]
            self._place(task, able, now)
        self._even_out(now)
        for task in self.tasks.values():
            if task.stateful:
                self._follow(task)

    def _place(self, task: Task, able: list[str], now: float) -> None:
        if task.owner in able or not able:
            return
        ready = sorted((replica.lag, uid) for uid, replica in task.replicas.items() if uid in able)
        if ready:
            lag, heir = ready[0]
            task.restored_at = now + lag / CATCH_UP_PER_SECOND
        else:
            heir = min(able, key=lambda uid: (self._load(uid), uid))
            task.restored_at = now + (self._rng.uniform(1, 6) if task.stateful else 0.0)
        task.owner = heir
        task.replicas.pop(heir, None)

    def _even_out(self, now: float) -> None:
        """Tasks move from the busiest to the idlest member, to where they are followed closely."""
        by_load = sorted(self.members, key=lambda uid: (self._load(uid), uid))
        if len(by_load) < 2 or self._load(by_load[-1]) - self._load(by_load[0]) < 2:
            for task in self.tasks.values() if self._standbys == 0 else ():
                task.replicas.clear()
            return
        idle, busy = by_load[0], by_load[-1]
        for task in self.tasks.values():
            if task.owner != busy or not is_known(task.id, self.members[idle].revision) or not task.runs(now):
                continue
            replica = task.replicas.get(idle)
            if not task.stateful or (replica is not None and replica.lag <= CAUGHT_UP):
                task.owner, task.restored_at = idle, now + 0.3
                task.replicas.pop(idle, None)
                if task.stateful:
                    task.replicas[busy] = Replica(lag=0.0)
            elif replica is None:
                task.replicas[idle] = Replica(lag=FRESH_REPLICA_LAG)
            self._looks_at = now + 3
            return

    def _follow(self, task: Task) -> None:
        able = [uid for uid, it in self.members.items() if uid != task.owner and is_known(task.id, it.revision)]
        for uid in list(task.replicas):
            if uid not in able:
                del task.replicas[uid]
        able.sort(key=lambda uid: (sum(uid in it.replicas for it in self.tasks.values()), uid))
        for uid in able:
            if len(task.replicas) < self._standbys and uid not in task.replicas:
                task.replicas[uid] = Replica(lag=FRESH_REPLICA_LAG)
        close = sorted(task.replicas, key=lambda uid: task.replicas[uid].lag)
        for uid in close[self._standbys + 1 :]:
            del task.replicas[uid]

    def _load(self, uid: str) -> int:
        return sum(task.owner == uid for task in self.tasks.values())
