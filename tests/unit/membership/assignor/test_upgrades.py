"""Rolling upgrades to a version whose topology is another: what runs where while both are in the group."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from assigned_group import SimulatedGroup
from streamsapp import TaskId, TopicPartition
from streamsapp.membership.api import TaskInfo
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.membership.assignor.model import AssignorSettings, MemberState

PODS = ("pod-0", "pod-1", "pod-2")
TASKS = [TaskId(0, partition) for partition in range(6)]
APPENDED = [TaskId(1, partition) for partition in range(3)]
COUNTS = ("counts", "KEY_VALUE")


def info(task: TaskId, topic: str = "in", *stores: tuple[str, str]) -> TaskInfo:
    read = frozenset({TopicPartition(topic, task.partition)})
    return TaskInfo(read, bool(stores), f"{topic} {stores}", frozenset(stores))


OLD = {task: info(task, "in", COUNTS) for task in TASKS}
VERSIONS = {
    "a node more": {task: replace(known, definition="another") for task, known in OLD.items()},
    "a store more": {task: info(task, "in", COUNTS, ("totals", "WINDOW")) for task in TASKS},
    "a sub-topology more": {**OLD, **{task: info(task, "repartition", ("sums", "KEY_VALUE")) for task in APPENDED}},
    "a sub-topology without state more": {**OLD, **{task: info(task, "repartition") for task in APPENDED}},
}


def pod(name: str, definitions: dict[TaskId, TaskInfo]) -> MemberState:
    stateful = frozenset(task for task, known in definitions.items() if known.stateful)
    return MemberState(name, 1, definitions=definitions, stateful=stateful)


def settled(*, standbys: int = 1, **pods: dict[TaskId, TaskInfo]) -> SimulatedGroup:
    return settle_all(pods, standbys)


def settle_all(pods: Mapping[str, dict[TaskId, TaskInfo]], standbys: int = 1) -> SimulatedGroup:
    group = SimulatedGroup(AssignorSettings(standby_replicas=standbys, max_warmup_replicas=2))
    for name, definitions in pods.items():
        group.members[name] = pod(name, definitions)
    group.settle()
    return group


def may_go(group: SimulatedGroup, name: str) -> bool:
    """Answers the gate's question: every store of every task is kept by another pod, caught up."""
    return all(
        any(
            other != name and state.lags.get(task) == 0 and state.definitions[task].covers(leaving.definitions[task])
            for other, state in group.members.items()
        )
        for leaving in [group.members[name]]
        for task in leaving.active & leaving.stateful
    )


def replace_pod(group: SimulatedGroup, name: str, definitions: dict[TaskId, TaskInfo]) -> None:
    """It drains, goes, and comes back with another version and an empty disk."""
    group.members[name] = replace(group.members[name], draining=True)
    group.settle()
    assert not group.members[name].active, "it handed everything over"
    taken = {task for other, state in group.members.items() if other != name for task in state.active}
    assert group.members[name].definitions.keys() <= taken | group.plan.held_back, "it waits for nobody"
    del group.members[name]
    group.settle()
    running = {task for state in group.members.values() for task in state.active}
    assert running >= set(TASKS), "what ran goes on without it"
    group.members[name] = pod(name, definitions)
    group.settle()


@pytest.mark.parametrize("new", VERSIONS.values(), ids=VERSIONS.keys())
@pytest.mark.parametrize("back", [False, True], ids=["forth", "and back"])
def test_every_pod_of_a_rolling_upgrade_may_go_when_its_turn_comes(new: dict[TaskId, TaskInfo], back: bool) -> None:
    first, second = (new, OLD) if back else (OLD, new)
    group = settle_all(dict.fromkeys(PODS, first))

    for name in PODS:
        assert all(may_go(group, each) for each in PODS), group.plan
        replace_pod(group, name, second)

    assert all(may_go(group, each) for each in PODS)
    assert {task for state in group.members.values() for task in state.active} == second.keys()
    shares = sorted(len(state.active) for state in group.members.values())
    assert shares[-1] - shares[0] <= 1


