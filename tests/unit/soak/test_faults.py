"""The decisions that a seed makes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from faults import (
    AT_LEAST_ONCE,
    BROKER,
    EVERYBODY,
    EXACTLY_ONCE,
    OBJECTS,
    S3,
    SESSION,
    THREE_BROKERS,
    Fault,
    Kind,
    Plan,
    make_plan,
)

SEEDS = range(1, 201)


REMOTE = {Kind.WIPE, Kind.WIPE_ALL, Kind.RESTART_S3, Kind.FREEZE_S3, Kind.FLIP, Kind.DELETE}


def plans(
    guarantee: str | None = None,
    instances: int = 3,
    *,
    broker_restarts: bool = False,
    remote: bool = False,
    secured: bool = False,
) -> list[Plan]:
    options = {"broker_restarts": broker_restarts, "remote": remote, "secured": secured}
    return [make_plan(seed, guarantee, instances, **options) for seed in SEEDS]


def test_a_seed_always_makes_the_same_plan() -> None:
    assert plans() == plans()
    assert len({plan.faults for plan in plans()}) == len(SEEDS)


def test_seeds_take_turns_between_the_guarantees_unless_one_is_given() -> None:
    assert Counter(plan.guarantee for plan in plans()) == {EXACTLY_ONCE: 100, AT_LEAST_ONCE: 100}
    assert {plan.guarantee for plan in plans(EXACTLY_ONCE)} == {EXACTLY_ONCE}


def test_every_kind_of_fault_happens() -> None:
    happened = Counter(fault.kind for plan in plans(remote=True) for fault in plan.faults)

    assert happened.keys() == set(Kind)


def test_disks_and_the_object_store_are_hurt_with_remote_state_only() -> None:
    assert {plan.snapshot_interval for plan in plans()} == {0.0}
    assert {fault.kind for plan in plans() for fault in plan.faults} == set(Kind) - REMOTE
    assert {plan.snapshot_interval for plan in plans(remote=True)} == {1.0, 2.0}


def test_all_disks_are_wiped_at_once_only_when_everybody_is_there_and_often_without_the_object_store() -> None:
    without_s3 = 0
    for plan in plans(remote=True):
        for fault in plan.faults:
            if fault.kind is Kind.WIPE_ALL:
                hurt = {each.target for each in plan.faults if each.at < fault.at < each.until}
                assert hurt <= {BROKER, S3, OBJECTS}
                without_s3 += S3 in hurt
    assert without_s3 > 10


def test_stops_and_cuts_are_well_below_or_well_above_the_session() -> None:
    lasting = [
        fault.lasting
        for plan in plans()
        for fault in plan.faults
        if fault.kind in (Kind.STOP, Kind.CUT, Kind.CUT_LATE, Kind.FREEZE_BROKER)
    ]

    assert not [each for each in lasting if 0.7 * SESSION < each < 1.2 * SESSION]
    assert min(lasting) < SESSION < max(lasting)


def test_a_victim_is_left_alone_until_its_fault_is_undone() -> None:
    for plan in [*plans(), *plans(remote=True)]:
        for victim in {fault.target for fault in plan.faults}:
            faults = [fault for fault in plan.faults if fault.target == victim]
            assert all(before.until <= after.at for before, after in pairwise(faults)), plan


def test_only_instances_that_are_there_are_hurt_and_some_always_stay() -> None:
    for plan in [*plans(), *plans(remote=True)]:
        present = set(plan.instances)
        for fault in plan.faults:
            if fault.kind is Kind.ADD:
                assert fault.target not in present
                present.add(fault.target)
            elif fault.target not in (BROKER, S3, OBJECTS, EVERYBODY):
                assert fault.target in present
            if fault.kind is Kind.REMOVE:
                present.remove(fault.target)
        assert len(present) >= 2


def test_a_single_instance_stays_a_single_one() -> None:
    assert {name for plan in plans(instances=1) for name in plan.names} == {"a"}
    assert {plan.standby_replicas for plan in plans(instances=1)} == {0}


def test_exactly_once_meets_a_restarting_broker_on_request_only() -> None:
    assert not any(plan.restarts_broker for plan in plans(EXACTLY_ONCE))
    assert any(plan.restarts_broker for plan in plans(EXACTLY_ONCE, broker_restarts=True))
    assert any(plan.restarts_broker for plan in plans(AT_LEAST_ONCE))


def test_two_of_three_brokers_are_hurt_one_at_a_time_under_both_guarantees() -> None:
    controller, *others = THREE_BROKERS
    for guarantee in (EXACTLY_ONCE, AT_LEAST_ONCE):
        found = [
            [each for each in plan.faults if each.target in THREE_BROKERS] for plan in plans(guarantee, secured=True)
        ]
        hurt = Counter((each.kind, each.target) for faults in found for each in faults)
        assert hurt.keys() == {(kind, each) for kind in (Kind.FREEZE_BROKER, Kind.RESTART_BROKER) for each in others}
        assert all(before.until <= after.at for faults in found for before, after in pairwise(faults))
        assert controller not in {target for _, target in hurt}


def test_a_broker_is_frozen_or_restarted_but_not_both_in_a_run() -> None:
    for plan in plans():
        assert len({fault.kind for fault in plan.faults if fault.target == BROKER}) <= 1


def test_without_transactions_nothing_arrives_late() -> None:
    """A broker cannot distinguish old requests of a producer without transactions from new ones."""
    late = {plan.guarantee for plan in plans() for fault in plan.faults if fault.kind is Kind.CUT_LATE}

    assert late == {EXACTLY_ONCE}


@pytest.mark.parametrize(
    ("fault", "told"),
    [(Fault(1.2, Kind.STOP, "b", 6.44), "1.2 SIGSTOP b 6.4 s"), (Fault(3.0, Kind.ADD, "d"), "3.0 add d")],
)
def test_a_fault_is_told_in_one_phrase(fault: Fault, told: str) -> None:
    assert str(fault) == told


def test_a_plan_can_be_cut_short() -> None:
    plan = make_plan(1, EXACTLY_ONCE, 3)
    short = plan.before(plan.faults[2].at)

    assert short.faults == plan.faults[:2]
    assert short.seed == plan.seed
