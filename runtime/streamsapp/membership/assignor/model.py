"""The question that an assignor is asked, and its answer.

Made by the group's leader, on the membership's thread, whenever the group rebalances.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamsapp.membership.api import TaskInfo
from streamsapp.record import TaskId


@dataclass(frozen=True)
class MemberState:
    """One member as it described itself when it joined."""

    #: Members with the same host are one pod: a task's standby stays off its active's. Empty: a host of its own.
    host: str
    #: How much it can do, relative to the others.
    threads: int
    #: Tasks it owns now: no other member may get them before it gave them up.
    active: frozenset[TaskId] = frozenset()
    #: Its standbys and warm-up replicas, and how many records each is behind; ``None`` if that is not known.
    lags: Mapping[TaskId, int | None] = field(default_factory=dict)
    #: Tasks that left state of unknown age on its disk; decides only between equals.
    on_disk: frozenset[TaskId] = frozenset()
    #: It is about to leave and wants to be rid of its tasks.
    draining: bool = False
    #: The place where it runs, such as ``{"zone": "a"}`` (KIP-708).
    tags: Mapping[str, str] = field(default_factory=dict)
    #: The tasks it knows, each as its topology has it.
    definitions: Mapping[TaskId, TaskInfo] = field(default_factory=dict)
    #: The tasks among them with a changelog.
    stateful: frozenset[TaskId] = frozenset()


@dataclass(frozen=True)
class AssignorSettings:
    """The settings of the group; the leader's are used for all."""

    standby_replicas: int = 0
    acceptable_recovery_lag: int = 10_000
    max_warmup_replicas: int = 2
    #: Keys of the tags whose values a task's replicas should differ in.
    rack_tags: tuple[str, ...] = ()

    def caught_up(self, lag: int | None) -> bool:
        """Return whether a replica that far behind may become active; one of unknown lag never."""
        return lag is not None and lag <= self.acceptable_recovery_lag


@dataclass(frozen=True)
class MemberPlan:
    """The tasks of one member until the next rebalance."""

    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    #: Replicas made for a move; when one has caught up, which it may have from the start, it is time to assign anew.
    warmup: frozenset[TaskId] = frozenset()
    #: Sentences about the tasks that it does not get because of its topology; it logs them.
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The tasks of all members. A task that is in no member's ``active`` has an owner, which must give it up first."""

    members: Mapping[str, MemberPlan]
    #: Something waits for a replica to catch up, or for the group to settle: assign anew after a while.
    follow_up: bool = False
    #: Tasks that no member gets, as too few know them: a draining member does not wait until another has them.
    held_back: frozenset[TaskId] = frozenset()
    #: The members that are to run the tasks that their owners must give up first. A task that has one here goes on
    #: there as soon as its owner has committed it for the last time, without another rebalance.
    heirs: Mapping[TaskId, str] = field(default_factory=dict)


class TaskAssignor(Protocol):
    """Decides where tasks run (KIP-924). It may use nothing but its arguments, as any member can become the leader.

    A task in a member's ``MemberState.active`` must not be given to another member. Leave it out of every plan: its
    owner gives it up, and the next call can give it away.
    """

    def assign(self, members: Mapping[str, MemberState], settings: AssignorSettings) -> Plan: ...
