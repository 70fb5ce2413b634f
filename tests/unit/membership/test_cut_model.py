"""The hand-over by a cut under every order of its steps that chance finds, with members that die and answers that get
lost: the offsets of a task are those of one member at a time.

The mailbox and the last commits are the real ones. Played are the coordinator, which knows nothing of cuts, and the
two threads of each member, in steps that are taken by a seed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamsapp import TaskId, TopicPartition
from streamsapp.kafka.sending import AbortableError, NothingCommittedError
from streamsapp.membership.api import Assignment, Holdings
from streamsapp.membership.mailbox import JOIN_WAIT, MembershipMailbox
from streamsapp.membership.wire import Identity
from streamsapp.runtime.last_commits import LastCommits
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.tasks.record_queue import ProcessingControl
from streamsapp.testing import MockClock

TASK, IN = TaskId(0, 0), TopicPartition("in", 0)
PLAYS, STEPS = 300, 600


class Doubled(AssertionError):
    """Two members have committed what they read from the same offset."""


@dataclass
class Request:
    """A commit on its way to the coordinator."""

    of: Identity
    start: int
    offsets: dict[TopicPartition, tuple[int, str]]
    #: Its transaction was aborted.
    void: bool = False
    answer: str = ""


class Coordinator:
    """The group's coordinator, and the leader's decision."""

    def __init__(self, *, transactional: bool, seen: Counter[str]) -> None:
        self.transactional, self.seen = transactional, seen
        self.generation = 0
        self.members: dict[str, Member] = {}
        #: The members that have joined while a rebalance is under way, each with whether it has the task.
        self.joined: dict[str, bool] | None = {}
        self.draining: set[str] = set()
        self.offset, self.cut = 0, 0
        self.flying: list[Request] = []

    def rebalance(self) -> None:
        if self.joined is None:
            self.joined = {}

    def arrive(self, request: Request) -> None:
        """A request to commit arrives, however late."""
        self.flying.remove(request)
        if request.void:
            return
        if request.of.generation != self.generation or request.of.member_id not in self.members:
            request.answer = "refused"
            return
        if request.start != self.offset and (self.transactional or request.start > self.offset):
            raise Doubled(f"read from {request.start} on, and the group stood at {self.offset}")
        (self.offset, metadata) = request.offsets[IN]
        self.cut = OffsetMetadata.decode(metadata).cut
        self.seen["cut committed"] += bool(self.cut)
        request.answer = "done"

    def complete(self) -> None:
        """All have joined: the leader assigns."""
        assert self.joined is not None
        claims = [name for name, has in self.joined.items() if has]
        if len(claims) > 1:
            raise Doubled(f"{claims} say that they have the task")
        self.generation += 1
        stay = sorted(set(self.joined) - self.draining)
        owner = claims[0] if claims else None
        heir = None
        if owner is None:
            owner = stay[self.generation % len(stay)] if stay else None
        elif owner in self.draining and stay:
            owner, heir = None, stay[self.generation % len(stay)]
        number = 1000 + self.generation if heir else 0
        for name in self.joined:
            self.members[name].assigned(
                Assignment(
                    frozenset({TASK} if name == owner else ()),
                    generation=self.generation,
                    cut=number,
                    by_cut=frozenset({TASK} if heir else ()),
                    coming=frozenset({TASK} if name == heir else ()),
                    moving=frozenset({TASK} if heir else ()),
                )
            )
        self.joined = None


class Member:
    """One member, whose two threads take a step when they are told to."""

    def __init__(self, name: str, coordinator: Coordinator, clock: MockClock) -> None:
        self.name, self.coordinator, self.clock = name, coordinator, clock
        self.box = MembershipMailbox(clock, name)
        self.dead = False
        #: The task, while it is here: where its records since the last commit begin and end.
        self.task: Any = None
        self.start = self.end = 0
        self.retired = False
        self.generation = 0
        self.request: Request | None = None
        self.last: LastCommits | None = None
        self.coming: Assignment | None = None
        self.joining = False
        coordinator.members[name] = self
        coordinator.rebalance()

    # ---- the membership's thread

    def begins_to_join(self) -> None:
        if self.coordinator.joined is not None and not self.joining:
            self.box.joining()
            self.joining = True

    def joins(self, *, gives_up: bool) -> None:
        joined = self.coordinator.joined
        if joined is None or not self.joining or self.name in joined:
            return
        if self.box.committing is not None and not gives_up:
            return
        self.coming = None
        joined[self.name] = TASK in self.box.take_stock(self.holdings).active
        if joined.keys() == self.coordinator.members.keys():
            self.coordinator.complete()

    def holdings(self) -> Holdings:
        has = self.task is not None and not self.task.control.handed_over
        return Holdings(self.generation, frozenset({TASK} if has else ()))

    def assigned(self, assignment: Assignment) -> None:
        self.box.close()
        self.box.open(Identity(assignment.generation, self.name))
        self.box.put(assignment, self.name)
        self.coming = assignment if assignment.coming else None
        self.joining = False

    def looks_for_the_cut(self) -> None:
        if self.coming is not None and self.coordinator.cut == self.coming.cut:
            self.coordinator.seen["taken over by a cut"] += 1
            self.box.put(replace(self.coming, active=frozenset({TASK}), coming=frozenset()), self.name)
            self.coming = None

    # ---- the polling thread

    def polls(self) -> None:
        news = self.box.poll()
        if not isinstance(news, Assignment):
            self.gives_up()
            return
        self.generation = news.generation
        if TASK in news.active and (self.task is None or self.task.control.handed_over):
            if self.last is not None:  # it is made anew once its last commit is through
                self.retired = True
                return
            self.task, self.retired = _a_task(), False
            self.start = self.end = self.coordinator.offset
        elif TASK in news.active:
            self.task.control.cut, self.retired = 0, False
        elif self.task is not None:
            self.retired = True
            if not self.task.control.handed_over:
                self.task.control.cut = news.cut if TASK in news.by_cut else 0

    def gives_up(self) -> None:
        """The task goes once it is at rest."""
        if self.task is None or not self.retired or self.last is not None:
            return
        if self.task.control.handed_over or (self.start == self.end and not self.task.control.cut):
            self.task, self.retired = None, False
            self.coordinator.rebalance()

    def works(self) -> None:
        if self.task is not None and not self.retired:
            self.end += 1

    def begins_to_commit(self) -> None:
        if self.request is None and self.task is not None and (self.start < self.end or self.task.control.cut):
            if self.last is None:
                if self.task.control.handed_over:
                    return
                offsets = {IN: SimpleNamespace(offset=self.end, metadata="", metadata_with=_marked)}
                epoch = SimpleNamespace(
                    task=self.task, offsets=offsets, cut=self.task.control.cut if self.retired else 0
                )
                self.last = LastCommits([cast(Any, epoch)], self.box.cuts, transactional=self.coordinator.transactional)
            if self.box.begin_commit():
                self._send()

    def _send(self) -> None:
        assert self.last is not None
        committing = self.box.committing
        assert committing is not None
        try:
            offsets = self.last.offsets()
        except AbortableError:
            self.box.end_commit()
            self._abort()
            return
        if not offsets:  # at least once, without an answer: the task is left to its heir
            self._through()
            return
        self.request = Request(committing, self.start, offsets)
        self.coordinator.flying.append(self.request)

    def _through(self) -> None:
        self.box.end_commit()
        self.start, self.last, self.request = self.end, None, None

    def hears_the_answer(self, *, lost: bool) -> None:
        request = self.request
        if request is None or not (request.answer or lost):
            return
        if request.answer == "done" and not lost:
            self.start = request.offsets[IN][0]
            self.box.end_commit()
            self.last = self.request = None
        elif (
            request.answer == "refused" and not lost
        ):  # it is out of the generation: all that was not committed is lost
            self.box.end_commit()
            self._abort()
        elif self.coordinator.transactional:
            # Its fate is known once the next producer has started.
            self.box.end_commit()
            self._abort()
        else:
            assert self.last is not None
            self.last.refused(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
            self.box.end_commit()
            self.request = None
            if not self.task.control.handed_over and request.answer != "done":
                request.void = True  # the same request is sent again, and takes its place

    def is_told_that_nothing_was_committed(self) -> None:
        request = self.request
        if request is None or request.answer or self.coordinator.transactional:
            return
        assert self.last is not None
        request.void = True
        self.coordinator.flying.remove(request)
        self.last.refused(NothingCommittedError(KafkaError(KafkaError.NOT_COORDINATOR)))
        self.box.end_commit()
        self.request = None

    def _abort(self) -> None:
        """All goes on from the last commit; not a task that may be its heir's."""
        if self.request is not None and not self.request.answer:
            self.request.void = True
        self.last = self.request = None
        if self.task.control.handed_over:
            self.coordinator.seen["left in doubt"] += 1
            self.task, self.retired = None, False
            self.coordinator.rebalance()
        else:
            cut = self.task.control.cut
            self.task = _a_task(cut)
            self.start = self.end = self.coordinator.offset


