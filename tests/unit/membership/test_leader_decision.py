"""The leader's conclusions from what members said, and from what an assignor decided."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from streamsapp import TaskId, TopicPartition
from streamsapp.membership import leader_decision, member_messages, wire
from streamsapp.membership.api import GroupTasks, TaskInfo
from streamsapp.membership.assignor.model import AssignorSettings, MemberPlan, MemberState, Plan
from streamsapp.membership.leader_decision import MemberSubscription, SubscriptionReader
from streamsapp.membership.member_messages import Subscription

A, B, C = (TaskId(0, partition) for partition in range(3))
TASKS = {task: TaskInfo(frozenset({TopicPartition("in", task.partition)}), stateful=True) for task in (A, B, C)}


class Fixed:
    """Assigns what the test says."""

    def __init__(self, **active: set[TaskId]) -> None:
        self._plan = Plan({name: MemberPlan(active=frozenset(tasks)) for name, tasks in active.items()})

    def assign(self, members: Mapping[str, MemberState], settings: AssignorSettings) -> Plan:
        return self._plan


def said(*active: TaskId, knows: Mapping[TaskId, TaskInfo] = TASKS) -> MemberSubscription:
    return MemberSubscription(
        MemberState("", 1, frozenset(active), definitions=knows), knows, f"app-{len(active)}", "host:80"
    )


def subscription(**changes: object) -> bytes:
    usual: dict[str, object] = {
        "version": 1,
        "nonce": 7,
        "transactional_id": "app-1",
        "endpoint": "host:80",
        "host": "pod",
        "tags": {"zone": "a"},
        "threads": 2,
        "draining": False,
        "shutdown": False,
        "active": {0: [0, 1]},
        "lags": {0: [(1, None)]},
        "on_disk": {0: [2, 1]},
        "definitions": member_messages.pack_definitions(TASKS),
    }
    return wire.subscription(["in"], Subscription(**{**usual, **changes}).encode())  # type: ignore[arg-type]


def test_a_member_is_read_as_it_described_itself() -> None:
    read = SubscriptionReader(GroupTasks({})).read("member", subscription(draining=True))

    assert read is not None
    assert read.tasks == TASKS
    assert read.state == MemberState(
        host="pod",
        threads=2,
        active=frozenset({A}),
        lags={B: None},
        on_disk=frozenset({C}),
        draining=True,
        tags={"zone": "a"},
        definitions=TASKS,
        stateful=frozenset(TASKS),
    )


@pytest.mark.parametrize(
    "metadata", [b"", b"\xff" * 50, wire.subscription(["in"], b"?"), subscription(active={0: [1]})]
)
def test_a_member_that_cannot_be_read_gets_nothing_and_disturbs_nobody(
    metadata: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    assert SubscriptionReader(GroupTasks({})).read("stranger", metadata) is None
    assert "member stranger joined with metadata that cannot be read" in caplog.text

    plan = leader_decision.plan({"good": said()}, Fixed(good={A}), AssignorSettings())
    told = leader_decision.answers(["good", "stranger"], {"good": said()}, plan, ())

    share, view = leader_decision.read_assignment(told["stranger"])
    assert share.active == {}
    assert [peer.name for peer in view.peers] == ["good"]


def test_a_task_that_somebody_has_is_given_to_nobody_else(caplog: pytest.LogCaptureFixture) -> None:
    plan = leader_decision.plan({"one": said(A), "two": said()}, Fixed(two={A, B}), AssignorSettings())

    assert plan.members["two"].active == {B}
    assert plan.members["one"].active == frozenset()
    assert "Fixed gave two tasks that others have" in caplog.text


def test_a_task_is_given_to_one_member_only() -> None:
    plan = leader_decision.plan({"one": said(), "two": said()}, Fixed(one={A}, two={A, B}), AssignorSettings())

    assert plan.members["one"].active == {A}
    assert plan.members["two"].active == {B}


def test_a_task_that_a_member_does_not_know_is_not_given_to_it() -> None:
    old = said(knows={A: TASKS[A]})

    plan = leader_decision.plan({"old": old}, Fixed(old={A, B}), AssignorSettings())

    assert plan.members["old"].active == {A}


def test_a_member_that_the_assignor_forgot_gets_nothing() -> None:
    plan = leader_decision.plan({"one": said(A), "two": said()}, Fixed(one={A}), AssignorSettings())

    assert plan.members["two"] == MemberPlan()


def test_every_member_is_told_its_share_and_about_all() -> None:
    members = {"one": said(A), "two": said()}
    plan = leader_decision.plan(members, Fixed(one={A}, two={B}), AssignorSettings())

    told = leader_decision.answers(list(members), members, plan, {"app-dead"})

    share, view = leader_decision.read_assignment(told["two"])
    assert member_messages.unpack(share.active) == {B}
    assert {peer.name: member_messages.unpack(peer.active) for peer in view.peers} == {"one": {A}, "two": {B}}
    assert {peer.transactional_id for peer in view.peers} == {"app-1", "app-0"}
    assert view.dead == ["app-dead"]
    assert not view.shutdown


def test_one_who_asks_to_stop_stops_all() -> None:
    read = {
        name: SubscriptionReader(GroupTasks({})).read(name, subscription(shutdown=name == "one", active={}))
        for name in ("one", "two")
    }
    members = {name: each for name, each in read.items() if each is not None}

    told = leader_decision.answers(
        list(members), members, leader_decision.plan(members, Fixed(), AssignorSettings()), ()
    )

    assert leader_decision.read_assignment(told["two"])[1].shutdown


def test_an_assignment_that_cannot_be_read_says_so() -> None:
    with pytest.raises(member_messages.MalformedError):
        leader_decision.read_assignment(b"\x00")


@pytest.mark.parametrize("note", ["a long note, " * 500, "two\nlines", "half a pair: \ud83d", "x" * 1000])
def test_a_note_reaches_its_member_whatever_is_in_it(note: str) -> None:
    decided = Plan({"one": MemberPlan(notes=(note,))})

    told = leader_decision.answers(["one"], {"one": said()}, decided, ())

    share, _ = leader_decision.read_assignment(told["one"])
    (read,) = share.notes
    assert read[:9] == note[:9].replace("\n", " ")
    assert read.endswith("…") == (len(note) > 1000)
