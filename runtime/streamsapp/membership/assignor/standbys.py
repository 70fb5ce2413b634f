"""The placement of standbys and warm-up replicas.

Called by the assignor once active tasks are placed, on the membership's thread; pure. Standbys stay where they are.
Missing ones are made at once, all of them. A standby that is to move, because its member has more than its share or a
better rack is free, stays until a warm-up replica at the new place has caught up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from streamsapp.membership.assignor.actives import ActivePlacement
from streamsapp.membership.assignor.fair_shares import fair_shares
from streamsapp.membership.assignor.group import EligibleTasks, Group
from streamsapp.membership.assignor.model import AssignorSettings
from streamsapp.record import TaskId

# The costs that decide where a standby goes, in this order; each is far above what the next can amount to.
_SAME_RACK = 1 << 60
_FULL = 1 << 40
_SAME_PAIR = 1 << 20


@dataclass(frozen=True)
class _Need:
    """The facts that a task's standbys depend on."""

    kind: EligibleTasks
    #: The member that runs the task, or will once its owner has given it up.
    active: int
    #: The members that have a replica, including the member that gives the task up.
    replicas: dict[int, int | None]
    wanted: int
    #: No other host exists: a standby on the same one still survives the end of a process.
    one_host: bool


@dataclass
class StandbyPlacement:
    """The members that have replicas, and the members that get them."""

    standbys: dict[TaskId, list[int]] = field(default_factory=dict)
    #: The members that prepare for a task.
    warmups: dict[TaskId, set[int]] = field(default_factory=dict)
    #: A standby should move and has to wait.
    waiting: bool = False


def place_standbys(group: Group, actives: ActivePlacement, settings: AssignorSettings) -> StandbyPlacement:
    """Place standbys and warm-up replicas beside the active tasks."""
    placer = _Placer(group, actives, settings)
    placer.place()
    return placer.placement


