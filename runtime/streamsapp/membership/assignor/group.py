"""The group as the assignor sees it: members numbered by name, and for each task the members that may run it.

Members of two versions of an application may know a task differently. A member *covers* what another knows if its task
reads the same and has the same stores or more; then it can take over from the other. So the version that runs a task
decides who may have it. A task with state runs only as a version that enough hosts know for its standbys, where there
is such a version. Tasks of other ids that two versions would run on the same input, or on the same store, never run at
a time (``exclusive_use``).

Made by the assignor for one assignment, on the membership's thread; pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

from streamsapp.membership.api import TaskInfo
from streamsapp.membership.assignor.exclusive_use import ExclusiveUse, Rival
from streamsapp.membership.assignor.model import MemberState
from streamsapp.record import TaskId


@dataclass
class EligibleTasks:
    """Tasks that the same members may run, all with state or all without; each kind is balanced by itself."""

    stateful: bool
    #: The members that may run them: the members that cover their definition and stay, or all that cover it if none
    #: stays.
    members: tuple[int, ...]
    #: Of these, the members that get tasks to even out load: not the members of a version that too few hosts have for
    #: standbys.
    home: tuple[int, ...]
    #: None of its members stays: nothing is moved.
    frozen: bool
    tasks: list[TaskId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.staying = frozenset(self.members)


@dataclass
class _Version:
    """Members that know the same tasks by the same definitions."""

    definitions: Mapping[TaskId, TaskInfo]
    stateful: frozenset[TaskId]
    members: list[int] = field(default_factory=list)
    #: The hosts of the members that stay.
    hosts: frozenset[str] = frozenset()


class Group:
    """Everything about members is a list by member number; tasks of another definition are left out."""

    def __init__(self, members: Mapping[str, MemberState], standby_replicas: int = 0) -> None:
        self.names = sorted(members)
        self.states = [members[name] for name in self.names]
        self.hosts = [state.host or name for name, state in zip(self.names, self.states, strict=True)]
        self.weight = [max(1, state.threads) for state in self.states]
        #: The member that claims a task, whatever its definition: it must not be given to another member yet.
        self.claims = _by_task(state.active for state in self.states)
        #: Hosts that a task with state needs to have its standbys beside it.
        self._hosts_needed = min(1 + standby_replicas, len(self._hosts_of(range(len(self.names)))))
        self._versions = self._find_versions()
        self._definition: dict[TaskId, TaskInfo] = {}
        #: Tasks that no member gets: too few hosts know them, or others use what they need.
        self.held_back: set[TaskId] = set()
        #: Of these, the latter.
        self._excluded: dict[TaskId, Rival[TaskId]] = {}
        self.kinds = self._sort_into_kinds()
        self.kind_of = {task: kind for kind in self.kinds for task in kind.tasks}
        #: The one of the claiming members that keeps the task.
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

    def lag(self, task: TaskId, m: int) -> float:
        """The lag of the member's replica; infinite if it has none or does not know."""
        lag = self.replicas[task].get(m)
        return inf if lag is None else lag

    def notes_for(self, m: int) -> tuple[str, ...]:
        """Sentences about the tasks that the member does not get because of its topology."""
        if len(self._versions) == 1:
            return ()
        mine = self.states[m].definitions
        without: dict[int, str] = {}
        for task in sorted(mine):
            info = mine[task]
            if task in self._excluded:
                rival = self._excluded[task]
                without[task.subtopology] = (
                    f"sub-topology {task.subtopology}: its tasks wait for task {rival.holder}, which instances with "
                    f"another topology run: both would use {rival.what}"
                )
            elif task in self.held_back:
                without[task.subtopology] = (
                    f"sub-topology {task.subtopology} is not known to enough instances: its tasks run once "
                    f"{self._hosts_needed} hosts know them, which standbys need"
                )
            elif task in self._definition and not info.covers(self._definition[task]):
                without[task.subtopology] = (
                    f"sub-topology {task.subtopology}: this instance gets none of its tasks while others run another "
                    f"version of it: {_difference(info, self._definition[task])}"
                )
        return tuple(text for _, text in sorted(without.items()))

    # -- versions ----------------------------------------------------------------------------------------------------

    def _find_versions(self) -> list[_Version]:
        versions: list[_Version] = []
        for m, state in enumerate(self.states):
            for version in versions:
                if version.definitions is state.definitions or version.definitions == state.definitions:
                    break
            else:
                version = _Version(state.definitions, state.stateful)
                versions.append(version)
            version.members.append(m)
        for version in versions:
            version.hosts = self._hosts_of(version.members)
        return versions

    def _hosts_of(self, members: Iterable[int]) -> frozenset[str]:
        """The hosts of the members that stay, or of all if none does."""
        everybody_leaves = all(state.draining for state in self.states)
        return frozenset(self.hosts[m] for m in members if everybody_leaves or not self.states[m].draining)

    def _sort_into_kinds(self) -> list[EligibleTasks]:
        running = self._running_versions()
        choices: dict[TaskId, _Choice] = {}
        for task in sorted(set().union(*(version.definitions for version in self._versions))):
            choice = _Choice(task, self._versions, running, self._hosts_needed)
            definition = choice.made(self.claims.get(task, ()))
            if definition is None:
                self.held_back.add(task)
            else:
                choices[task], self._definition[task] = choice, definition
        if len(self._versions) > 1:
            self._exclude(choices)
        kinds: dict[tuple[tuple[int, ...], tuple[int, ...], bool], EligibleTasks] = {}
        for task, definition in self._definition.items():
            choice = choices[task]
            fitting = choice.fitting(definition)
            home = tuple(v for v in fitting if v in choice.common) or fitting
            stateful = any(task in self._versions[v].stateful for v in fitting)
            if (fitting, home, stateful) not in kinds:
                kinds[fitting, home, stateful] = self._kind(stateful, fitting, home)
            kinds[fitting, home, stateful].tasks.append(task)
        # Those with the fewest members have the least choice; state counts for more than none.
        return sorted(kinds.values(), key=lambda kind: (not kind.stateful, len(kind.members), kind.tasks[0]))

    def _exclude(self, choices: Mapping[TaskId, _Choice]) -> None:
        """Takes away tasks that would use what tasks of other ids use. Tasks that run go first, then tasks of
        sub-topologies that run, then the tasks that most members know. A claim counts as its member defines it."""
        use = ExclusiveUse[TaskId]()
        for task in sorted(self.claims, key=lambda it: (not any(self._knows(m, it) for m in self.claims[it]), it)):
            for info in (self.states[m].definitions.get(task) for m in self.claims[task]):
                if info is not None:
                    use.hold(task, task, info)
        rights = {task: choices[task].right(info) for task, info in self._definition.items()}
        for task in sorted(rights, key=lambda it: (it not in self.claims, rights[it], it)):
            # Whichever of its members gets it: one may have stores that the others lack.
            infos = choices[task].infos(self._definition[task])
            rival = next(filter(None, (use.rival(task, task, info) for info in infos)), None)
            if rival is not None:
                self._excluded[task] = rival
                del self._definition[task]
                continue
            for info in infos:
                use.hold(task, task, info)
        self.held_back |= self._excluded.keys()

    def _running_versions(self) -> set[tuple[int, int]]:
        """The sub-topologies whose tasks a version runs, with that version's number."""
        return {
            (task.subtopology, v)
            for v, version in enumerate(self._versions)
            for m in version.members
            for task in self.states[m].active
        }

    def _kind(self, stateful: bool, fitting: Iterable[int], home: Iterable[int]) -> EligibleTasks:
        knowing = tuple(sorted(m for v in fitting for m in self._versions[v].members))
        staying = tuple(m for m in knowing if not self.states[m].draining)
        members = staying or knowing
        at_home = {m for v in home for m in self._versions[v].members}
        return EligibleTasks(
            stateful, members, tuple(m for m in members if m in at_home) or members, frozen=not staying
        )

    def _knows(self, m: int, task: TaskId) -> bool:
        if task not in self._definition:
            return False
        mine = self.states[m].definitions.get(task)
        return mine is not None and mine.covers(self._definition[task])

    def _owners(self) -> dict[TaskId, int]:
        owners: dict[TaskId, int] = {}
        for task, claiming in self.claims.items():
            rightful = [m for m in claiming if self._knows(m, task)]
            if rightful:
                owners[task] = min(rightful, key=lambda m: (self.states[m].draining, m))
        return owners


