"""Heartbeats written by hand equal those of kafka-python, and answers are read as it reads them."""

from __future__ import annotations

import random
import struct

import pytest
from kafka.protocol.consumer import HeartbeatRequest as Theirs, HeartbeatResponse

from streamsapp.brokers.request_by_hand import number_of
from streamsapp.membership.heartbeat import HeartbeatRequest
from streamsapp.membership.wire import GroupSettings, Identity

VERSIONS = range(5)
NAMES = ("g", "", "ü" * 70, "x" * 249)


def asked(group_id: str = "g", instance_id: str | None = None) -> HeartbeatRequest:
    group = GroupSettings(group_id, instance_id, 7.5, 0.1, 60.0, 0.25)
    return HeartbeatRequest(group, Identity(12, "member"))


def answer(version: int, code: int, throttled: int = 0, number: int = 5) -> bytes:
    """In kafka-python's encoding, without its length."""
    made = HeartbeatResponse(throttle_time_ms=throttled, error_code=code, version=version)
    made.with_header(correlation_id=number)
    return bytes(made.encode(header=True))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.seeds(5)
def test_requests_are_the_same_bytes(seed: int, version: int) -> None:
    rng = random.Random(seed)
    group_id, instance_id, number = rng.choice(NAMES), rng.choice([None, *NAMES]), rng.randrange(1 << 31)
    given = instance_id if version >= 3 else None
    expected = Theirs(group_id=group_id, generation_id=12, member_id="member", group_instance_id=given)
    expected.API_VERSION = version
    expected.with_header(correlation_id=number, client_id="client")

    sent = asked(group_id, instance_id).encoded(version, number, "client")

    assert sent == bytes(expected.encode(version=version, header=True, framed=True))


@pytest.mark.parametrize("code", [0, 25, -1, 27])
@pytest.mark.parametrize("version", VERSIONS)
def test_answers_are_read(version: int, code: int) -> None:
    data = answer(version, code, 123, 77)
    assert number_of(data) == 77
    assert asked().decoded(data, version) == (code, 123 if version else 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_that_is_cut_off_is_refused(version: int) -> None:
    whole = answer(version, 0)
    for size in range(4, len(whole)):
        with pytest.raises((ValueError, struct.error)):
            asked().decoded(whole[:size], version)


@pytest.mark.parametrize(("known", "chosen"), [((0, 4), 4), ((0, 9), 4), ((0, 2), 2), ((0, 0), 0)])
def test_the_greatest_version_is_used_that_a_broker_knows(known: tuple[int, int], chosen: int) -> None:
    assert asked().newest({12: known}) == chosen
