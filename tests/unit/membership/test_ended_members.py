"""Members whose processes have ended: what is known of them, and how they leave the group. The coordinator is played by
the test."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from played_coordinator import OK, Play, play
from streamsapp.brokers.errors import UnreachableError
from streamsapp.errors import StreamsError
from streamsapp.membership.member_id import MemberId


def test_a_process_takes_the_members_of_those_that_died_before_it_out_of_the_group(tmp_path: Path) -> None:
    async def scene(it: Play) -> None:
        await it.stable()

    play(scene, MemberId(tmp_path))
    MemberId(tmp_path).set("another")  # its process ends before it is in the group
    it = play(scene, MemberId(tmp_path), JoinGroup=[KafkaError.MEMBER_ID_REQUIRED, OK])

    told = [request for request in it.coordinator.requests if request.name in ("JoinGroupRequest", "LeaveGroupRequest")]
    # Once the group waits for the new member it begins no generation without it.
    assert [request.name for request in told] == ["JoinGroupRequest", *["LeaveGroupRequest"] * 2, "JoinGroupRequest"]
    assert [each.message.members[0].member_id for each in told[1:3]] == ["member-1", "another"]
    assert MemberId(tmp_path).predecessors == ["member-1"]


def test_a_process_of_another_start_of_the_machine_may_live(tmp_path: Path) -> None:
    async def scene(it: Play) -> None:
        await it.stable()

    (tmp_path / ".member-id").write_text("0f0e-of-another-kernel\nmember-7")
    it = play(scene, MemberId(tmp_path), JoinGroup=[KafkaError.MEMBER_ID_REQUIRED, OK])

    assert it.coordinator.of("LeaveGroup") == []


@pytest.mark.parametrize("left", [b"", b"\n\n", b"\xff\xfe", b"member-7", b"x" * 10_000])
def test_what_is_no_file_of_ids_names_no_process(tmp_path: Path, left: bytes) -> None:
    (tmp_path / ".member-id").write_bytes(left)

    assert MemberId(tmp_path).predecessors == []


def test_a_member_that_left_has_no_id_any_more(tmp_path: Path) -> None:
    told: list[str] = []

    async def scene(it: Play) -> None:
        await it.stable()
        assert MemberId(tmp_path).predecessors == ["member-1"]
        await it.group.leave("the end")

    play(scene, MemberId(tmp_path, told.append))

    assert MemberId(tmp_path).predecessors == []
    assert told == ["member-1", ""]


def test_a_member_whose_process_has_ended_is_taken_out_and_its_tasks_are_asked_for() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        await it.group.take_out("member-2")
        await it.until(lambda: len(it.told.assignments) == 2)

    it = play(scene)

    assert [each.members[0].member_id for each in it.coordinator.of("LeaveGroup")] == ["member-2"]
    assert it.told.losses == []


def test_a_member_that_the_group_has_put_out_already_moves_nothing() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        await it.group.take_out("member-2")
        beats = len(it.coordinator.of("Heartbeat"))
        await it.until(lambda: len(it.coordinator.of("Heartbeat")) > beats + 2)

    it = play(scene, LeaveGroup=[KafkaError.UNKNOWN_MEMBER_ID])

    assert len(it.told.assignments) == 1


def test_a_member_that_the_coordinator_cannot_take_out_now_is_reported() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        with pytest.raises(UnreachableError, match="cannot take member member-2 out of group group now"):
            await it.group.take_out("member-2")

    play(scene, LeaveGroup=[KafkaError.NOT_COORDINATOR])


def test_no_member_takes_itself_out() -> None:
    async def scene(it: Play) -> None:
        await it.stable()
        with pytest.raises(StreamsError, match="this instance"):
            await it.group.take_out("member-1")

    assert play(scene).coordinator.of("LeaveGroup") == []
