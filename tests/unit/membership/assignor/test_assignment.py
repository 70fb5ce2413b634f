"""Single decisions of the assignor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from streamsapp import TaskId
from streamsapp.membership.api import TaskInfo
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.membership.assignor.model import AssignorSettings, MemberPlan, MemberState, Plan

A, B, C, D = (TaskId(0, partition) for partition in range(4))
FOUR = (A, B, C, D)
NO_STANDBYS = AssignorSettings(acceptable_recovery_lag=100)
ONE_STANDBY = replace(NO_STANDBYS, standby_replicas=1)


def member(
    active: Iterable[TaskId] = (),
    lags: Mapping[TaskId, int | None] | None = None,
    *,
    known: Iterable[TaskId] = FOUR,
    version: str = "v1",
    stateful: bool = True,
    **others: object,
) -> MemberState:
    definitions = dict.fromkeys(known, TaskInfo(frozenset(), stateful, version))
    state = MemberState("", 1, frozenset(active), lags or {}, definitions=definitions)
    return replace(state, stateful=frozenset(definitions if stateful else ()), **others)  # type: ignore[arg-type]


def assign(settings: AssignorSettings = NO_STANDBYS, **members: MemberState) -> Plan:
    return HighAvailabilityTaskAssignor().assign(members, settings)


def test_no_members_need_no_plan() -> None:
    assert assign() == Plan({})


def test_a_task_stays_until_the_newcomers_replica_has_caught_up() -> None:
    first = assign(old=member(FOUR), new=member())

    assert first.members["old"].active == set(FOUR)
    assert len(first.members["new"].warmup) == 2
    assert first.follow_up

    [one, two] = first.members["new"].warmup
    behind = assign(old=member(FOUR), new=member(lags={one: 101, two: None}))

    assert behind == first


def test_a_move_takes_two_rounds_in_which_nobody_else_gets_the_task() -> None:
    taken = assign(old=member(FOUR), new=member(lags={A: 100, B: 0}))

    assert taken.members["old"].active == {C, D}
    assert taken.members["new"].active == set()
    assert taken.members["new"].standby == {A, B}
    assert not taken.follow_up

    given = assign(old=member((C, D), on_disk=frozenset({A, B})), new=member(lags={A: 100, B: 0}))

    assert given.members["new"].active == {A, B}


def test_tasks_without_state_move_without_waiting() -> None:
    taken = assign(old=member(FOUR, stateful=False), new=member(stateful=False))

    assert len(taken.members["old"].active) == 2
    assert not taken.follow_up


def test_shares_follow_the_number_of_threads() -> None:
    plan = assign(small=member(), large=member(threads=3))

    assert {name: len(its.active) for name, its in plan.members.items()} == {"small": 1, "large": 3}


def test_between_equally_loaded_members_the_one_that_is_least_behind_takes_over() -> None:
    plan = assign(a=member(lags={A: 5}, known=[A]), b=member(lags={A: 4}, known=[A]))

    assert plan.members["b"].active == {A}


def test_if_nobody_has_caught_up_the_one_with_the_least_to_restore_takes_over() -> None:
    behind = assign(a=member(lags={A: 5_000}, known=[A]), b=member(lags={A: 4_000}, known=[A]), c=member(known=[A]))
    on_disk = assign(a=member(known=[A]), b=member(known=[A], on_disk=frozenset({A})))

    assert behind.members["b"].active == {A}
    assert on_disk.members["b"].active == {A}


def test_a_member_that_drains_hands_over_what_others_have_and_keeps_the_rest_until_they_do() -> None:
    plan = assign(
        replace(NO_STANDBYS, max_warmup_replicas=1),
        leaving=member(FOUR, draining=True),
        staying=member(lags={A: 0}),
    )

    assert plan.members["leaving"].active == {B, C, D}
    assert plan.members["staying"].standby == {A}
    assert plan.members["staying"].warmup == {B, C, D}, "not limited"
    assert plan.follow_up


def test_a_member_that_drains_keeps_its_standby_only_until_another_has_caught_up() -> None:
    def leaving_follows(lag: int) -> bool:
        plan = assign(
            ONE_STANDBY,
            owner=member([A], known=[A]),
            leaving=member(lags={A: 0}, known=[A], draining=True),
            other=member(lags={A: lag}, known=[A]),
        )
        assert plan.members["other"].standby == {A}
        return A in plan.members["leaving"].standby

    assert leaving_follows(500)
    assert not leaving_follows(50)


def test_if_all_members_drain_everything_stays_where_it_is() -> None:
    plan = assign(ONE_STANDBY, a=member((A, B, C), {D: 0}, draining=True), b=member([D], {A: 0}, draining=True))

    assert plan.members == {
        "a": MemberPlan(frozenset({A, B, C}), standby=frozenset({D})),
        "b": MemberPlan(frozenset({D}), standby=frozenset({A})),
    }
    assert not plan.follow_up


def test_a_standby_is_not_given_up_before_its_replacement_has_caught_up() -> None:
    lags = dict.fromkeys(FOUR, 0)
    before = {"a": member(FOUR), "b": member(lags=lags), "c": member()}
    settings = replace(ONE_STANDBY, max_warmup_replicas=9)

    plan = assign(settings, **before)

    assert plan.members["b"].standby == set(FOUR)
    assert plan.members["c"].warmup
    assert not plan.members["c"].standby


@pytest.mark.parametrize("hosts", [("p", "p", "q"), ("q", "p", "p")])
def test_a_standby_is_not_on_its_actives_pod(hosts: tuple[str, str, str]) -> None:
    members = {f"m{number}": member(host=host) for number, host in enumerate(hosts)}

    plan = assign(ONE_STANDBY, **members)

    for task in FOUR:
        [active] = [members[name].host for name, its in plan.members.items() if task in its.active]
        [standby] = [members[name].host for name, its in plan.members.items() if task in its.standby]
        assert active != standby


def test_on_a_single_pod_a_standby_still_survives_one_instance() -> None:
    plan = assign(replace(ONE_STANDBY, standby_replicas=2), a=member(host="p"), b=member(host="p"))

    assert all(its.active | its.standby == set(FOUR) for its in plan.members.values())


def test_standbys_prefer_racks_that_the_task_is_not_in_yet() -> None:
    zones = {"a1": "a", "a2": "a", "b1": "b", "b2": "b", "c1": "c", "c2": "c"}
    settings = replace(NO_STANDBYS, standby_replicas=2, rack_tags=("zone",))

    plan = assign(settings, **{name: member(tags={"zone": zone}) for name, zone in zones.items()})

    for task in FOUR:
        assert {zones[name] for name, its in plan.members.items() if task in its.active | its.standby} == set("abc")


def test_a_standby_moves_to_a_better_rack_once_there_is_one() -> None:
    settings = replace(ONE_STANDBY, rack_tags=("zone",))
    near = {"a1": member([A], known=[A], tags={"zone": "a"}), "a2": member(lags={A: 0}, known=[A], tags={"zone": "a"})}

    waiting = assign(settings, **near, b=member(known=[A], tags={"zone": "b"}))
    moved = assign(settings, **near, b=member(lags={A: 0}, known=[A], tags={"zone": "b"}))

    assert waiting.members["a2"].standby == waiting.members["b"].warmup == {A}
    assert moved.members["a2"] == MemberPlan()
    assert moved.members["b"].standby == {A}


def test_the_failure_of_any_member_is_a_little_work_for_all_others() -> None:
    known = [TaskId(0, partition) for partition in range(90)]
    plan = assign(ONE_STANDBY, **{f"m{number}": member(known=known) for number in range(10)})

    owner = {task: name for name, its in plan.members.items() for task in its.active}
    pairs = Counter((owner[task], name) for name, its in plan.members.items() for task in its.standby)
    assert max(pairs.values()) <= 2


def test_of_two_definitions_the_one_that_runs_prevails_until_its_last_owner_is_gone() -> None:
    plan = assign(
        ONE_STANDBY,
        old=member([A], known=[A], version="v1"),
        new1=member(known=[A], version="v2"),
        new2=member(lags={A: 0}, known=[A], version="v2"),
    )

    assert plan.members["old"].active == {A}
    assert all(plan.members[name] == MemberPlan(notes=plan.members["new1"].notes) for name in ("new1", "new2"))
    assert "gets none of its tasks" in plan.members["new1"].notes[0]

    given = assign(
        ONE_STANDBY,
        old=member(known=[A], lags={A: 0}, version="v1"),
        new1=member(known=[A], version="v2"),
        new2=member(lags={A: 0}, known=[A], version="v2"),
    )

    assert given.members["new2"].active == {A}, "nobody runs it: most members know it so"
    assert given.members["new1"].standby == {A}
    assert given.members["old"].standby == set()


def test_between_as_many_definitions_the_one_that_runs_prevails_and_then_the_smallest() -> None:
    running = assign(a=member(known=[A], version="v1"), b=member([A], known=[A], version="v2"))
    fresh = assign(a=member(known=[A], version="v2"), b=member(known=[A], version="v1"))

    assert running.members["b"].active == {A}
    assert fresh.members["b"].active == {A}


def test_tasks_that_only_some_members_know_are_theirs_and_the_others_share_the_rest() -> None:
    plan = assign(old1=member(known=(A, B)), old2=member(known=(A, B)), new=member(known=FOUR))

    assert plan.members["new"].active == {C, D}
    assert [len(plan.members[name].active) for name in ("old1", "old2")] == [1, 1]


def test_of_two_members_that_claim_a_task_one_keeps_it() -> None:
    plan = assign(a=member([A], known=[A], draining=True), b=member([A], known=[A]))

    assert plan.members["a"].active == set()
    assert plan.members["b"].active == {A}


def test_a_task_that_nobody_knows_is_not_assigned() -> None:
    plan = assign(a=member([D], {C: 0}, known=(A, B)))

    assert plan.members["a"].active == {A, B}
    assert plan.members["a"].standby == set()


def test_nothing_that_runs_is_stopped_in_the_round_in_which_tasks_of_a_dead_member_are_placed() -> None:
    plan = assign(a=member((A, B, C)), b=member(lags={A: 0}))

    assert plan.members["a"].active == {A, B, C}
    assert plan.members["b"].active == {D}
