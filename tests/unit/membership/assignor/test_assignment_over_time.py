"""A group that lives through joins, failures, drains and upgrades: what must hold in every round, and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hypothesis import assume, given, settings as hypothesis_settings, strategies as st

from streamsapp import TaskId
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.membership.assignor.model import AssignorSettings, MemberState, Plan

#: Records a replica is behind when it has just been made.
FAR = 1_000_000


@dataclass
class SimulatedGroup:
    """Members that do as they are told: each gives up, takes over and follows, then joins again as what it became."""

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
        """Nobody gets a task that another one still has."""
        owners: dict[TaskId, set[str]] = {}
        for name, state in self.members.items():
            for task in state.active | self.plan.members[name].active:
                owners.setdefault(task, set()).add(name)
        assert {task: names for task, names in owners.items() if len(names) > 1} == {}

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


def tasks(count: int, subtopologies: int) -> list[TaskId]:
    return [TaskId(number % subtopologies, number // subtopologies) for number in range(count)]


HOSTS = ("", "pod-a", "pod-b", "pod-c")
STATELESS_SUBTOPOLOGY = 2


@st.composite
def groups(draw: st.DrawFn, racks: bool = True) -> SimulatedGroup:
    """Any settings, and up to six members with up to 24 tasks, some of them without state."""
    keys = draw(st.sampled_from([(), ("zone",), ("zone", "rack")])) if racks else ()
    group = SimulatedGroup(
        AssignorSettings(
            standby_replicas=draw(st.integers(0, 3)),
            max_warmup_replicas=draw(st.integers(1, 3)),
            rack_tags=keys,
        )
    )
    known = tasks(draw(st.integers(1, 24)), subtopologies=3)
    for number in range(draw(st.integers(1, 6))):
        group.members[f"m{number}"] = draw(new_members(known))
    return group


@st.composite
def new_members(draw: st.DrawFn, known: list[TaskId], version: str = "v1") -> MemberState:
    return MemberState(
        host=draw(st.sampled_from(HOSTS)),
        threads=draw(st.sampled_from([1, 1, 1, 2, 4])),
        tags={"zone": draw(st.sampled_from("ab")), "rack": draw(st.sampled_from("xyz"))},
        definitions={task: f"{version}-{task.subtopology}" for task in known},
        stateful=frozenset(task for task in known if task.subtopology != STATELESS_SUBTOPOLOGY),
        on_disk=frozenset(draw(st.lists(st.sampled_from(known), max_size=5))),
    )


def live(data: st.DataObject, group: SimulatedGroup, *, upgrades: bool) -> None:
    """Let anything happen, a rebalance after each event."""
    events = ["join", "die", "drain", "catch up", "nothing", *(["upgrade"] if upgrades else [])]
    for number, event in enumerate(data.draw(st.lists(st.sampled_from(events), max_size=12))):
        name = data.draw(st.sampled_from(sorted(group.members)))
        state = group.members[name]
        if event == "join":
            group.members[f"n{number}"] = data.draw(new_members(sorted(state.definitions)))
        elif event == "die" and len(group.members) > 1:
            del group.members[name]
        elif event == "drain":
            group.members[name] = replace(state, draining=True)
        elif event == "catch up":
            group.catch_up([name])
        elif event == "upgrade":
            known = sorted(state.definitions)[: data.draw(st.integers(1, len(state.definitions)))]
            group.members[name] = data.draw(
                new_members([*known, TaskId(1, 99)], data.draw(st.sampled_from(["v1", "v2"])))
            )
        group.round()


def hosts_of(group: SimulatedGroup) -> dict[str, str]:
    return {name: state.host or name for name, state in group.members.items()}


def stateless(known: Iterable[TaskId]) -> set[TaskId]:
    return {task for task in known if task.subtopology == STATELESS_SUBTOPOLOGY}


def staying(group: SimulatedGroup) -> dict[str, MemberState]:
    return {name: state for name, state in group.members.items() if not state.draining} or group.members


@given(groups(), st.data())
@hypothesis_settings(max_examples=150, deadline=None)
def test_whatever_happens_the_group_settles_with_every_task_active_once_and_fairly_shared(
    group: SimulatedGroup, data: st.DataObject
) -> None:
    live(data, group, upgrades=False)
    group.settle()

    known = {task for state in group.members.values() for task in state.definitions}
    active = Counter(task for plan in group.plan.members.values() for task in plan.active)
    assert active == dict.fromkeys(known, 1)
    if all(state.draining for state in group.members.values()):
        return
    equal = len({state.threads for state in group.members.values()}) == 1
    # A member with few threads may have got a task with state that is all it should have; its next is off by one more.
    for part, most in ((known, 1 if equal else 2), (known - stateless(known), 1)):
        weight = sum(state.threads for state in staying(group).values())
        for name, state in group.members.items():
            count = len(group.plan.members[name].active & part)
            share = 0 if state.draining else len(part) * state.threads / weight
            assert abs(count - share) < most, f"{name} has {count} of {len(part)}: {group.plan}"


@given(groups(), st.data())
@hypothesis_settings(max_examples=150, deadline=None)
def test_whatever_happens_tasks_end_with_their_standbys_on_other_hosts(
    group: SimulatedGroup, data: st.DataObject
) -> None:
    live(data, group, upgrades=False)
    group.settle()

    hosts, usable = hosts_of(group), staying(group)
    for name, plan in group.plan.members.items():
        for task in (task for task in plan.active if task.subtopology != STATELESS_SUBTOPOLOGY):
            following = [other for other, its in group.plan.members.items() if task in its.standby]
            others = {hosts[other] for other in usable} - {hosts[name]}
            wanted = min(group.settings.standby_replicas, len(others) or len(usable) - 1)
            assert len(following) == wanted or len(usable) == len(group.members) == sum(
                state.draining for state in usable.values()
            )
            if others:
                assert len({hosts[other] for other in (name, *following)}) == 1 + len(following)


@given(groups(), st.data())
@hypothesis_settings(max_examples=150, deadline=None)
def test_a_group_of_two_versions_settles_with_each_task_at_a_member_that_knows_its_prevailing_definition(
    group: SimulatedGroup, data: st.DataObject
) -> None:
    live(data, group, upgrades=True)
    group.settle()

    votes: dict[TaskId, Counter[str]] = {}
    for state in group.members.values():
        for task, definition in state.definitions.items():
            votes.setdefault(task, Counter())[definition] += 1
    owners = {task: name for name, plan in group.plan.members.items() for task in plan.active}
    assert owners.keys() == votes.keys()
    for name, plan in group.plan.members.items():
        for task in plan.active | plan.standby:
            mine = votes[task][group.members[name].definitions[task]]
            assert mine == max(votes[task].values())


@given(groups(), st.data())
@hypothesis_settings(max_examples=100, deadline=None)
def test_a_settled_group_loses_one_member_and_only_its_tasks_move_at_once_to_caught_up_standbys(
    group: SimulatedGroup, data: st.DataObject
) -> None:
    group.settle()
    victim = data.draw(st.sampled_from(sorted(group.members)))
    before = group.members
    dead = before[victim]
    group.members = {name: state for name, state in before.items() if name != victim}
    assume(group.members and dead.active)

    group.round()

    for name, plan in group.plan.members.items():
        assert plan.active >= before[name].active
        for task in plan.active - before[name].active:
            replicas = [other for other in group.members if task in before[other].lags]
            assert task in dead.active
            assert not replicas or name in replicas
    assert {task for plan in group.plan.members.values() for task in plan.active} == set(dead.definitions)


@given(groups(), st.data())
@hypothesis_settings(max_examples=50, deadline=None)
def test_the_order_in_which_anything_is_given_changes_nothing(group: SimulatedGroup, data: st.DataObject) -> None:
    live(data, group, upgrades=True)
    turned = {
        name: replace(
            state,
            definitions=dict(reversed(list(state.definitions.items()))),
            lags=dict(reversed(list(state.lags.items()))),
        )
        for name, state in reversed(list(group.members.items()))
    }
    group.round()

    assert HighAvailabilityTaskAssignor().assign(turned, group.settings) == group.plan
