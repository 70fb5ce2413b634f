"""Any fault of an answer closes its connection, and fails the calls that wait on it; the next request is answered."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from answering_broker import API_VERSIONS, AnsweringBroker
from streamsapp import TopicPartition
from streamsapp.brokers import bounds, coordinators
from streamsapp.brokers.bounds import WrongAnswerError, check_told
from streamsapp.brokers.connection import Check, Connection
from streamsapp.brokers.errors import UnreachableError
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import SystemClock
from streamsapp.deadline import Deadline
from streamsapp.kafka.group_member import Member
from streamsapp.kafka.producing import wire as batches
from streamsapp.kafka.producing.produce import ProduceRequest
from streamsapp.kafka.producing.transaction_requests import EndTxnRequest, TxnOffsetCommitRequest
from streamsapp.membership import wire
from streamsapp.membership.wire import GroupSettings, Identity

#: Much longer than an answer takes, and much less than it is waited for.
SOON, ENDLESS = 20.0, 3600.0
GROUP = GroupSettings("g", None, 10.0, 1.0, 10.0, 1.0)
OFFSETS = {TopicPartition("t", 0): (5, ""), TopicPartition("t", 1): (6, "")}
PRODUCER, MEMBER = batches.Producer(7, 1), Member("g", 1, "m", None)
NAMES = [("t", 0), ("t", 1)]

#: Each request with the check of its answer.
REQUESTS: dict[str, tuple[Callable[[], Any], Check[Any]]] = {
    "FindCoordinator": (
        partial(coordinators.find_coordinator, coordinators.GROUP, "g"),
        partial(coordinators.check_coordinator, key="g"),
    ),
    "JoinGroup": (partial(wire.join, GROUP, "m", b"metadata", "why"), wire.check_joined),
    "SyncGroup": (partial(wire.sync, GROUP, Identity(1, "m"), {"m": b"a"}), lambda answer: None),
    "OffsetCommit": (
        partial(wire.commit, GROUP, Identity(1, "m"), OFFSETS),
        partial(wire.check_committed, offsets=OFFSETS),
    ),
    "LeaveGroup": (partial(wire.leave, GROUP, "m", "why"), lambda answer: None),
    "InitProducerId": (partial(wire.fence, "id"), wire.check_fenced),
    "InitProducerId of a producer": (partial(batches.init_producer, "id", 1000), batches.check_producer),
    "AddPartitionsToTxn": (
        partial(batches.add_partitions, "id", PRODUCER, NAMES),
        partial(batches.check_added, names=NAMES),
    ),
    "AddOffsetsToTxn": (partial(batches.add_offsets, "id", PRODUCER, "g"), lambda answer: None),
    "Produce": (lambda: ProduceRequest(None, [(name, b"records") for name in NAMES], 1.0), lambda answer: None),
    "TxnOffsetCommit": (
        lambda: TxnOffsetCommitRequest("id", PRODUCER, MEMBER, OFFSETS, implicit=False),
        lambda answer: None,
    ),
    "EndTxn": (lambda: EndTxnRequest("id", PRODUCER, committed=True, implicit=True), lambda answer: None),
    "Metadata": (lambda: batches.topics(["t"]), lambda answer: None),
}

each_request = pytest.mark.parametrize(("request_of", "check"), REQUESTS.values(), ids=REQUESTS)


@pytest.fixture
def broker() -> Iterator[AnsweringBroker]:
    made = AnsweringBroker()
    yield made
    made.close()


class Asking:
    """A connection to a broker, and the thread that asks."""

    def __init__(self, broker: AnsweringBroker) -> None:
        self.connection = Connection(connection_settings({"bootstrap.servers": f"127.0.0.1:{broker.port}"}, "asking"))
        self.connection.start()

    def ask(self, request: Callable[[], Any], check: Check[Any] = lambda answer: None) -> Any:
        began = time.monotonic()
        work = partial(self.connection.ask_any, request, ENDLESS, check)
        try:
            return self.connection.run(work, ENDLESS, Deadline(SystemClock()))
        finally:
            assert time.monotonic() - began < SOON

    def ask_until_answered(self, request: Callable[[], Any], check: Check[Any]) -> None:
        """There is a pause after failures."""
        give_up = time.monotonic() + SOON
        while True:
            try:
                self.ask(request, check)
            except UnreachableError:
                assert time.monotonic() < give_up
                time.sleep(0.01)
            else:
                return


@pytest.fixture
def asking(broker: AnsweringBroker) -> Iterator[Asking]:
    made = Asking(broker)
    yield made
    made.connection.close(SOON)


@each_request
def test_an_answer_that_breaks_off_anywhere_fails_its_request_at_once_and_the_next_is_answered(
    request_of: Callable[[], Any], check: Check[Any], broker: AnsweringBroker, asking: Asking
) -> None:
    sizes: list[int] = []

    def measured(key: int, data: bytes) -> bytes:
        sizes.append(len(data))
        return data

    broker.harmed = measured
    asking.ask(request_of, check)
    for cut in range(sizes[-1]):
        left = [1]

        def harmed(key: int, data: bytes, left: list[int] = left, cut: int = cut) -> bytes:
            return data[:cut] if key != API_VERSIONS and left and left.pop() else data

        broker.harmed = harmed
        with pytest.raises(UnreachableError):
            asking.ask(request_of, check)
        asking.ask(request_of, check)


@each_request
@pytest.mark.seeds(2)
def test_an_answer_with_other_bytes_is_read_or_fails_its_request_at_once(
    request_of: Callable[[], Any],
    check: Check[Any],
    seed: int,
    broker: AnsweringBroker,
    asking: Asking,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "LONGEST_THROTTLE", 0.01)  # which some of the bytes are
    rng, failed = random.Random(seed), 0

    def harmed(key: int, data: bytes) -> bytes:
        if key == API_VERSIONS or rng.random() < 0.2:
            return data
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 4])):
            changed[rng.randrange(len(changed))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        return bytes(changed)

    broker.harmed = harmed
    for _ in range(60):
        try:
            asking.ask(request_of, check)
        except UnreachableError:
            failed += 1
    broker.harmed = lambda key, data: data
    asking.ask_until_answered(request_of, check)
    assert failed


def test_versions_that_break_off_fail_what_waits_for_the_connection(broker: AnsweringBroker, asking: Asking) -> None:
    request, check = REQUESTS["JoinGroup"]
    for cut in range(0, 200, 7):
        broker.harmed = lambda key, data, cut=cut: data[:cut] if key == API_VERSIONS else data  # type: ignore[misc]
        with suppress(UnreachableError):
            asking.ask(request, check)
    broker.harmed = lambda key, data: data
    asking.ask_until_answered(request, check)


def _left_out(answer: Any) -> None:
    for topics, parts in (
        ("topics", "partitions"),
        ("responses", "partition_responses"),
        ("results_by_topic_v3_and_below", "results_by_partition"),
    ):
        if getattr(answer, topics, None):
            getattr(getattr(answer, topics)[0], parts).pop()


def _twice(answer: Any) -> None:
    for topics in ("topics", "responses", "results_by_topic_v3_and_below", "coordinators", "members"):
        if getattr(answer, topics, None):
            setattr(answer, topics, getattr(answer, topics) * 2)


@pytest.mark.parametrize("wrong", [_left_out, _twice])
@pytest.mark.parametrize("name", ["OffsetCommit", "AddPartitionsToTxn", "Produce", "TxnOffsetCommit"])
def test_what_an_answer_leaves_out_is_not_done(
    name: str, wrong: Callable[[Any], None], broker: AnsweringBroker, asking: Asking
) -> None:
    asking.ask(*REQUESTS[name])
    broker.rewritten = lambda key, answer: None if key == API_VERSIONS else wrong(answer)

    with pytest.raises(UnreachableError):
        asking.ask(*REQUESTS[name])

    broker.rewritten = lambda key, answer: None
    asking.ask(*REQUESTS[name])


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("JoinGroup", "member_id", ""),
        ("JoinGroup", "generation_id", -1),
        ("JoinGroup", "protocol_name", "range"),
        ("JoinGroup", "members", []),
        ("InitProducerId", "producer_id", -1),
        ("InitProducerId of a producer", "producer_epoch", -1),
        ("EndTxn", "producer_id", -1),
    ],
)
def test_an_answer_that_makes_no_sense_is_none(
    name: str, field: str, value: Any, broker: AnsweringBroker, asking: Asking
) -> None:
    broker.rewritten = lambda key, answer: None if key == API_VERSIONS else setattr(answer, field, value)
    with pytest.raises(UnreachableError):
        asking.ask(*REQUESTS[name])


def test_a_broker_is_left_alone_for_some_time_and_no_longer(
    broker: AnsweringBroker, asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "LONGEST_THROTTLE", 0.05)
    broker.rewritten = lambda key, answer: setattr(answer, "throttle_time_ms", 2**31 - 1)
    answered = 0
    give_up = time.monotonic() + SOON
    while answered < 3:
        assert time.monotonic() < give_up
        try:
            asking.ask(*REQUESTS["JoinGroup"])
        except UnreachableError:
            continue  # it is paused
        answered += 1


def test_each_that_was_asked_for_is_told_of_once() -> None:
    check_told("X", [1, 2], [2, 1])
    check_told("X", [], [])
    for told, how in (([1], "leaves out 2"), ([1, 2, 3], "not asked for: 3"), ([1, 2, 2], "more than once of 2")):
        with pytest.raises(WrongAnswerError, match=f"the answer to X .*{how}"):
            check_told("X", [1, 2], told)
