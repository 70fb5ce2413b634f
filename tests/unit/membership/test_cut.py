"""Tasks that move by a cut: the leader names their heirs, the owner may send the cut, and an heir finds it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError

from played_coordinator import Coordinator
from streamsapp import TaskId, TopicPartition
from streamsapp.brokers.errors import UnreachableError
from streamsapp.kafka.offset_fetch import FetchedOffset, OffsetFetchAnswer
from streamsapp.membership import leader_decision, member_messages
from streamsapp.membership.api import Assignment, GroupTasks, Holdings, TaskInfo
from streamsapp.membership.assignor.model import AssignorSettings, MemberPlan, MemberState, Plan
from streamsapp.membership.leader_decision import MemberSubscription
from streamsapp.membership.mailbox import MembershipMailbox
from streamsapp.membership.member_id import MemberId
from streamsapp.membership.member_messages import AssignmentInfo, GroupView, MalformedError, PeerEntry
from streamsapp.membership.rebalance import LATE, LATE_LOOK, LOOK, RebalanceHandler
from streamsapp.membership.wire import GroupSettings, Identity
from streamsapp.serdes.offset_metadata import OffsetMetadata
from streamsapp.testing import MockClock

A, B, C = (TaskId(0, partition) for partition in range(3))
TASKS = {
    task: TaskInfo(frozenset({TopicPartition("in", task.partition), TopicPartition("more", task.partition)}), True)
    for task in (A, B, C)
}
CUT = 4711
ME = Identity(3, "me")


# ---- the leader ----------------------------------------------------------------------------------------------------


class Moving:
    """An assignor that says what runs, and who is to run the rest."""

    def __init__(self, heirs: Mapping[TaskId, str], **active: set[TaskId]) -> None:
        self._plan = Plan({name: MemberPlan(active=frozenset(it)) for name, it in active.items()}, heirs=heirs)

    def assign(self, members: Mapping[str, MemberState], settings: AssignorSettings) -> Plan:
        return self._plan


def said(
    *active: TaskId, cuts: bool = True, knows: Mapping[TaskId, TaskInfo] = TASKS, draining: bool = False
) -> MemberSubscription:
    state = MemberState("", 1, frozenset(active), definitions=knows, draining=draining)
    return MemberSubscription(state, knows, f"app-{len(active)}", "host:80", cuts=cuts)


def coming(assignor: Moving, cut: int = CUT, **members: MemberSubscription) -> tuple[dict[str, set[TaskId]], int]:
    told = leader_decision.decide(members, members, assignor, AssignorSettings(), (), {}, cut).answers
    view = leader_decision.read_assignment(told["heir"])[1]
    return {each.name: set(found) for each in view.peers if (found := member_messages.unpack(each.coming))}, view.cut


def test_all_members_are_told_which_tasks_come_to_their_heirs_by_the_cut() -> None:
    found = coming(Moving({A: "heir"}, owner={B}), owner=said(A, B), heir=said())

    assert found == ({"heir": {A}}, CUT)


@pytest.mark.parametrize(
    ("owner", "heir"),
    [
        pytest.param(said(A, cuts=False), said(), id="an owner of an earlier version"),
        pytest.param(said(A), said(cuts=False), id="an heir of an earlier version"),
        pytest.param(said(A), said(knows={B: TASKS[B]}), id="an heir that does not know the task"),
        pytest.param(said(), said(), id="nobody has it"),
        pytest.param(said(A), said(A), id="both have it"),
    ],
)
def test_others_move_with_the_next_rebalance(owner: MemberSubscription, heir: MemberSubscription) -> None:
    assert coming(Moving({A: "heir"}), owner=owner, heir=heir) == ({}, 0)


def test_no_task_comes_that_a_member_runs_or_to_a_member_that_there_is_not() -> None:
    assert coming(Moving({A: "heir"}, owner={A}), owner=said(A), heir=said()) == ({}, 0)
    assert coming(Moving({A: "nobody"}), owner=said(A), heir=said()) == ({}, 0)


def test_without_a_number_none_moves_by_a_cut() -> None:
    assert coming(Moving({A: "heir"}), 0, owner=said(A), heir=said()) == ({}, 0)


# ---- the owner -----------------------------------------------------------------------------------------------------


def committing(*, generation: int = 3, cut: int = CUT) -> tuple[MembershipMailbox, MockClock]:
    """A member whose commit is under way in the generation of its last assignment."""
    clock = MockClock()
    box = MembershipMailbox(clock, "app-1")
    box.open(ME)
    box.put(Assignment(frozenset(), generation=generation, cut=cut), "app-1")
    box.poll()
    box.poll()
    assert box.begin_commit()
    return box, clock


def test_a_commit_of_the_assignments_own_generation_may_have_its_cut() -> None:
    box, _ = committing()

    assert box.cuts(CUT)
    assert not box.cuts(CUT + 1)


def test_a_commit_may_have_none_once_the_member_joins_be_it_at_the_end_of_a_long_wait() -> None:
    box, clock = committing()
    box.joining()
    assert not box.cuts(CUT), "it may say that it has the task"

    box.end_commit()
    clock.advance(60_000)
    assert box.begin_commit()
    assert not box.cuts(CUT)


def test_a_commit_may_have_none_of_another_generation_and_none_when_it_is_over() -> None:
    assert not committing(generation=2)[0].cuts(CUT)
    box, _ = committing()
    box.end_commit()
    assert not box.cuts(CUT)

    lost = MembershipMailbox(MockClock(), "app-1")
    lost.open(ME)
    assert lost.begin_commit()
    assert not lost.cuts(0)


# ---- the heir ------------------------------------------------------------------------------------------------------


class Waiting(Coordinator):
    """An heir, and a coordinator that has the group's offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = MockClock()
        self.mailbox = MembershipMailbox(self.clock, "app-1")
        self.offsets: dict[TopicPartition, str] = {}
        self.unstable: set[TopicPartition] = set()
        self.failures: list[Exception | int] = []
        #: Called before each answer.
        self.then: Callable[[int], None] = lambda _: None
        self.asked = 0
        catalogue = SimpleNamespace(decided=lambda matched: GroupTasks(TASKS))
        own = cast(Any, SimpleNamespace(commits_first=True, catalogue=catalogue))
        settings, nothing = GroupSettings("app", None, 6.0, 0.1, 60.0, 0.2), cast(Any, None)
        self.handler = RebalanceHandler(
            settings, MemberId(None), self.clock, cast(Any, self), self.mailbox, own, nothing
        )
        self.handler.group.session.joined()
        self.handler.group.session.confirm(self.clock.monotonic())
        self.mailbox.open(ME)

    async def send(self, request: Any, node: Any, timeout: float, check: Any, held: float = 0.0) -> Any:
        if request.name != "OffsetFetchRequest":
            return await super().send(request, node, timeout, check, held)
        self.asked += 1
        self.then(self.asked)
        failure = self.failures.pop(0) if self.failures else 0
        if isinstance(failure, Exception):
            raise failure
        found = [
            FetchedOffset(each, 5, self.offsets.get(each, ""), _UNSTABLE if each in self.unstable else 0)
            for each in request._partitions
        ]
        return OffsetFetchAnswer(failure, found)

    def wait_for(self, *tasks: TaskId) -> list[Assignment]:
        """Wait until all are there, or the generation is over; the assignments that the polling thread gets."""
        waited = Assignment(
            frozenset({C}), standby=frozenset({A, B}), moving=frozenset({A, B}), generation=3, cut=CUT,
            by_cut=frozenset({A, B}), coming=frozenset(tasks),
        )  # fmt: skip
        asyncio.run(asyncio.wait_for(self.handler._take_over(waited, self.handler._joins), 10))
        found = []
        while (news := self.mailbox.poll()) is not None:
            assert isinstance(news, Assignment)
            found.append(news)
        return found

    def commit(self, partition: TopicPartition, cut: int = CUT) -> None:
        self.offsets[partition] = OffsetMetadata(17, {"of": 1}, cut=cut).encode()

    def ends(self, after: int = 3) -> None:
        """The generation ends after some more looks."""

        def then(asked: int) -> None:
            if asked == after:
                self.handler._joins += 1

        self.then = then


