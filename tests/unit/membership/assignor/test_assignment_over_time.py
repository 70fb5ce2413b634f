"""A group that lives through joins, failures, drains and upgrades: the rules hold in every round, and in the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import assume, given, strategies as st

from assigned_group import SimulatedGroup
from streamsapp import TaskId
from streamsapp.membership.api import TaskInfo
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.membership.assignor.model import AssignorSettings, MemberState


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
        definitions={task: TaskInfo(frozenset(), True, f"{version}-{task.subtopology}") for task in known},
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
def test_a_group_of_two_versions_settles_with_all_who_have_a_task_knowing_it_alike(
    group: SimulatedGroup, data: st.DataObject
) -> None:
    live(data, group, upgrades=True)
    group.settle()

    hosts, usable = hosts_of(group), staying(group)
    needed = min(1 + group.settings.standby_replicas, len({hosts[name] for name in usable}))
    active = Counter(task for plan in group.plan.members.values() for task in plan.active)
    assert set(active.values()) <= {1}
    for task in {task for state in group.members.values() for task in state.definitions}:
        known = {
            state.definitions[task]
            for name, state in group.members.items()
            if task in group.plan.members[name].active | group.plan.members[name].standby
        }
        assert len(known) <= 1
        if len({hosts[name] for name, state in usable.items() if task in state.definitions}) >= needed:
            assert task in active


@given(groups(), st.data())
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
