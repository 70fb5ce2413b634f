"""Chooses the instance to ask for a task's stores, from the tasks that are here and the group's. Pure; called on
threads that query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from streamsapp.membership.api import Peer
from streamsapp.query.api import GLOBAL, Staleness, TaskView
from streamsapp.record import TaskId


@dataclass(frozen=True)
class Hosts:
    """Endpoints of the instances that have a task; instances without a server are left out."""

    active: str | None
    standby: tuple[str, ...]


def hosts_of(task_id: TaskId, peers: Mapping[str, Peer]) -> Hosts:
    """Returns the endpoints of a task, as the group's last assignment has it."""
    active = {peer.endpoint for peer in peers.values() if task_id in peer.active and peer.endpoint}
    standby = {peer.endpoint for peer in peers.values() if task_id in peer.standby and peer.endpoint}
    return Hosts(min(active, default=None), tuple(sorted(standby - active)))


def may_answer(task: TaskView | None, staleness: Staleness | None, now_ms: int) -> bool:
    """Says whether the store here may be read: that of the active task always, any other within the bounds that were
    given."""
    if task is None:
        return False
    if task.id == GLOBAL:
        return task.running and (staleness is None or staleness.admits(task, now_ms))
    return task.authoritative or (staleness is not None and staleness.admits(task, now_ms))


def to_ask(hosts: Hosts, staleness: Staleness | None) -> tuple[str, ...]:
    """Returns the endpoints to try, the best first."""
    active = () if hosts.active is None else (hosts.active,)
    return active if staleness is None else (*active, *hosts.standby)