_UNSTABLE = 88


def test_an_heir_runs_a_task_once_the_cut_is_beside_any_of_its_offsets() -> None:
    it = Waiting()
    it.then = lambda asked: it.commit(TopicPartition("more", 0)) if asked == 3 else None

    (given,) = it.wait_for(A)

    assert it.asked == 3
    assert set(it.pauses) == {LOOK}
    assert given.active == {A, C}
    assert given.standby == given.moving == {B}
    assert given.coming == frozenset()
    assert given.generation == 3


def test_tasks_come_one_by_one() -> None:
    it = Waiting()
    it.commit(TopicPartition("in", 0))
    it.then = lambda asked: it.commit(TopicPartition("in", 1)) if asked == 2 else None

    assert [each.active for each in it.wait_for(A, B)] == [{A, C}, {A, B, C}]


@pytest.mark.parametrize(
    "metadata", ["", "?", OffsetMetadata(3, {}).encode(), OffsetMetadata(3, {}, cut=CUT + 1).encode()]
)
def test_what_is_not_the_number_of_this_cut_says_nothing(metadata: str) -> None:
    it = Waiting()
    it.offsets[TopicPartition("in", 0)] = metadata
    it.ends()

    assert it.wait_for(A) == []


def test_an_offset_that_a_transaction_may_take_back_says_nothing() -> None:
    it = Waiting()
    it.commit(TopicPartition("in", 0))
    it.unstable = {TopicPartition("in", 0)}
    it.ends()

    assert it.wait_for(A) == []


