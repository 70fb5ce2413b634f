"""One member may say anything: the leader stays alive, its work is bounded, and the others get their tasks."""

from __future__ import annotations

import resource
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from hostile_members import SUBSCRIPTIONS, metadata
from streamsapp import TaskId, TopicPartition
from streamsapp.membership import leader_decision, member_messages, wire
from streamsapp.membership.api import GroupTasks, TaskInfo
from streamsapp.membership.assignor.assignor import HighAvailabilityTaskAssignor
from streamsapp.membership.assignor.model import AssignorSettings, MemberPlan, MemberState, Plan
from streamsapp.membership.leader_decision import MemberSubscription, SubscriptionReader
from streamsapp.membership.member_messages import AssignmentInfo, GroupView, MalformedError, PeerEntry

TASKS = {
    TaskId(0, each): TaskInfo(frozenset({TopicPartition("in", each)}), stateful=True, definition="v1")
    for each in range(4)
}
SETTINGS = AssignorSettings(standby_replicas=1)


def good() -> MemberSubscription:
    said = SubscriptionReader(GroupTasks({})).read(
        "good", metadata(definitions=member_messages.pack_definitions(TASKS), active={0: [0, 4]})
    )
    assert said is not None
    return said


def read(says: bytes) -> tuple[bool, int]:
    """Says whether it can be read, and by how many bytes the most memory that the process has had grew."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = SubscriptionReader(GroupTasks({})).read("stranger", says)
    return said is not None, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10


@pytest.fixture(scope="module")
def alone() -> Iterator[ProcessPoolExecutor]:
    """A process that does nothing else, so that its memory can be measured."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
        yield process


@pytest.mark.parametrize("says", [*SUBSCRIPTIONS.values(), b"\xff" * 100], ids=[*SUBSCRIPTIONS, "no subscription"])
def test_what_no_member_says_is_not_read_and_takes_little_room(says: bytes, alone: ProcessPoolExecutor) -> None:
    readable, room = alone.submit(read, says).result()

    assert not readable
    assert room < 64 << 20


