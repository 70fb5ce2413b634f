"""The assignor that is used unless the application brings its own.

Called by the group's leader, on the membership's thread, with what the members said when they joined; pure.
"""

from __future__ import annotations

from collections.abc import Mapping

from streamsapp.membership.assignor.actives import place_actives
from streamsapp.membership.assignor.group import Group
from streamsapp.membership.assignor.model import AssignorSettings, MemberPlan, MemberState, Plan
from streamsapp.membership.assignor.standbys import place_standbys
from streamsapp.record import TaskId


class HighAvailabilityTaskAssignor:
    """Sticky, balanced, and a task that runs moves only to a member that has caught up (KIP-441)."""

    def assign(self, members: Mapping[str, MemberState], settings: AssignorSettings) -> Plan:
        """Decide; the same for the same members, whatever their order."""
        return place(Group(members, settings.standby_replicas), settings)


def place(group: Group, settings: AssignorSettings) -> Plan:
    """The place of every task of the group: active tasks first, then their replicas."""
    actives = place_actives(group, settings)
    replicas = place_standbys(group, actives, settings)
    size = len(group.names)
    active: list[set[TaskId]] = [set() for _ in range(size)]
    standby: list[set[TaskId]] = [set() for _ in range(size)]
    warmup: list[set[TaskId]] = [set() for _ in range(size)]
    for task, m in actives.running.items():
        active[m].add(task)
    for task, m in actives.heirs.items():
        if group.kind_of[task].stateful:
            standby[m].add(task)  # keeps following until the task is given up
    for task, preparing in replicas.warmups.items():
        for m in preparing:
            warmup[m].add(task)
    for task, chosen in replicas.standbys.items():
        for m in chosen:
            if task not in warmup[m]:
                standby[m].add(task)
    plans = {
        name: MemberPlan(frozenset(active[m]), frozenset(standby[m]), frozenset(warmup[m]), group.notes_for(m))
        for m, name in enumerate(group.names)
    }
    waits = actives.waiting or replicas.waiting or replicas.warmups
    heirs = {task: group.names[m] for task, m in actives.heirs.items()}
    return Plan(plans, follow_up=bool(waits), held_back=frozenset(group.held_back), heirs=heirs)
