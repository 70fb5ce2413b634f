"""The meaning of every answer of the coordinator to a member; the coordinator is played by the test."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from played_coordinator import OK, RESTING, Play, assigned_twice, play
from streamsapp.brokers.errors import RefusedError, UnreachableError
from streamsapp.errors import ConfigError, FencedError, StreamsError
from streamsapp.membership.heartbeat_times import EXPECTING_INTERVAL
from streamsapp.membership.wire import Identity


def test_a_resting_member_shows_signs_of_life_less_often_until_it_works_again_or_joins() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        assert RESTING not in it.coordinator.pauses
        it.told.resting = True
        await it.until(lambda: it.coordinator.pauses[-3:] == [RESTING] * 3)
        it.coordinator.answers["JoinGroupRequest"] = [asyncio.Future()]
        it.group.rejoin("somebody asks for it")
        await it.until(lambda: it.coordinator.pauses[-3:] == [0.002] * 3)

    play(scene)


def test_a_member_that_the_coordinator_forgot_is_lost_and_joins_under_a_new_id() -> None:
    it = play(assigned_twice, Heartbeat=[OK, KafkaError.UNKNOWN_MEMBER_ID, OK])

    assert len(it.told.losses) == 1
    assert [request.member_id for request in it.coordinator.of("JoinGroup")] == ["", ""]


def test_a_member_of_an_old_generation_is_lost_but_keeps_its_id() -> None:
    it = play(assigned_twice, Heartbeat=[OK, KafkaError.ILLEGAL_GENERATION, OK])

    assert len(it.told.losses) == 1
    assert [request.member_id for request in it.coordinator.of("JoinGroup")] == ["", "member-1"]


def test_a_rebalance_is_no_loss() -> None:
    it = play(assigned_twice, Heartbeat=[OK, KafkaError.REBALANCE_IN_PROGRESS, OK])

    assert it.told.losses == []
    assert it.told.assignments == [Identity(1, "member-1"), Identity(2, "member-1")]


def test_a_rebalance_that_begins_anew_while_the_assignment_is_awaited_is_no_loss() -> None:
    async def scene(it: Play) -> None:
        await it.until(lambda: it.told.assignments)

    it = play(scene, SyncGroup=[KafkaError.REBALANCE_IN_PROGRESS, OK])

    assert it.told.losses == []
    assert it.told.assignments == [Identity(2, "member-1")]


def test_the_id_that_the_coordinator_gives_is_used() -> None:
    async def scene(it: Play) -> None:
        await it.until(lambda: it.told.assignments)

    it = play(scene, JoinGroup=[KafkaError.MEMBER_ID_REQUIRED, OK])

    assert [request.member_id for request in it.coordinator.of("JoinGroup")] == ["", "member-1"]


def test_a_member_shows_signs_of_life_while_it_waits_for_others_to_join() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        others: asyncio.Future[int] = asyncio.Future()
        it.coordinator.answers["JoinGroupRequest"] = [others, OK]
        it.group.rejoin("a test")
        await it.until(lambda: len(it.coordinator.of("JoinGroup")) == 2)
        for _ in range(5):
            it.clock.advance(4000)
            beats = len(it.coordinator.of("Heartbeat"))
            await it.until(lambda beats=beats: len(it.coordinator.of("Heartbeat")) > beats + 1)  # type: ignore[misc]
            assert it.group.session.safe_until > it.clock.monotonic()
        # The generation changes before the answer to JoinGroup arrives.
        it.coordinator.answers["HeartbeatRequest"] = [KafkaError.ILLEGAL_GENERATION]
        beats = len(it.coordinator.of("Heartbeat"))
        await it.until(lambda: len(it.coordinator.of("Heartbeat")) > beats + 1)
        it.coordinator.answers["HeartbeatRequest"] = [OK]
        others.set_result(OK)
        await it.until(lambda: len(it.told.assignments) == 2)

    assert play(scene).told.losses == []


def test_a_member_that_hears_nothing_for_a_session_is_lost_and_joins_again_under_its_id() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        it.coordinator.answers["HeartbeatRequest"] = [UnreachableError("cut")]
        it.coordinator.answers["FindCoordinatorRequest"] = [UnreachableError("cut")]
        it.clock.advance(5000)
        await it.until(lambda: it.group.coordinator.outage)
        assert it.group.coordinator.outage == (it.clock.monotonic(), "cut")
        assert it.told.losses == []
        it.clock.advance(1001)
        await it.until(lambda: it.told.losses)
        assert it.group.session.safe_until < it.clock.monotonic()
        it.coordinator.answers["FindCoordinatorRequest"] = it.coordinator.answers["HeartbeatRequest"] = [OK]
        await it.until(lambda: len(it.told.assignments) == 2)
        await it.until(lambda: it.group.coordinator.outage is None)

    it = play(scene)

    assert it.told.losses == ["no answer from the coordinator for 6 s"]
    assert it.coordinator.of("JoinGroup")[-1].member_id == "member-1"


def test_a_member_that_hears_nothing_stops_waiting_for_others() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        others: asyncio.Future[int] = asyncio.Future()
        it.coordinator.answers["JoinGroupRequest"] = [others, OK]
        it.group.rejoin("a test")
        await it.until(lambda: len(it.coordinator.of("JoinGroup")) == 2)
        it.coordinator.answers["HeartbeatRequest"] = [UnreachableError("cut")]
        it.clock.advance(6001)
        await it.until(lambda: it.coordinator.hung_up)

    it = play(scene)

    assert it.coordinator.hung_up == ["for joining"]
    assert len(it.told.losses) == 1


def test_a_process_that_was_stopped_knows_at_once_that_it_may_be_a_zombie() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        assert it.group.session.safe_until > it.clock.monotonic()
        it.clock.advance(5500)
        assert it.group.session.safe_until < it.clock.monotonic()

    play(scene)


def test_a_sign_of_life_counts_from_when_it_was_sent() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        late: asyncio.Future[int] = asyncio.Future()
        it.coordinator.answers["HeartbeatRequest"] = [late, UnreachableError("cut")]
        beats = len(it.coordinator.of("Heartbeat"))
        await it.until(lambda: len(it.coordinator.of("Heartbeat")) > beats)
        sent = it.clock.monotonic()
        it.clock.advance(3000)
        late.set_result(OK)
        await it.until(lambda: len(it.coordinator.of("Heartbeat")) > beats + 1)
        assert it.group.session.safe_until == pytest.approx(sent + 5.4)

    play(scene)


def test_a_coordinator_that_moved_is_looked_for() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        it.coordinator.answers["HeartbeatRequest"] = [KafkaError.NOT_COORDINATOR, OK]
        await it.until(lambda: len(it.coordinator.of("FindCoordinator")) == 2)

    it = play(scene)

    assert it.told.losses == []
    assert len(it.coordinator.of("JoinGroup")) == 1


def test_several_requests_to_join_become_one() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        for _ in range(5):
            it.group.rejoin("a test")
        await it.until(lambda: len(it.told.assignments) == 2)
        beats = len(it.coordinator.of("Heartbeat"))
        await it.until(lambda: len(it.coordinator.of("Heartbeat")) > beats + 3)

    assert len(play(scene).coordinator.of("JoinGroup")) == 2


def test_a_request_to_join_that_comes_during_a_join_is_not_forgotten() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        others: asyncio.Future[int] = asyncio.Future()
        it.coordinator.answers["JoinGroupRequest"] = [others, OK]
        it.group.rejoin("one")
        await it.until(lambda: len(it.coordinator.of("JoinGroup")) == 2)
        it.group.rejoin("another")
        others.set_result(OK)
        await it.until(lambda: len(it.told.assignments) == 3)

    play(scene)


def test_a_coordinator_that_is_away_is_asked_until_it_is_back() -> None:
    async def scene(it: Play) -> None:
        await it.until(lambda: it.told.assignments)

    it = play(scene, FindCoordinator=[UnreachableError("away"), KafkaError.COORDINATOR_NOT_AVAILABLE, OK])

    assert it.told.errors == []


@pytest.mark.parametrize(
    ("request_name", "answer", "kind", "words"),
    [
        ("JoinGroup", KafkaError.INVALID_SESSION_TIMEOUT, ConfigError, "session.timeout.ms.*group.min.session.timeout"),
        ("JoinGroup", KafkaError.GROUP_MAX_SIZE_REACHED, StreamsError, "group.max.size"),
        ("JoinGroup", KafkaError.FENCED_INSTANCE_ID, FencedError, "took this one's place"),
        ("SyncGroup", KafkaError.FENCED_INSTANCE_ID, FencedError, "took this one's place"),
        ("Heartbeat", KafkaError.FENCED_INSTANCE_ID, FencedError, "took this one's place"),
        ("FindCoordinator", KafkaError.GROUP_AUTHORIZATION_FAILED, StreamsError, "grant READ on the group"),
        ("FindCoordinator", RefusedError("wrong password"), StreamsError, "wrong password"),
    ],
)
def test_what_cannot_be_helped_ends_the_membership(
    request_name: str, answer: Any, kind: type[Exception], words: str
) -> None:
    async def scene(it: Play) -> None:
        await it.until(lambda: it.told.errors)
        count = len(it.coordinator.requests)
        await asyncio.sleep(0.01)
        assert len(it.coordinator.requests) == count

    it = play(scene, **{request_name: [answer]})

    with pytest.raises(kind, match=words):
        raise it.told.errors[0]
    assert len(it.told.errors) == 1
    assert it.group.session.safe_until < it.clock.monotonic()


def test_a_member_leaves_also_while_it_waits_for_others_to_join() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        others: asyncio.Future[int] = asyncio.Future()
        it.coordinator.answers["JoinGroupRequest"] = [others, OK]
        it.group.rejoin("a test")
        await it.until(lambda: len(it.coordinator.of("JoinGroup")) == 2)
        await it.group.leave("the end")
        others.set_result(KafkaError.UNKNOWN_MEMBER_ID)
        await asyncio.sleep(0.01)

    it = play(scene)

    assert [request.members[0].member_id for request in it.coordinator.of("LeaveGroup")] == ["member-1"]
    assert len(it.coordinator.of("JoinGroup")) == 2
    assert it.told.losses == []


def test_a_member_that_leaves_while_it_is_given_its_id_leaves_under_that_id() -> None:
    async def scene(it: Play) -> None:
        given: asyncio.Future[int] = asyncio.Future()
        it.coordinator.answers["JoinGroupRequest"] = [given, OK]
        await it.until(lambda: it.coordinator.of("JoinGroup"))
        leaving = asyncio.ensure_future(it.group.leave("the end"))
        await asyncio.sleep(0.01)
        given.set_result(KafkaError.MEMBER_ID_REQUIRED)
        await leaving

    it = play(scene)

    assert [request.members[0].member_id for request in it.coordinator.of("LeaveGroup")] == ["member-1"]
    assert len(it.coordinator.of("JoinGroup")) == 1


def test_a_member_that_leaves_while_it_prepares_to_join_does_not_join() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        commit_ended = asyncio.Event()
        it.told.prepare = commit_ended.wait  # type: ignore[assignment,method-assign]
        it.group.rejoin("a test")
        await asyncio.sleep(0.01)
        await it.group.leave("the end")
        commit_ended.set()
        await asyncio.sleep(0.01)

    it = play(scene)

    assert len(it.coordinator.of("JoinGroup")) == len(it.coordinator.of("LeaveGroup")) == 1


def test_a_member_that_stepped_out_joins_only_when_it_steps_in() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        await it.group.step_out("it hangs")
        it.group.rejoin("a test")
        await asyncio.sleep(0.01)
        assert len(it.coordinator.of("JoinGroup")) == 1
        it.group.step_in()
        await it.until(lambda: len(it.told.assignments) == 2)

    it = play(scene)

    assert it.told.losses == ["it hangs"]
    assert len(it.coordinator.of("LeaveGroup")) == 1


def test_a_member_that_wants_a_rebalance_waits_for_the_others_and_joins_at_once_where_they_join_already() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        await it.until(lambda: it.coordinator.pauses)
        it.group._times.join_in = lambda: 3600.0  # type: ignore[method-assign]
        it.group.rejoin("a replica has caught up")
        beats = len(it.coordinator.of("Heartbeat"))
        await it.until(lambda: len(it.coordinator.of("Heartbeat")) > beats + 3)
        assert len(it.coordinator.of("JoinGroup")) == 1
        it.coordinator.answers["HeartbeatRequest"] = [KafkaError.REBALANCE_IN_PROGRESS, OK]
        await it.until(lambda: len(it.told.assignments) == 2)

    play(scene)


def test_a_member_that_gave_tasks_up_joins_at_once() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        it.group._times.join_in = lambda: 3600.0  # type: ignore[method-assign]
        it.group.rejoin("tasks were given up", at_once=True)
        await it.until(lambda: len(it.told.assignments) == 2)

    play(scene)


def test_heartbeats_come_fast_from_an_assignment_on_that_another_one_follows() -> None:
    async def scene(it: Play) -> None:
        it.told.expects_rebalance = True
        it.group._times._settings = replace(it.group._times._settings, heartbeat_interval=100.0)
        await it.stable()
        await it.until(lambda: len(it.coordinator.of("Heartbeat")) > 3)

    assert EXPECTING_INTERVAL in play(scene).coordinator.pauses