def test_a_cut_that_is_found_while_the_member_joins_anew_is_not_followed() -> None:
    it = Waiting()
    it.commit(TopicPartition("in", 0))
    it.ends(after=1)

    assert it.wait_for(A) == []


def test_a_member_whose_session_may_be_over_follows_none() -> None:
    it = Waiting()
    it.commit(TopicPartition("in", 0))
    it.clock.advance(7_000)
    it.ends()

    assert it.wait_for(A) == []


def test_it_asks_on_when_the_coordinator_is_away_or_another_one() -> None:
    it = Waiting()
    it.commit(TopicPartition("in", 0))
    it.failures = [UnreachableError("away"), KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS]

    assert [each.active for each in it.wait_for(A)] == [{A, C}]


def test_it_asks_less_often_for_a_cut_that_is_late() -> None:
    it = Waiting()

    def then(asked: int) -> None:
        it.clock.advance(round(1000 * LATE) + 1 if asked == 2 else 0)
        if asked == 3:
            it.handler._joins += 1

    it.then = then
    it.wait_for(A)

    assert it.pauses == [LOOK, LATE_LOOK, LATE_LOOK]


def test_a_task_that_came_by_a_cut_is_said_to_be_here_when_the_member_joins_and_only_if_it_was_heard() -> None:
    heard, unheard = Waiting(), Waiting()
    for it in (heard, unheard):
        it.commit(TopicPartition("in", 0))
    heard.wait_for(A)
    news = replace(Assignment(frozenset({C}), generation=3), active=frozenset({A, C}))
    unheard.mailbox.put(news, "app-1")

    assert heard.mailbox.take_stock(lambda: Holdings(3, frozenset({A, C}))).active == {A, C}
    assert unheard.mailbox.take_stock(lambda: Holdings(3, frozenset())).active == frozenset()


# ---- what is read --------------------------------------------------------------------------------------------------


def view(**coming: set[TaskId]) -> tuple[AssignmentInfo, GroupView]:
    peers = [
        PeerEntry(name, "", "", {0: [2, 1]} if name == "me" else {}, {}, False, member_messages.pack(tasks))
        for name, tasks in coming.items()
    ]
    return AssignmentInfo({0: [2, 1]}, {}, {}, b"", 1), GroupView(1, peers, [], False, {}, [], CUT)


def test_a_member_reads_what_comes_to_it_and_what_moves_by_the_cut() -> None:
    read = Waiting().handler._read(ME, *view(me={A}, other={B}))

    assert read.cut == CUT
    assert read.by_cut == read.moving == {A, B}
    assert read.coming == {A}


@pytest.mark.parametrize(
    "coming",
    [
        pytest.param({"me": {A}, "other": {A}}, id="two heirs"),
        pytest.param({"me": {C}}, id="a task that runs"),
        pytest.param({"me": {TaskId(0, 7)}}, id="no task of the application"),
    ],
)
def test_an_assignment_by_which_two_might_run_a_task_is_refused(coming: dict[str, set[TaskId]]) -> None:
    with pytest.raises(MalformedError):
        Waiting().handler._read(ME, *view(**coming))


def test_a_view_of_an_earlier_leader_has_no_cut() -> None:
    _, told = view(me=set())
    older = GroupView.decode(GroupView(*[getattr(told, each) for each in told.__struct_fields__[:-1]]).encode())

    read = Waiting().handler._read(ME, view(me=set())[0], older)

    assert (read.cut, read.by_cut, read.coming) == (0, frozenset(), frozenset())


def test_the_cut_is_an_entry_that_other_programs_keep_and_it_is_read_apart_from_theirs() -> None:
    metadata = OffsetMetadata(17, {"a": 1}, cut=CUT)

    assert OffsetMetadata.decode(metadata.encode()) == metadata
    plain = OffsetMetadata(17, {"a": 1, "streamsapp.cut": CUT})
    assert plain.encode() == metadata.encode()
