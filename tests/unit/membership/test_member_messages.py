"""The word of members survives the way, is small, and is never trusted."""

from __future__ import annotations

import zlib

import msgspec
import pytest
from hypothesis import given, strategies as st

from streamsapp import TaskId, TopicPartition
from streamsapp.membership import member_messages
from streamsapp.membership.api import TaskInfo
from streamsapp.membership.member_messages import AssignmentInfo, MalformedError, Subscription

task_ids = st.builds(TaskId, st.integers(0, 5), st.integers(0, 300))
lags = st.dictionaries(task_ids, st.none() | st.integers(0, 2**62))
infos = st.builds(
    TaskInfo,
    st.frozensets(st.builds(TopicPartition, st.sampled_from(["in", "other"]), st.integers(0, 300))),
    st.booleans(),
    st.sampled_from(["", "v1", "v2"]),
    st.none() | st.frozensets(st.tuples(st.sampled_from(["counts", "sums"]), st.sampled_from(["KEY_VALUE", "WINDOW"]))),
)


@given(st.frozensets(task_ids))
def test_tasks_come_back(tasks: frozenset[TaskId]) -> None:
    assert member_messages.unpack(member_messages.pack(tasks)) == tasks


@given(lags)
def test_lags_come_back_and_unknown_stays_unknown(held: dict[TaskId, int | None]) -> None:
    assert member_messages.unpack_lags(member_messages.pack_lags(held)) == held


@given(st.dictionaries(task_ids, infos))
def test_definitions_come_back(tasks: dict[TaskId, TaskInfo]) -> None:
    assert member_messages.unpack_definitions(member_messages.pack_definitions(tasks)) == tasks


def subscription(**changes: object) -> Subscription:
    usual = Subscription(1, 7, "app-1", "host:80", "pod", {"zone": "a"}, 2, False, False, {0: [0, 3]}, {}, {}, [])
    return msgspec.structs.replace(usual, **changes)


def test_a_subscription_comes_back() -> None:
    said = subscription(lags={0: [(4, None)]}, draining=True)

    assert Subscription.decode(said.encode()) == said


def test_what_a_later_version_added_is_skipped() -> None:
    fields = [*msgspec.structs.astuple(subscription()), "news of 2031"]

    assert Subscription.decode(zlib.compress(msgspec.msgpack.encode(fields))) == subscription()


def test_what_an_earlier_version_did_not_tell_is_not_known() -> None:
    told = [0, "v1", True, ["in"], [0, 2], []]  # without the stores
    fields = [*msgspec.structs.astuple(subscription())[:-3], [told]]

    read = Subscription.decode(zlib.compress(msgspec.msgpack.encode(fields)))

    tasks = member_messages.unpack_definitions(read.definitions)
    assert tasks[TaskId(0, 1)] == TaskInfo(frozenset({TopicPartition("in", 1)}), True, "v1", stores=None)


def test_a_share_of_an_earlier_leader_has_no_notes() -> None:
    fields = [{0: [0, 1]}, {}, {}, b"group", 5]

    assert AssignmentInfo.decode(zlib.compress(msgspec.msgpack.encode(fields))).notes == []


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"not compressed", id="not compressed"),
        pytest.param(zlib.compress(b"\xc1"), id="not encoded"),
        pytest.param(zlib.compress(msgspec.msgpack.encode(["1", 2])), id="of other types"),
        pytest.param(subscription().encode()[:-4], id="cut off"),
        pytest.param(zlib.compress(b"\x00" * (member_messages.MAX_BYTES + 1)), id="a bomb"),
        pytest.param(b"\x00" * (member_messages.MAX_COMPRESSED + 1), id="too long"),
    ],
)
def test_what_no_member_says_is_refused(data: bytes) -> None:
    with pytest.raises(MalformedError):
        Subscription.decode(data)


@pytest.mark.parametrize("runs", [[0, 10**12], [0], [-5, 3], [3, -1], [0, 10**5, 0, 10**5, 0, 10**5]])
def test_a_few_bytes_do_not_become_any_number_of_tasks(runs: list[int]) -> None:
    with pytest.raises(MalformedError):
        member_messages.unpack({0: runs})


def test_a_thousand_tasks_take_little_room() -> None:
    tasks = {
        TaskId(0, each): TaskInfo(frozenset({TopicPartition("orders", each), TopicPartition("customers", each)}), True)
        for each in range(1000)
    }
    said = subscription(
        active=member_messages.pack(TaskId(0, each) for each in range(0, 1000, 100)),
        lags=member_messages.pack_lags({TaskId(0, each): each for each in range(5, 1000, 100)}),
        definitions=member_messages.pack_definitions(tasks),
    )

    assert len(said.encode()) < 400


def test_a_share_is_told_apart_from_its_predecessors() -> None:
    share = AssignmentInfo({0: [0, 1]}, {}, {}, b"group", 5)

    assert AssignmentInfo.decode(share.encode()).nonce == 5