class _Placer:
    """The placement while it is made."""

    def __init__(self, group: Group, actives: ActivePlacement, settings: AssignorSettings) -> None:
        self._group = group
        self._actives = actives
        self._settings = settings
        size = len(group.names)
        self.placement = StandbyPlacement()
        tags = [tuple(state.tags.get(key, "") for key in settings.rack_tags) for state in group.states]
        #: Each combination of tag values, and the number of each member's.
        self._racks = sorted(set(tags))
        self._rack = [self._racks.index(values) for values in tags]
        self._clashes_with: dict[tuple[int, ...], list[int]] = {}
        #: Warm-up replicas that may still be begun.
        self._left = settings.max_warmup_replicas
        self._needs: dict[TaskId, _Need] = {}
        self._count = [0] * size
        #: Of standbys by the member that runs the task: a failure of one should be a little work for many.
        self._pairs = [[0] * size for _ in range(size)]
        self._quota = [0] * size
        self._pressure = [0] * size

    def place(self) -> None:
        """Replicas for moves first, then standbys: kept, chosen, made, moved."""
        self._warm_up_for_actives()
        self._needs = self._gather_needs()
        self._keep()
        self._share()
        self._choose_among_replicas()
        self._make_missing()
        self._share()
        self._find_better_racks()
        self._balance()
        self._cover()

    def _warm_up_for_actives(self) -> None:
        """Moves that have come furthest go first: a move that has begun is not broken off."""
        moves = self._actives.waiting
        for move in sorted(moves, key=lambda move: (self._group.lag(move.task, move.target), move.task[::-1])):
            if not self._group.kind_of[move.task].stateful:
                continue
            if move.urgent:
                self.placement.warmups.setdefault(move.task, set()).add(move.target)
            elif self._left:
                self._warm_up(move.task, move.target)

    def _warm_up(self, task: TaskId, m: int) -> None:
        self._left -= 1
        self.placement.warmups.setdefault(task, set()).add(m)

    def _gather_needs(self) -> dict[TaskId, _Need]:
        needs = {}
        hosts, running, heirs = self._group.hosts, self._actives.running, self._actives.heirs
        for kind in self._group.kinds:
            there = {hosts[m] for m in kind.members}
            for task in kind.tasks if kind.stateful else ():
                active = running.get(task, heirs.get(task))
                if active is None:
                    continue
                replicas = {m: lag for m, lag in self._group.replicas[task].items() if m != active}
                if task in heirs:
                    replicas[self._group.owner[task]] = 0
                others = len(there) - (hosts[active] in there)
                wanted = min(self._settings.standby_replicas, others or len(kind.members) - (active in kind.staying))
                needs[task] = _Need(kind, active, replicas, wanted, one_host=not others)
        return needs

    def _share(self) -> None:
        """Every member's fair share, of active tasks and standbys together."""
        count = sum(need.wanted for need in self._needs.values())
        members = sorted({m for kind in self._group.kinds for m in kind.members})
        load = self._actives.load
        self._quota = fair_shares(count, members, self._group.weight, load, self._count).quota
        for m in members:
            self._press(m)

    def _press(self, m: int) -> None:
        above = self._count[m] - self._quota[m]
        self._pressure[m] = above + (above >= 0) * _FULL

    # -- which standbys there are ------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Replicas stay where a task has not too many of them; among the others a choice is made later."""
        for task, need in self._needs.items():
            self.placement.standbys[task] = []
            fitting = self._fitting(need)
            if len(fitting) <= need.wanted:
                for m in sorted(fitting):
                    if self._fits(task, need, m):
                        self._put(task, need, m)

    def _choose_among_replicas(self) -> None:
        for task, need in self._needs.items():
            chosen = self.placement.standbys[task]
            fitting = [m for m in self._fitting(need) if m not in chosen] if len(chosen) < need.wanted else []
            while fitting and len(chosen) < need.wanted:
                m = min(fitting, key=lambda m: (*self._behind(need, m), self._cost(task, need, m), m))
                fitting.remove(m)
                if self._fits(task, need, m):
                    self._put(task, need, m)

    def _behind(self, need: _Need, m: int) -> tuple[bool, int]:
        """Members that have caught up are equal, whatever their lag."""
        lag = need.replicas[m]
        caught_up = self._settings.caught_up(lag)
        return not caught_up, 0 if caught_up or lag is None else lag

    def _make_missing(self) -> None:
        for task, need in self._needs.items():
            while len(self.placement.standbys[task]) < need.wanted and not need.kind.frozen:
                m = self._cheapest(task, need)
                if m is None:
                    break
                self._put(task, need, m)

    def _cover(self) -> None:
        """A member that drains keeps its replica while no member that stays can stand in for it."""
        for task, need in self._needs.items():
            leaving = sorted(m for m in need.replicas if m not in need.kind.staying)
            for m in leaving:
                chosen = self.placement.standbys[task]
                good = sum(self._settings.caught_up(need.replicas.get(other)) for other in chosen)
                if good < need.wanted and self._settings.caught_up(need.replicas[m]) and self._fits(task, need, m):
                    chosen.append(m)

    # -- where a standby may be, and what speaks against it ----------------------------------------------------------

    def _fitting(self, need: _Need) -> list[int]:
        return [m for m in need.replicas if m in need.kind.staying]

    def _fits(self, task: TaskId, need: _Need, m: int, instead_of: int = -1) -> bool:
        if need.one_host:
            return m != need.active and m not in self.placement.standbys[task]
        hosts = self._group.hosts
        host = hosts[m]
        return host != hosts[need.active] and all(
            hosts[x] != host for x in self.placement.standbys[task] if x != instead_of
        )

    def _cost(self, task: TaskId, need: _Need, m: int) -> int:
        clash = self._clashes(task, need)[self._rack[m]]
        return self._pressure[m] + self._pairs[need.active][m] * _SAME_PAIR + clash * _SAME_RACK

    def _clashes(self, task: TaskId, need: _Need, without: int = -1) -> list[int]:
        """For every rack how many tag values it shares with those of the task's other members (KIP-708)."""
        others = tuple(sorted(self._rack[m] for m in (need.active, *self.placement.standbys[task]) if m != without))
        found = self._clashes_with.get(others)
        if found is None:
            taken = [self._racks[rack] for rack in others]
            found = [sum(_in_common(rack, other) for other in taken) for rack in self._racks]
            self._clashes_with[others] = found
        return found

    def _cheapest(self, task: TaskId, need: _Need) -> int | None:
        hosts, chosen = self._group.hosts, self.placement.standbys[task]
        used = set() if need.one_host else {hosts[m] for m in (need.active, *chosen)}
        taken = {need.active, *chosen, *self.placement.warmups.get(task, ())}
        free = [m for m in need.kind.members if hosts[m] not in used and m not in taken]
        pressure, pairs, rack = self._pressure, self._pairs[need.active], self._rack
        clashes = [clash * _SAME_RACK for clash in self._clashes(task, need)]
        return min(free, key=lambda m: pressure[m] + pairs[m] * _SAME_PAIR + clashes[rack[m]], default=None)

    def _put(self, task: TaskId, need: _Need, m: int) -> None:
        self.placement.standbys[task].append(m)
        self._count[m] += 1
        self._pairs[need.active][m] += 1
        self._press(m)

    def _take(self, task: TaskId, need: _Need, m: int) -> None:
        self.placement.standbys[task].remove(m)
        self._count[m] -= 1
        self._pairs[need.active][m] -= 1
        self._press(m)

    # -- which standbys move -----------------------------------------------------------------------------------------

    def _find_better_racks(self) -> None:
        if len(self._racks) == 1:
            return
        for task, need in self._needs.items():
            for source in list(self.placement.standbys[task]) if not need.kind.frozen else ():
                clashes = self._clashes(task, need, source)
                least = clashes[self._rack[source]]
                if min(clashes) < least:
                    better = [
                        m
                        for m in need.kind.members
                        if clashes[self._rack[m]] < least and self._fits(task, need, m, instead_of=source)
                    ]
                    self._relocate(task, need, source, better)

    def _balance(self) -> None:
        """Move replicas from members above their share to members below theirs; moves that have begun go first."""
        excess = {m: n for m in range(len(self._count)) if (n := self._count[m] - self._quota[m]) > 0}
        missing = {m: n for m in range(len(self._count)) if (n := self._quota[m] - self._count[m]) > 0}
        if not excess or not missing:
            return
        held: dict[int, list[TaskId]] = {m: [] for m in excess}
        for task, need in self._needs.items():
            for m in self.placement.standbys[task] if not need.kind.frozen else ():
                if m in excess:
                    held[m].append(task)
        for begun in (True, False):
            for source in sorted(excess, key=lambda m: (-excess[m], m)):
                # Those go first whose failure would burden this member most.
                held[source].sort(key=lambda task: (-self._pairs[self._needs[task].active][source], task[::-1]))
                for task in held[source]:
                    if not excess[source] or not (begun or self._left):
                        break
                    target = self._relocate(
                        task, self._needs[task], source, self._lighter(task, source, missing, begun)
                    )
                    if target is not None:
                        excess[source] -= 1
                        missing[target] -= 1

    def _lighter(self, task: TaskId, source: int, missing: dict[int, int], begun: bool) -> list[int]:
        """Members below their share that could have the standby; ``begun``: that have a replica already."""
        need = self._needs[task]
        if source not in self.placement.standbys[task]:
            return []
        clashes = self._clashes(task, need, source)
        most = clashes[self._rack[source]]
        candidates = need.replicas if begun else missing
        return [
            m
            for m in candidates
            if missing.get(m)
            and m in need.kind.staying
            and clashes[self._rack[m]] <= most
            and m not in self.placement.warmups.get(task, ())
            and self._fits(task, need, m, instead_of=source)
        ]

    def _relocate(self, task: TaskId, need: _Need, source: int, candidates: list[int]) -> int | None:
        """Move a standby to the best candidate if that has caught up, otherwise prepare it; returns the candidate."""
        candidates = [m for m in candidates if m not in self.placement.standbys[task]]
        if not candidates:
            return None
        unknown = (True, 0)
        target = min(
            candidates,
            key=lambda m: (
                *(self._behind(need, m) if m in need.replicas else unknown),
                m not in need.replicas,
                self._cost(task, need, m),
                m,
            ),
        )
        if self._settings.caught_up(need.replicas.get(target)):
            self._take(task, need, source)
            self._put(task, need, target)
        elif self._left and target not in self.placement.warmups.get(task, ()):
            self._warm_up(task, target)
        else:
            self.placement.waiting = True
        return target


def _in_common(values: tuple[str, ...], others: tuple[str, ...]) -> int:
    return sum(value == other for value, other in zip(values, others, strict=True))
