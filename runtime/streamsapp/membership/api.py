"""Membership: which tasks this instance runs, and the right to commit for them.

The polling thread calls, and takes news by ``poll``. An implementation speaks with the group's coordinator on a thread
of its own, so neither processing nor a long commit delays a rebalance. A rebalance stops neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from streamsapp.kafka.group_member import Member
from streamsapp.record import TaskId, TopicPartition


@dataclass(frozen=True)
class TaskInfo:
    """The description of a task that the group needs."""

    #: The partitions that it reads: shown by ``kafka-consumer-groups.sh``.
    partitions: frozenset[TopicPartition]
    #: True if it has a changelog, so that standbys make sense.
    stateful: bool
    #: Fingerprint of the task's sub-topology, nodes and all; compared where a member does not report its stores.
    definition: str = ""
    #: Name and kind of each store; ``None``: a member of an older version, which does not report them.
    stores: frozenset[tuple[str, str]] | None = None

    def covers(self, other: TaskInfo) -> bool:
        """Return whether an instance that knows the task like this can continue where an instance that knows it like
        ``other`` stopped. It can if it reads the same, and has all those stores."""
        if self.stores is None or other.stores is None:
            return self.definition == other.definition
        return self.partitions == other.partitions and other.stores <= self.stores


@dataclass(frozen=True)
class MatchedTopics:
    """The topics that the patterns of a sub-topology match."""

    #: The same for all programs that name the same topics and patterns there.
    sources: str
    #: With the number of partitions of each.
    topics: Mapping[str, int]
    #: The topics among them that came after the application had started.
    late: frozenset[str] = frozenset()


@dataclass(frozen=True)
class GroupTasks:
    """Everything the application consists of, as one instance knows it."""

    tasks: Mapping[TaskId, TaskInfo]
    #: By sub-topology that reads topics by pattern.
    matched: Mapping[int, MatchedTopics] = field(default_factory=dict)
    #: The description of each such sub-topology's tasks without their partitions.
    by_pattern: Mapping[int, TaskInfo] = field(default_factory=dict)

    def of_member(
        self, tasks: Mapping[TaskId, TaskInfo], by_pattern: Mapping[int, tuple[str, TaskInfo]]
    ) -> Mapping[TaskId, TaskInfo]:
        """Returns another member's ``tasks`` with the topics that are known here: which of them match a pattern is for
        the leader to say. ``by_pattern`` has the sources of each sub-topology, as ``MatchedTopics`` has them."""
        ours = {
            number: info
            for number, (sources, info) in by_pattern.items()
            if number in self.matched and self.matched[number].sources == sources
        }
        if not ours:
            return tasks
        theirs = {task: info for task, info in tasks.items() if task.subtopology not in ours}
        return theirs | {
            task: replace(ours[task.subtopology], partitions=known.partitions)
            for task, known in self.tasks.items()
            if task.subtopology in ours
        }


class TaskCatalogue(Protocol):
    """Gives the membership's thread the parts of the application."""

    def found(self) -> GroupTasks:
        """As this instance found the topics last."""
        ...

    def decided(self, matched: Mapping[int, MatchedTopics]) -> GroupTasks:
        """With the topics that the group's leader found. Raises ``StreamsAppError`` if there are no such tasks."""
        ...


@dataclass(frozen=True)
class Holdings:
    """The tasks and state that this instance has when it joins."""

    #: Of the last assignment that this reflects. If ``poll`` has handed out a newer one, the instance also owns what
    #: that assignment gave it: no other instance may get it in the meantime.
    generation: int = 0
    #: Tasks it runs, or restores in order to run them.
    active: frozenset[TaskId] = frozenset()
    #: Records that each standby and warm-up replica is behind its changelog; ``None`` if not known yet.
    lags: Mapping[TaskId, int | None] = field(default_factory=dict)
    #: Tasks that left state in the local directory, of unknown age.
    on_disk: frozenset[TaskId] = frozenset()


@dataclass(frozen=True)
class Peer:
    """A member of the group as the others see it."""

    #: ``host:port`` of its HTTP server; empty if it has none.
    endpoint: str = ""
    active: frozenset[TaskId] = frozenset()
    standby: frozenset[TaskId] = frozenset()
    #: It is about to leave and takes over nothing.
    draining: bool = False