def test_the_most_that_is_believed_can_be_planned_and_told() -> None:
    runs = [number for each in range(member_messages.MAX_TASKS) for number in (2 * each, 1)]
    says = metadata(definitions=[member_messages.Definition(1, "x", False, ["a", "b", "c", "d"], runs)])
    stranger = SubscriptionReader(GroupTasks({})).read("stranger", says)
    assert stranger is not None

    told = leader_decision.decide(["good", "stranger"], {"good": good(), "stranger": stranger}, *WITH).answers

    assert member_messages.unpack(leader_decision.read_assignment(told["good"])[0].active) == TASKS.keys()
    assert (
        len(member_messages.unpack(leader_decision.read_assignment(told["stranger"])[0].active))
        == member_messages.MAX_TASKS
    )


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=300) | st.binary(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.integers(-(2**40), 2**40) | st.text(), inner),
    max_leaves=8,
)
numbers = st.sampled_from([-(2**63), -1, 0, 1, 2, 3, 4, 100, 50_000, 2**31 - 1, 2**31, 2**63 - 1])
runs = st.lists(numbers, max_size=6)
tasks = st.dictionaries(numbers, runs, max_size=3)
topics = st.lists(st.sampled_from(["in", "out", "", "\n", "t" * 40_000]), max_size=3)
definitions = st.lists(
    st.tuples(numbers, st.text(max_size=5), st.booleans(), topics, runs, st.lists(st.tuples(st.just("in"), numbers))),
    max_size=4,
)
#: By field of a subscription.
plausible = {
    9: tasks,
    10: st.dictionaries(numbers, st.lists(st.tuples(numbers, st.none() | numbers), max_size=3)),
    11: tasks,
    12: definitions,
}


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid subscription with some fields changed, or some bytes."""
    says = member_messages.pack_definitions(TASKS)
    fields = list(
        msgspec.structs.astuple(
            member_messages.Subscription.decode(wire.user_data_of_subscription(metadata(definitions=says)))
        )
    )
    for field in draw(st.sets(st.integers(0, 13), max_size=3)):
        fields[field : field + 1] = [draw(anything | plausible.get(field, st.nothing()))]
    packed = bytearray(msgspec.msgpack.encode(fields))
    for at in draw(st.lists(st.integers(0, len(packed) - 1), max_size=2)):
        packed[at] = draw(st.integers(0, 255))
    wired = bytearray(wire.subscription(["in"], zlib.compress(packed)))
    for at in draw(st.lists(st.integers(0, len(wired) - 1), max_size=1)):
        wired[at] = draw(st.integers(0, 255))
    return bytes(wired)


@settings(derandomize=True)
@given(mutated())
def test_whatever_a_member_says_the_others_are_told_their_tasks(says: bytes) -> None:
    stranger = SubscriptionReader(GroupTasks({})).read("stranger", says)
    said = {"good": good()} | ({} if stranger is None else {"stranger": stranger})

    told = leader_decision.decide(["good", "stranger"], said, *WITH).answers

    share, view = leader_decision.read_assignment(told["good"])
    active = member_messages.unpack(share.active)
    assert active <= TASKS.keys() if stranger else active == TASKS.keys()
    assert {peer.name for peer in view.peers} <= said.keys()
    assert leader_decision.read_assignment(told["stranger"])[1] == view


@settings(derandomize=True)
@given(st.binary(max_size=300) | st.builds(lambda fields: zlib.compress(msgspec.msgpack.encode(fields)), anything))
def test_whatever_a_leader_says_is_read_or_malformed(data: bytes) -> None:
    for each in (data, wire.assignment((), data), wire.assignment((), AssignmentInfo({}, {}, {}, data, 1).encode())):
        with pytest.raises(MalformedError):
            leader_decision.read_assignment(each)


@pytest.mark.parametrize(
    "endpoint", ["host", "host:0", "host:65536", "a b:80", "host:80\r\n", "http://host:80", "@h:1"]
)
def test_the_endpoint_of_a_peer_is_a_host_and_a_port_or_the_assignment_is_malformed(endpoint: str) -> None:
    view = GroupView(1, [PeerEntry("one", endpoint, "", {}, {}, False)], [], False)
    told = wire.assignment((), AssignmentInfo({}, {}, {}, view.encode(), 1).encode())

    with pytest.raises(MalformedError, match="matching regex"):
        leader_decision.read_assignment(told)


WITH = (HighAvailabilityTaskAssignor(), SETTINGS, ())


class Fragile:
    """Assigns every task to its owner, and stumbles over a member whose host it does not like."""

    def __init__(self, dislikes: str) -> None:
        self._dislikes = dislikes

    def assign(self, members: Mapping[str, MemberState], _settings: AssignorSettings) -> Plan:
        for state in members.values():
            if state.host == self._dislikes:
                raise ArithmeticError(f"{state.host} is no host")
        return Plan({name: MemberPlan(active=state.active) for name, state in members.items()})


def test_a_member_with_whom_nothing_can_be_decided_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    stranger = SubscriptionReader(GroupTasks({})).read("a stranger", metadata(host="evil"))
    assert stranger is not None
    said = {"a stranger": stranger, "good": good()}

    told = leader_decision.decide(list(said), said, Fragile("evil"), SETTINGS, ()).answers

    assert member_messages.unpack(leader_decision.read_assignment(told["good"])[0].active) == TASKS.keys()
    share, view = leader_decision.read_assignment(told["a stranger"])
    assert share.active == {}
    assert [peer.name for peer in view.peers] == ["good"]
    assert "nothing can be decided with member a stranger (evil is no host): it gets no task" in caplog.text


def test_an_assignor_that_can_decide_for_nobody_is_an_error() -> None:
    with pytest.raises(ArithmeticError):
        leader_decision.decide(["good"], {"good": good()}, Fragile("pod"), SETTINGS, ())
