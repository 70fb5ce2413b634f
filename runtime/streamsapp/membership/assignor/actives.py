"""The placement of active tasks: where they run, and where they are to run.

Called by the assignor, on the membership's thread; pure. Kinds of tasks are placed one after the other. Owners keep
their tasks, and tasks without an owner and tasks of draining members get a new one. Then the tasks above a member's
share move to members below theirs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streamsapp.membership.assignor.fair_shares import Shares, fair_shares
from streamsapp.membership.assignor.group import EligibleTasks, Group
from streamsapp.membership.assignor.model import AssignorSettings
from streamsapp.record import TaskId

#: Added to the load of a member that has its share.
_FULL = 1e9


@dataclass(frozen=True)
class Move:
    """A task that stays where it is until ``target`` has caught up."""

    task: TaskId
    target: int
    #: Of a member that drains: must not wait for others.
    urgent: bool = False


@dataclass
class ActivePlacement:
    """The members that have the active tasks, and the members that get them."""

    #: The member that runs a task now.
    running: dict[TaskId, int] = field(default_factory=dict)
    #: The member that runs it next: its owner has to give it up first, until then no other member runs it.
    heirs: dict[TaskId, int] = field(default_factory=dict)
    waiting: list[Move] = field(default_factory=list)
    #: Tasks of each member once everything has moved.
    load: list[int] = field(default_factory=list)


def place_actives(group: Group, settings: AssignorSettings) -> ActivePlacement:
    """Place one kind of tasks after the other."""
    placer = _Placer(group, settings)
    for kind in group.kinds:
        placer.place(kind)
    return placer.placement


class _Placer:
    """The placement while it is made."""

    def __init__(self, group: Group, settings: AssignorSettings) -> None:
        self._group = group
        self._settings = settings
        size = len(group.names)
        self.placement = ActivePlacement(load=[0] * size)
        #: Of the kind that is being placed.
        self._own: list[list[TaskId]] = [[] for _ in range(size)]
        self._count = [0] * size
        self._pressure = [0.0] * size
        self._shares = Shares([], [])
        #: Tasks without an owner go first: running tasks are not stopped to balance the load in the same round. So
        #: members that lost nothing keep running everything through the failure of a member.
        self._settling = any(task not in group.claims for task in group.kind_of)

    def place(self, kind: EligibleTasks) -> None:
        size = len(self.placement.load)
        self._own = [[] for _ in range(size)]
        self._count = [0] * size
        homeless = self._keep(kind)
        self._share(kind)
        for task in homeless:
            self._settle(task, kind)
        if not kind.frozen:
            self._share(kind)
            self._balance(kind)
        total = zip(self.placement.load, self._count, strict=True)
        self.placement.load = [load + count for load, count in total]

    def _keep(self, kind: EligibleTasks) -> list[TaskId]:
        """Owners that stay keep what they have; the other tasks, those with the least choice first."""
        staying = kind.staying
        homeless = []
        for task in kind.tasks:
            owner = self._group.owner.get(task)
            if owner in staying:
                self.placement.running[task] = owner
                self._own[owner].append(task)
                self._count[owner] += 1
            elif owner is not None or task not in self._group.claims:
                homeless.append(task)
        ready = {task: len(self._caught_up(task, kind)) or len(staying) for task in homeless}
        homeless.sort(key=lambda task: (ready[task], len(self._group.on_disk.get(task, ())) or len(staying), task))
        return homeless

    def _share(self, kind: EligibleTasks) -> None:
        self._shares = fair_shares(len(kind.tasks), kind.home, self._group.weight, self.placement.load, self._count)
        for m in kind.members:
            self._press(m)

    def _press(self, m: int) -> None:
        full = self._count[m] >= self._shares.most[m]
        self._pressure[m] = (self.placement.load[m] + self._count[m] + 1) / self._group.weight[m] + full * _FULL

    def _settle(self, task: TaskId, kind: EligibleTasks) -> None:
        """Find a member for a task without one, or whose owner leaves."""
        ready = self._caught_up(task, kind) if kind.stateful else kind.members
        target = self._best(task, ready) if ready else self._best_to_restore(task, kind)
        self._count[target] += 1
        self._press(target)
        owner = self._group.owner.get(task)
        if owner is None:
            self.placement.running[task] = target
            self._own[target].append(task)
        elif ready:
            self.placement.heirs[task] = target
        else:
            self.placement.running[task] = owner
            self.placement.waiting.append(Move(task, target, urgent=True))

    def _caught_up(self, task: TaskId, kind: EligibleTasks) -> list[int]:
        caught_up, replicas = self._settings.caught_up, self._group.replicas[task]
        return [m for m, lag in replicas.items() if caught_up(lag) and m in kind.staying]

    def _best(self, task: TaskId, ready: list[int] | tuple[int, ...]) -> int:
        """Load first, lag second: otherwise a task could go back to the owner that gave it up as it has too many."""
        pressure, replicas = self._pressure, self._group.replicas[task]
        if not replicas:
            return min(ready, key=pressure.__getitem__)
        return min(ready, key=lambda m: (pressure[m], self._group.lag(task, m), m))

    def _best_to_restore(self, task: TaskId, kind: EligibleTasks) -> int:
        """The member with the least to restore: a known lag counts for more than load, old state only between
        equals."""
        pressure, replicas = self._pressure, self._group.replicas[task]
        known = [m for m, lag in replicas.items() if lag is not None and m in kind.staying]
        if known:
            return min(known, key=lambda m: (replicas[m], pressure[m], m))
        started = {m for m in (*replicas, *self._group.on_disk.get(task, ())) if m in kind.staying}
        fitting = [m for m in started if pressure[m] < _FULL]
        return min(fitting or kind.members, key=lambda m: (pressure[m], m))

    def _balance(self, kind: EligibleTasks) -> None:
        """Move tasks above a member's share to members below theirs, first where the least is to be restored."""
        quota, count = self._shares.quota, self._count
        above = [m for m in kind.members if count[m] > quota[m]]
        below = [m for m in kind.members if count[m] < quota[m]]
        if not above or not below:
            return
        excess = {m: min(count[m] - quota[m], len(self._own[m])) for m in above}
        missing = {m: quota[m] - count[m] for m in below}
        moved = set()
        for _, _, partition, subtopology, source, target in self._started(above, missing):
            task = TaskId(subtopology, partition)
            if excess[source] and missing[target] and task not in moved:
                moved.add(task)
                excess[source] -= 1
                missing[target] -= 1
                self._move(task, source, target, kind)
        self._move_anything(excess, missing, moved, kind)

    def _started(self, above: list[int], missing: dict[int, int]) -> list[tuple[bool, float, int, int, int, int]]:
        """Moves to members that have something of the task's state, the best first; equals take turns between
        sub-topologies, which comes of comparing partitions first."""
        replicas, on_disk = self._group.replicas, self._group.on_disk
        caught_up = self._settings.caught_up
        return sorted(
            (
                m not in replicas[task],
                0 if caught_up(replicas[task].get(m)) else self._group.lag(task, m),
                task.partition,
                task.subtopology,
                source,
                m,
            )
            for source in above
            for task in self._own[source]
            for m in {*replicas[task], *on_disk.get(task, ())}
            if m in missing
        )

    def _move_anything(
        self, excess: dict[int, int], missing: dict[int, int], moved: set[TaskId], kind: EligibleTasks
    ) -> None:
        """The rest, so that no member gets most of its tasks from one sub-topology."""
        left = {source: _by_subtopology(self._own[source], moved) for source in excess}
        for target in sorted(missing, key=lambda m: (-missing[m], m)):
            has: dict[int, int] = {}
            for task in self._own[target]:
                has[task.subtopology] = has.get(task.subtopology, 0) + 1
            for _ in range(missing[target]):
                source = min(excess, key=lambda m: (-excess[m], m))
                if not excess[source]:
                    return
                tasks = left[source]
                chosen = min(tasks, key=lambda s: (has.get(s, 0), -len(tasks[s]), s))
                task = tasks[chosen].pop()
                if not tasks[chosen]:
                    del tasks[chosen]
                has[chosen] = has.get(chosen, 0) + 1
                excess[source] -= 1
                self._move(task, source, target, kind)

    def _move(self, task: TaskId, source: int, target: int, kind: EligibleTasks) -> None:
        self._count[source] -= 1
        self._count[target] += 1
        ready = not kind.stateful or self._settings.caught_up(self._group.replicas[task].get(target))
        if ready and not self._settling:
            del self.placement.running[task]
            self.placement.heirs[task] = target
        else:
            self.placement.waiting.append(Move(task, target))


def _by_subtopology(tasks: list[TaskId], without: set[TaskId]) -> dict[int, list[TaskId]]:
    found: dict[int, list[TaskId]] = {}
    for task in tasks:
        if task not in without:
            found.setdefault(task.subtopology, []).append(task)
    return found
