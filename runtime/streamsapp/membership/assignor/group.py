"""The group as the assignor sees it: members numbered by name, and of each task the definition that prevails.

Made by the assignor for one assignment; pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from streamsapp.membership.assignor.model import MemberState
from streamsapp.record import TaskId


@dataclass
class Kind:
    """Tasks that the same members may run, all with state or all without; each kind is balanced by itself."""

    stateful: bool
    #: Who may run them: those who know their definition and stay, or all who know it if none of them stays.
    members: tuple[int, ...]
    #: None of its members stays: nothing is moved.
    frozen: bool
    tasks: list[TaskId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.staying = frozenset(self.members)


@dataclass
class _Version:
    """Members that know the same tasks by the same definitions."""

    definitions: Mapping[TaskId, str]
    stateful: frozenset[TaskId]
    members: list[int] = field(default_factory=list)


class Group:
    """Everything about members is a list by member number; what a member has of another definition is left out."""

    def __init__(self, members: Mapping[str, MemberState]) -> None:
        self.names = sorted(members)
        self.states = [members[name] for name in self.names]
        self.hosts = [state.host or name for name, state in zip(self.names, self.states, strict=True)]
        self.weight = [max(1, state.threads) for state in self.states]
        #: Who claims a task, whatever its definition: it must not be given to anybody else yet.
        self.claims = _by_task(state.active for state in self.states)
        self.kinds = self._sort_into_kinds()
        self.kind_of = {task: kind for kind in self.kinds for task in kind.tasks}
        #: The one of those who claim a task that keeps it.
        self.owner = self._owners()
        #: Replicas and how far they are behind.
        self.replicas: dict[TaskId, dict[int, int | None]] = {task: {} for task in self.kind_of}
        for m, state in enumerate(self.states):
            for task, lag in state.lags.items():
                if self._knows(m, task) and self.owner.get(task) != m:
                    self.replicas[task][m] = lag
        self.on_disk = {
            task: [m for m in found if self._knows(m, task)]
            for task, found in _by_task(state.on_disk for state in self.states).items()
            if task in self.kind_of
        }

    def _sort_into_kinds(self) -> list[Kind]:
        versions = self._versions()
        kinds: dict[tuple[int, bool], Kind] = {}
        members_of: dict[int, tuple[int, ...]] = {}
        self._definition: dict[TaskId, str] = {}
        for task in sorted(set().union(*(version.definitions for version in versions))):
            definition = self._prevailing(task, versions)
            self._definition[task] = definition
            knowing = [v for v, version in enumerate(versions) if version.definitions.get(task) == definition]
            which = sum(1 << v for v in knowing)
            stateful = task in versions[knowing[0]].stateful
            if which not in members_of:
                members_of[which] = tuple(sorted(m for v in knowing for m in versions[v].members))
            if (which, stateful) not in kinds:
                kinds[which, stateful] = self._kind(stateful, members_of[which])
            kinds[which, stateful].tasks.append(task)
        # Those with the fewest members have the least choice; state counts for more than none.
        return sorted(kinds.values(), key=lambda kind: (not kind.stateful, len(kind.members), kind.tasks[0]))

    def _versions(self) -> list[_Version]:
        versions: list[_Version] = []
        for m, state in enumerate(self.states):
            for version in versions:
                if version.definitions is state.definitions or version.definitions == state.definitions:
                    break
            else:
                version = _Version(state.definitions, state.stateful)
                versions.append(version)
            version.members.append(m)
        return versions

    def _prevailing(self, task: TaskId, versions: list[_Version]) -> str:
        """The definition most members know; between equals the one that runs now, then the smallest."""
        votes: dict[str, int] = {}
        for version in versions:
            definition = version.definitions.get(task)
            if definition is not None:
                votes[definition] = votes.get(definition, 0) + len(version.members)
        if len(votes) == 1:
            return next(iter(votes))
        running = {self.states[m].definitions.get(task) for m in self.claims.get(task, ())}
        return min(votes, key=lambda definition: (-votes[definition], definition not in running, definition))

    def _kind(self, stateful: bool, knowing: tuple[int, ...]) -> Kind:
        staying = tuple(m for m in knowing if not self.states[m].draining)
        return Kind(stateful, staying or knowing, frozen=not staying)

    def _knows(self, m: int, task: TaskId) -> bool:
        return task in self._definition and self.states[m].definitions.get(task) == self._definition[task]

    def _owners(self) -> dict[TaskId, int]:
        owners: dict[TaskId, int] = {}
        for task, claiming in self.claims.items():
            rightful = [m for m in claiming if self._knows(m, task)]
            if rightful:
                owners[task] = min(rightful, key=lambda m: (self.states[m].draining, m))
        return owners


def _by_task(sets: Iterable[frozenset[TaskId]]) -> dict[TaskId, list[int]]:
    found: dict[TaskId, list[int]] = {}
    for m, tasks in enumerate(sets):
        for task in tasks:
            found.setdefault(task, []).append(m)
    return found