def _a_task(cut: int = 0) -> SimpleNamespace:
    control = ProcessingControl()
    control.cut = cut
    return SimpleNamespace(control=control)


def _marked(cut: int) -> str:
    return OffsetMetadata(cut=cut).encode()


class Play:
    """One application of three members, by one seed."""

    def __init__(self, seed: int, *, transactional: bool, seen: Counter[str]) -> None:
        self.chance, self.clock = random.Random(seed), MockClock()
        self.coordinator = Coordinator(transactional=transactional, seen=seen)
        self.members = [Member(name, self.coordinator, self.clock) for name in "abc"]
        self.seen = seen
        #: How soon members join, compared with all else.
        self.hurry = self.chance.choice((3.0, 20.0))

    def run(self) -> None:
        for _ in range(STEPS):
            self.step()

    def step(self) -> None:
        chance, coordinator = self.chance, self.coordinator
        here = [each for each in self.members if not each.dead]
        member = chance.choice(here)
        hurry = 0.0 if coordinator.joined is None else self.hurry
        steps: list[tuple[float, Callable[[], None]]] = [
            (hurry, member.begins_to_join),
            (hurry, lambda: member.joins(gives_up=chance.random() < 0.05)),
            (6 if member.coming else 0.0, member.looks_for_the_cut),
            (6, member.polls),
            (3, member.works),
            (5, member.begins_to_commit),
            (5, lambda: member.hears_the_answer(lost=chance.random() < 0.05)),
            (0.2, member.is_told_that_nothing_was_committed),
            (5 if coordinator.flying else 0.0, lambda: coordinator.arrive(chance.choice(coordinator.flying))),
            (0.4 if coordinator.joined is None else 0.0, lambda: self.drains(member)),
            (0.1, coordinator.rebalance),
            (0.2 if coordinator.joined is None else 2.0, lambda: self.clock.advance(round(1000 * JOIN_WAIT) + 1)),
            (0.05 if len(here) > 1 else 0.0, lambda: self.dies(member)),
        ]
        chance.choices([it for _, it in steps], [weight for weight, _ in steps])[0]()

    def drains(self, member: Member) -> None:
        """It wants to be rid of its task, or not any more."""
        self.coordinator.draining ^= {member.name}
        self.coordinator.rebalance()

    def dies(self, member: Member) -> None:
        """The coordinator misses it, and fences its transaction; what it had sent may arrive before that."""
        self.seen["died"] += 1
        member.dead = True
        coordinator = self.coordinator
        for request in [each for each in coordinator.flying if each.of.member_id == member.name]:
            if self.chance.random() < 0.5:
                coordinator.arrive(request)
            else:
                coordinator.flying.remove(request)
        del coordinator.members[member.name]
        if coordinator.joined is not None:
            coordinator.joined.pop(member.name, None)
        coordinator.rebalance()
        if coordinator.joined is not None and coordinator.joined.keys() == coordinator.members.keys():
            coordinator.complete()


@pytest.mark.seeds(2)
@pytest.mark.parametrize("transactional", [True, False], ids=["exactly once", "at least once"])
def test_a_task_has_one_owner_whatever_comes_first(seed: int, *, transactional: bool) -> None:
    seen: Counter[str] = Counter()
    for play in range(seed * PLAYS, (seed + 1) * PLAYS):
        try:
            Play(play, transactional=transactional, seen=seen).run()
        except Doubled as error:
            raise AssertionError(f"play {play}: {error}") from error

    assert seen["cut committed"] > PLAYS / 10
    assert seen["taken over by a cut"] > PLAYS / 20
    assert bool(seen["left in doubt"]) or not transactional
    assert seen["died"]
