"""The changes that an assignment makes."""

from __future__ import annotations

from streamsapp import TaskId
from streamsapp.membership.api import Assignment
from streamsapp.runtime.assignment_changes import Changes, assigned_roles, changes
from streamsapp.tasks.states import TaskRole

ONE, TWO, THREE, FOUR, FIVE = (TaskId(0, number) for number in range(5))
ACTIVE, STANDBY, WARMUP = TaskRole.ACTIVE, TaskRole.STANDBY, TaskRole.WARMUP
NOTHING = Changes({}, frozenset(), frozenset(), {}, {})


def test_every_task_has_one_role() -> None:
    assignment = Assignment(frozenset({ONE}), standby=frozenset({TWO}), warmup=frozenset({THREE}))

    assert assigned_roles(assignment) == {ONE: ACTIVE, TWO: STANDBY, THREE: WARMUP}


def test_the_same_assignment_changes_nothing() -> None:
    roles = {ONE: ACTIVE, TWO: STANDBY, THREE: WARMUP}

    assert changes(roles, roles) == NOTHING


def test_new_tasks_are_created_in_their_role() -> None:
    wanted = {ONE: ACTIVE, TWO: STANDBY}

    assert changes({}, wanted).created == wanted


def test_active_tasks_that_go_elsewhere_are_given_up_and_may_stay_as_replicas() -> None:
    changed = changes({ONE: ACTIVE, TWO: ACTIVE, THREE: ACTIVE}, {ONE: ACTIVE, TWO: STANDBY})

    assert changed == Changes({TWO: STANDBY, THREE: None}, frozenset(), frozenset(), {}, {})


def test_replicas_are_promoted_dropped_and_renamed() -> None:
    changed = changes(
        {ONE: STANDBY, TWO: WARMUP, THREE: STANDBY, FOUR: STANDBY}, {ONE: ACTIVE, TWO: ACTIVE, THREE: WARMUP}
    )

    assert changed == Changes({}, frozenset({ONE, TWO}), frozenset({FOUR}), {THREE: WARMUP}, {})


def test_tasks_that_read_other_topics_are_made_anew_whatever_they_are() -> None:
    roles = {ONE: ACTIVE, TWO: STANDBY, THREE: STANDBY, FOUR: ACTIVE}
    wanted = {ONE: ACTIVE, TWO: STANDBY, THREE: ACTIVE, FOUR: ACTIVE}

    changed = changes(roles, wanted, [ONE, TWO, THREE])

    created = {TWO: STANDBY, THREE: ACTIVE}
    assert changed == Changes({ONE: ACTIVE}, frozenset(), frozenset({TWO, THREE}), {}, created)