@pytest.mark.parametrize("new", VERSIONS.values(), ids=VERSIONS.keys())
def test_a_pod_that_fails_during_an_upgrade_and_comes_back_with_the_old_version_does_not_stop_it(
    new: dict[TaskId, TaskInfo],
) -> None:
    group = settle_all(dict.fromkeys(PODS, OLD))
    replace_pod(group, "pod-2", new)

    del group.members["pod-0"]
    group.settle()
    assert {task for state in group.members.values() for task in state.active} >= set(TASKS)
    group.members["pod-0"] = pod("pod-0", OLD)
    group.settle()

    assert all(may_go(group, each) for each in PODS), group.plan
    for name in ("pod-1", "pod-0"):
        replace_pod(group, name, new)
    assert all(may_go(group, each) for each in PODS)
    assert {task for state in group.members.values() for task in state.active} == new.keys()


def owners(group: SimulatedGroup, tasks: Iterable[TaskId]) -> set[str]:
    return {name for name, state in group.members.items() if state.active & set(tasks)}


def test_a_new_sub_topology_waits_for_hosts_for_its_standbys_and_says_so() -> None:
    new = VERSIONS["a sub-topology more"]

    group = settled(a=OLD, b=OLD, c=new)
    assert owners(group, APPENDED) == set()
    (note,) = group.plan.members["c"].notes
    assert note.startswith("sub-topology 1 is not known to enough instances: its tasks run once 2 hosts")
    assert group.plan.members["a"].notes == ()

    group.members["b"] = pod("b", new)
    group.settle()
    assert owners(group, APPENDED) <= {"b", "c"}
    assert owners(group, APPENDED)
    assert group.plan.members["c"].notes == ()


def test_a_new_sub_topology_that_wants_no_standbys_starts_at_once() -> None:
    assert owners(settled(standbys=0, a=OLD, c=VERSIONS["a sub-topology more"]), APPENDED) == {"c"}
    assert owners(settled(standbys=1, a=OLD, c=VERSIONS["a sub-topology without state more"]), APPENDED) == {"c"}


def test_what_only_one_pod_knows_stops_rather_than_being_stuck_there_without_a_standby() -> None:
    new = VERSIONS["a sub-topology more"]
    group = settled(a=OLD, b=new, c=new)

    del group.members["c"]
    group.settle()

    assert owners(group, APPENDED) == set()
    assert owners(group, TASKS) == {"a", "b"}


@pytest.mark.parametrize(
    ("new", "why"),
    [
        ({task: info(task, "other", COUNTS) for task in TASKS}, "it reads other here and in there"),
        (
            {task: info(task, "in", ("counts", "WINDOW")) for task in TASKS},
            "stores that are not there here: counts (KEY_VALUE)",
        ),
    ],
)
def test_a_member_whose_tasks_read_or_keep_something_else_gets_none_and_is_told_why(
    new: dict[TaskId, TaskInfo], why: str
) -> None:
    group = settled(a=OLD, b=OLD)
    before = {name: state.active for name, state in group.members.items()}
    for name in ("c", "d", "e"):
        group.members[name] = pod(name, new)
        group.settle()

    assert {name: state.active for name, state in group.members.items() if state.active} == before
    assert group.plan.members["c"].standby == frozenset()
    assert why in group.plan.members["c"].notes[0]

    for name in ("a", "b"):
        del group.members[name]
    group.settle()
    assert owners(group, TASKS) == {"c", "d", "e"}
    assert group.plan.members["c"].notes == ()


def test_the_last_pod_of_an_old_version_gives_up_at_once_what_nobody_can_take_over_as_it_is() -> None:
    group = settled(a=OLD, b={task: info(task, "other", COUNTS) for task in TASKS})
    group.members = {"a": group.members["a"], "b": replace(group.members["b"], active=frozenset())}
    group.members["a"] = replace(group.members["a"], active=frozenset(TASKS), draining=True)
    group.settle()

    assert owners(group, TASKS) == {"b"}


def test_two_pods_that_know_tasks_differently_and_of_which_nobody_runs_them_still_run_them() -> None:
    group = settled(a=OLD, b={task: info(task, "other", COUNTS) for task in TASKS})

    assert {task for state in group.members.values() for task in state.active} == set(TASKS)


def test_a_member_of_a_version_that_does_not_tell_its_stores_is_compared_by_its_fingerprint() -> None:
    untold = {task: replace(known, stores=None) for task, known in OLD.items()}

    group = settled(a=untold, b=OLD)
    assert owners(group, TASKS) == {"a", "b"}

    other = {task: replace(known, definition="another") for task, known in untold.items()}
    group.members["c"] = pod("c", other)
    group.settle()
    assert owners(group, TASKS) == {"a", "b"}
    assert "its nodes differ" in group.plan.members["c"].notes[0]


