"""A group whose members at once do what the assignor decides. Called by the tests of the assignor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from streamsapp import TaskId
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.membership.assignor.model import AssignorSettings, MemberState, Plan

#: Records a replica is behind when it has just been made.
FAR = 1_000_000


@dataclass
class SimulatedGroup:
    """Members that follow the plan: each gives up, takes over and follows tasks, then joins again as it is then."""

    settings: AssignorSettings
    members: dict[str, MemberState] = field(default_factory=dict, repr=False)
    plan: Plan = field(default_factory=lambda: Plan({}), repr=False)

    def round(self) -> bool:
        """One rebalance; whether it changed anything."""
        self.plan = HighAvailabilityTaskAssignor().assign(self.members, self.settings)
        self._check_one_owner()
        self._check_warmups()
        before = self.members
        self.members = {name: self._follow(name, state) for name, state in before.items()}
        return self.members != before

    def _follow(self, name: str, state: MemberState) -> MemberState:
        plan = self.plan.members[name]
        assert not plan.active & plan.standby | plan.active & plan.warmup | plan.standby & plan.warmup
        fresh = dict.fromkeys(state.active, 0) | dict.fromkeys(plan.warmup | plan.standby, FAR) | dict(state.lags)
        lags = {task: 0 if task in state.active else fresh[task] for task in plan.standby | plan.warmup}
        left = (state.active | state.lags.keys() | state.on_disk) - plan.active - lags.keys()
        return replace(state, active=plan.active, lags=lags, on_disk=left)

    def _check_one_owner(self) -> None:
        """Each task, and each partition and store partition that tasks use, has one member and one task id only."""
        users: dict[object, set[tuple[str, TaskId]]] = {}
        for name, state in self.members.items():
            for task in state.active | self.plan.members[name].active:
                info = state.definitions[task]
                stores = [("store", store, task.partition) for store, _ in info.stores or ()]
                for need in (task, *info.partitions, *stores):
                    users.setdefault(need, set()).add((name, task))
        assert {need: who for need, who in users.items() if len(who) > 1} == {}

    def _check_warmups(self) -> None:
        """Only what leaves a member that drains is prepared without limit."""
        leaving = {task for state in self.members.values() if state.draining for task in state.active}
        limited = [task for plan in self.plan.members.values() for task in plan.warmup if task not in leaving]
        assert len(limited) <= self.settings.max_warmup_replicas

    def catch_up(self, names: Iterable[str] | None = None) -> None:
        for name in self.members if names is None else names:
            state = self.members[name]
            self.members[name] = replace(state, lags=dict.fromkeys(state.lags, 0))

    def settle(self) -> int:
        """Rebalance, with replicas that catch up in between, until nothing changes; the number of rounds."""
        tasks = {task for state in self.members.values() for task in state.definitions}
        most = 3 * len(tasks) * (1 + self.settings.standby_replicas) + 5
        for number in range(most):
            self.catch_up()
            if not self.round() and not self.plan.follow_up:
                return number
        raise AssertionError(f"still moving after {most} rounds: {self.plan}")
