"""The difference between two assignments for the tasks of an instance. Pure; called on the polling thread."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from streamsapp.membership.api import Assignment
from streamsapp.record import TaskId
from streamsapp.tasks.states import TaskRole


@dataclass(frozen=True)
class Changes:
    """The way from the roles that tasks have to those they are assigned; tasks that are not named stay as they are."""

    #: Active tasks that another instance gets once they are committed and given up, or that are made anew here then, as
    #: they read other topics now; what becomes of each here.
    given_up: Mapping[TaskId, TaskRole | None]
    #: Replicas that become active.
    promoted: frozenset[TaskId]
    #: Replicas that are closed.
    dropped: frozenset[TaskId]
    #: Replicas that only change what they are kept for.
    renamed: Mapping[TaskId, TaskRole]
    #: Tasks that are not here yet.
    created: Mapping[TaskId, TaskRole]


def assigned_roles(assignment: Assignment) -> dict[TaskId, TaskRole]:
    """Every task of this instance with its role."""
    return {
        **dict.fromkeys(assignment.standby, TaskRole.STANDBY),
        **dict.fromkeys(assignment.warmup, TaskRole.WARMUP),
        **dict.fromkeys(assignment.active, TaskRole.ACTIVE),
    }


def changes(
    current: Mapping[TaskId, TaskRole], wanted: Mapping[TaskId, TaskRole], altered: Collection[TaskId] = ()
) -> Changes:
    """Compare the roles that tasks have with those they are to have. Tasks that are ``altered`` read other partitions
    than before: they are made anew."""
    active = {task_id for task_id, role in current.items() if role is TaskRole.ACTIVE}
    anew = (current.keys() - active) & {*altered}
    replicas = current.keys() - active - anew
    return Changes(
        given_up={
            each: wanted.get(each)
            for each in sorted(active)
            if wanted.get(each) is not TaskRole.ACTIVE or each in altered
        },
        promoted=frozenset(each for each in replicas if wanted.get(each) is TaskRole.ACTIVE),
        dropped=frozenset((replicas - wanted.keys()) | anew),
        renamed={
            each: wanted[each]
            for each in sorted(replicas & wanted.keys())
            if wanted[each] not in (current[each], TaskRole.ACTIVE)
        },
        created={each: wanted[each] for each in sorted(wanted.keys() - (current.keys() - anew))},
    )