@dataclass(frozen=True)
class Assignment:
    """The tasks of this instance in one generation.

    Tasks that it owned and finds no longer in ``active`` go to another instance once they have been committed and given
    up: then ``rejoin`` is due. Earlier writers for the new active tasks cannot write any more.
    """

    active: frozenset[TaskId]
    standby: frozenset[TaskId] = frozenset()
    #: Replicas that are being prepared to become active here; when one has caught up, ``rejoin`` is due.
    warmup: frozenset[TaskId] = frozenset()
    generation: int = 0
    #: All members by name, this one included.
    peers: Mapping[str, Peer] = field(default_factory=dict)
    #: Sentences about the tasks that this instance does not get because its topology is another than the others'.
    notes: tuple[str, ...] = ()
    #: Tasks that no member gets, as too few know them.
    held_back: frozenset[TaskId] = frozenset()
    #: The topics that the tasks read by pattern, by sub-topology, as the leader found them.
    matched: Mapping[int, MatchedTopics] = field(default_factory=dict)
    #: Tasks that are on their way from one member to another: the next assignment gives them to a member.
    moving: frozenset[TaskId] = frozenset()
    #: The number that an owner's last commit of a task has, if the task goes on at its heir from there (``cut``); and
    #: the tasks that move like that.
    cut: int = 0
    by_cut: frozenset[TaskId] = frozenset()
    #: Those among them that come to this instance. Once the cut is there, the same assignment is given once more, and
    #: has them in ``active``.
    coming: frozenset[TaskId] = frozenset()


@dataclass(frozen=True)
class Lost:
    """The group went on without this instance: others may run its tasks. It owns nothing until the next assignment,
    which comes by itself."""

    reason: str


@dataclass(frozen=True)
class ShutdownRequested:
    """A member asked all instances of the application to stop (KIP-671)."""


News: TypeAlias = Assignment | Lost | ShutdownRequested


class Membership(Protocol):
    """One instance's place in the group of instances that run an application."""

    @property
    def transactional_id(self) -> str:
        """The id under which this instance's producer writes. A member that takes over this instance's tasks fences it.
        With every ``Lost`` that is polled the id changes, and the next producer must be made with the new one."""
        ...

    @property
    def safe_until(self) -> float:
        """The time up to which this instance is surely a member, in monotonic seconds: no other instance can have taken
        over its tasks. Later writes need another sign of life from the coordinator. Never while a ``Lost`` is to be
        polled or followed, though the instance may be a member again."""
        ...

    @property
    def outage(self) -> tuple[float, str] | None:
        """The time since which the coordinator is out of reach, in monotonic seconds, and why; ``None``: it answers."""
        ...

    @property
    def refused(self) -> bool:
        """True if it is out of reach as either side refuses credentials or certificates."""
        ...

    def start(self, catalogue: TaskCatalogue, holdings: Callable[[], Holdings]) -> None:
        """Join. ``catalogue`` and ``holdings`` are asked on the membership's thread."""
        ...

    def poll(self) -> News | None:
        """The next news of the group; of several assignments only the newest, which alone holds. Raises what ended the
        membership."""
        ...

    def rejoin(self, *, at_once: bool = False) -> None:
        """Ask for a new assignment: a warm-up replica has caught up; or tasks of the last one are given up, which stand
        still until then: ``at_once``."""
        ...

    @property
    def commit_wanted(self) -> bool:
        """True if a commit is wanted now, as none can begin for a moment afterwards. ``end_commit`` says that it is
        through, or that there was nothing to commit."""
        ...

    @property
    def may_commit(self) -> bool:
        """True if ``begin_commit`` would allow a commit now: work that is prepared for a commit that has to wait holds
        up later work."""
        ...

    def begin_commit(self) -> bool:
        """Return whether a commit may begin. Not while the instance joins, unless that takes long, nor when it is no
        member, or has news that was not polled yet. The tasks may belong to another instance by then. A join waits for
        the commit that began."""
        ...

    def cuts(self, number: int) -> bool:
        """Return whether the commit under way may be the last one of tasks that move by this cut. Not if its generation
        is over or about to be: the instance may have said already that the tasks are its own."""
        ...

    def handed_over(self) -> None:
        """Tasks were given up, and their heirs go on without a new assignment: ask for one when they have begun."""
        ...

    def end_commit(self) -> None:
        """The commit that ``begin_commit`` allowed has ended, well or not; or a commit is wanted, and nothing is to be
        committed."""
        ...

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit input offsets with their metadata, fenced by generation and member id; raises ``KafkaException``."""
        ...

    def metadata(self) -> Member:
        """The generation and member id that fence a transaction's offsets."""
        ...

    def drain(self) -> None:
        """Ask the others to take over this instance's tasks, each as soon as one of them has caught up with it."""
        ...

    def request_shutdown(self) -> None:
        """Ask all instances of the application to stop."""
        ...

    def take_out(self, member_id: str) -> None:
        """Take another member, whose process has ended for sure, out of the group at once. Any thread. Raises
        ``UnreachableError`` if the coordinator has not done so."""
        ...

    def leave(self, *, stay: bool = False) -> None:
        """End the membership. The others take over at once; or when the session times out, if this is a static member
        (KIP-345) or is to ``stay`` one until then."""
        ...