SUMS = ("sums", "KEY_VALUE")
#: Two versions that both fit the old one: sub-topology 1 of the first is sub-topology 2 of the second.
FIRST = {**OLD, **{task: info(task, "more", SUMS) for task in APPENDED}}
SECOND = {
    **OLD,
    **{task: info(task, "other", ("others", "KEY_VALUE")) for task in APPENDED},
    **{TaskId(2, task.partition): info(TaskId(2, task.partition), "more", SUMS) for task in APPENDED},
}
#: The same store, filled from another topic.
FILLED_OTHERWISE = {**OLD, **{TaskId(2, it.partition): info(TaskId(2, it.partition), "new", SUMS) for it in APPENDED}}
RENUMBERED = [task for task in SECOND if task.subtopology == 2]


def test_two_versions_that_both_fit_a_third_never_read_one_partition_at_a_time() -> None:
    group = settled(standbys=0, a=OLD, b=FIRST)
    assert owners(group, APPENDED) == {"b"}
    group.members["c"] = pod("c", SECOND)
    group.settle()

    assert owners(group, APPENDED) == {"b"}
    assert owners(group, RENUMBERED) == set()
    assert owners(group, TASKS) == {"a", "c"}, "what all know alike goes on, and is shared"
    first, second = group.plan.members["c"].notes
    assert "gets none of its tasks while others run another version of it" in first
    assert second == (
        "sub-topology 2: its tasks wait for task 1_2, which instances with another topology run: both would use more-2"
    )
    assert set(RENUMBERED) <= group.plan.held_back, "who drains waits for nobody to take them"

    group.members["b"] = replace(group.members["b"], draining=True)
    group.settle()
    assert owners(group, RENUMBERED) == {"c"}, "they go on as soon as the other has given up"
    assert group.plan.members["c"].notes == ()


def test_a_store_is_written_by_tasks_of_one_id_at_a_time() -> None:
    group = settled(standbys=0, b=FIRST, c=FILLED_OTHERWISE)
    assert owners(group, APPENDED) == {"b"}
    assert owners(group, RENUMBERED) == set()
    assert "both would use store sums of partition 2" in group.plan.members["c"].notes[0]


def test_of_two_that_run_one_partition_already_one_gives_up() -> None:
    """A leader of an older version let them."""
    group = settled(standbys=0, b=FIRST, c=OLD)
    group.members["c"] = replace(pod("c", SECOND), active=frozenset(RENUMBERED))
    plan = HighAvailabilityTaskAssignor().assign(group.members, group.settings)
    assert set(APPENDED) <= plan.members["b"].active
    assert not plan.members["c"].active & set(RENUMBERED)


@pytest.mark.seeds(40)
def test_whatever_versions_come_and_go_no_partition_and_no_store_has_two_tasks(seed: int) -> None:
    """``SimulatedGroup`` looks at each round."""
    rng = random.Random(seed)
    topics = [f"t{number}" for number in range(4)]

    def version() -> dict[TaskId, TaskInfo]:
        """The old one and some more, in any order, each with a store of its own, of another, or with none."""
        stores = [(f"s{number}", "KEY_VALUE") for number in range(4)]
        rng.shuffle(stores)
        found = dict(OLD) if rng.random() < 0.7 else {}
        for number, topic in enumerate(rng.sample(topics, rng.randint(1, 4)), start=len(found) and 1):
            kept = [stores.pop()] if rng.random() < 0.6 else []
            found |= {TaskId(number, it): info(TaskId(number, it), topic, *kept) for it in range(3)}
        return found

    versions = [OLD, *(version() for _ in range(3))]
    group = SimulatedGroup(AssignorSettings(standby_replicas=rng.randint(0, 1)))
    for turn in range(60):
        name = f"m{rng.randrange(5)}"
        action = rng.random()
        if name not in group.members:
            group.members[name] = pod(name, rng.choice(versions))
        elif action < 0.3:
            group.members.pop(name)
        elif action < 0.5:
            group.members[name] = replace(group.members[name], draining=True)
        group.catch_up(rng.sample(sorted(group.members), rng.randint(0, len(group.members))))
        group.round()
        if turn % 10 == 9:
            group.settle()
    last = rng.choice(versions)
    group.members = {name: pod(name, last) for name in ("x", "y")}
    group.settle()
    assert {task for state in group.members.values() for task in state.active} == last.keys()