class _Choice:
    """Chooses the definition of a task that its owner must cover at least."""

    def __init__(self, task: TaskId, versions: list[_Version], running: set[tuple[int, int]], hosts: int) -> None:
        self._versions = versions
        #: By number of version.
        self.known = {v: it.definitions[task] for v, it in enumerate(versions) if task in it.definitions}
        self._stateful = any(task in versions[v].stateful for v in self.known)
        self._hosts_needed = hosts if self._stateful else 1
        self._running = {v for v in self.known if (task.subtopology, v) in running}
        #: Versions whose tasks can have their standbys.
        self.common = {v for v, info in self.known.items() if self._enough(self._covering(info))}

    def fitting(self, definition: TaskInfo) -> tuple[int, ...]:
        """The versions that may run it by this definition."""
        return tuple(self._covering(definition))

    def infos(self, definition: TaskInfo) -> list[TaskInfo]:
        """The task as each of these has it."""
        return [self.known[v] for v in self.fitting(definition)]

    def right(self, definition: TaskInfo) -> tuple[bool, int]:
        """The lower, the more right it has to what it needs."""
        fitting = self.fitting(definition)
        votes = sum(len(self._versions[v].members) for v in fitting)
        return self._running.isdisjoint(fitting), -votes

    def made(self, owners: Iterable[int]) -> TaskInfo | None:
        """``None``: it does not run, because too few hosts know it. So an upgrade that adds a sub-topology, and one
        that takes it away, never leave a task at the last pod without a standby: no member could restart it then."""
        if not self._enough(self.known):
            return None
        claiming = set(owners)
        owning = [v for v in self.known if claiming.intersection(self._versions[v].members)]
        if owning:
            return self.known[self._for_owner(self._best(owning))]
        return self.known[self._best(self.common or self.known)]

    def _for_owner(self, own: int) -> int:
        """The version of the task's owner, as a rule."""
        if own in self.common:
            return own
        # A task that too few know goes back to the members that have a part of it, where there are any.
        back = [v for v in self.common if self.known[own].covers(self.known[v])]
        if back:
            return self._best(back)
        stays = any(self._versions[v].hosts for v in self._covering(self.known[own]))
        return own if stays or not self.common else self._best(self.common)

    def _covering(self, info: TaskInfo) -> Iterator[int]:
        return (v for v, other in self.known.items() if other.covers(info))

    def _enough(self, versions: Iterable[int]) -> bool:
        hosts: set[str] = set().union(*(self._versions[v].hosts for v in versions))
        return len(hosts) >= self._hosts_needed

    def _best(self, versions: Iterable[int]) -> int:
        """The definition that runs; without one, that which most members know; among equals always the same."""
        first, *others = versions
        if not others:
            return first
        return min([first, *others], key=lambda v: (v not in self._running, -self._votes(v), self._sortable(v)))

    def _votes(self, version: int) -> int:
        info = self.known[version]
        same = (v for v, other in self.known.items() if other.covers(info) and info.covers(other))
        return sum(len(self._versions[v].members) for v in same)

    def _sortable(self, version: int) -> str:
        info = self.known[version]
        return repr((info.definition, sorted(info.partitions), sorted(info.stores or ())))


def _difference(mine: TaskInfo, theirs: TaskInfo) -> str:
    """The respect in which their definition is not covered."""
    if mine.stores is None or theirs.stores is None:
        return "its nodes differ"
    if mine.partitions != theirs.partitions:
        here, there = (", ".join(sorted({each.topic for each in it.partitions})) for it in (mine, theirs))
        return f"it reads {here} here and {there} there"
    missing = ", ".join(f"{name} ({kind})" for name, kind in sorted(theirs.stores - mine.stores))
    return f"stores that are not there here: {missing}"


def _by_task(sets: Iterable[frozenset[TaskId]]) -> dict[TaskId, list[int]]:
    found: dict[TaskId, list[int]] = {}
    for m, tasks in enumerate(sets):
        for task in tasks:
            found.setdefault(task, []).append(m)
    return found
