"""A member whose answers from a real broker break off, wherever that is, joins again and is deaf to nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from kafka_cluster import Kafka
from members import ENDLESS, Members, tasks_of
from tampering_proxy import TamperingProxy

FIND_COORDINATOR, JOIN, HEARTBEAT, SYNC, OFFSET_COMMIT = 10, 11, 12, 14, 8


@pytest.fixture
def proxy(kafka: Kafka) -> Iterator[TamperingProxy]:
    with TamperingProxy(kafka.bootstrap_servers) as made:
        yield made


@pytest.mark.parametrize("kind", [FIND_COORDINATOR, JOIN, SYNC, HEARTBEAT])
def test_a_member_joins_again_after_an_answer_that_breaks_off_anywhere(
    kind: int, kafka: Kafka, members: Members, proxy: TamperingProxy
) -> None:
    cuts = iter(range(0, 400, 1 if kind == HEARTBEAT else 11))
    done = False

    def tamper(key: int, version: int, answer: bytes) -> bytes:
        nonlocal done
        if key != kind or done:
            return answer
        cut = next(cuts, 400)
        done = cut >= len(answer)
        return answer[:cut]

    proxy.tamper = tamper
    one = members.join(
        kafka.unique("app"), tasks_of(kafka.create_topic(), 2), bootstrap_servers=proxy.bootstrap_servers, kafka=ENDLESS
    )
    began = time.monotonic()
    members.until(lambda: done, "an answer that is whole")
    members.settled(one, partitions=[0, 1])

    assert one.member.begin_commit()
    one.member.end_commit()
    assert time.monotonic() - began < 90
