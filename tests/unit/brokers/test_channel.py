"""Requests and answers on one connection to a broker, in virtual time; the broker's end is in the test's hands."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator

import pytest

from streamsapp.brokers.channel import MOST
from streamsapp.brokers.errors import NotSentError, UnreachableError
from virtual_brokers import VirtualBrokers, answer, heartbeat

#: Longer than any pause between two tries to connect.
PAUSE = 1.0


@pytest.fixture
def brokers() -> Iterator[VirtualBrokers]:
    made = VirtualBrokers()
    yield made
    made.close()


def assert_lost(told: list[object], why: str, kind: type[UnreachableError] = UnreachableError) -> None:
    [error] = told
    assert type(error) is kind
    assert f"broker 0: {why}" in str(error)


def test_requests_are_sent_at_once_and_answered_in_their_order(brokers: VirtualBrokers) -> None:
    told = [brokers.ask() for _ in range(3)]
    peer = brokers.peer()
    numbers = peer.requests()
    assert len(set(numbers)) == 3

    peer.end.send(b"".join(answer(number, code) for code, number in enumerate(numbers, 5)))
    brokers.loop.settle()

    assert told == [[5], [6], [7]]
    assert len(brokers.tries) == 1


def test_an_answer_costs_two_turns_of_the_loop(brokers: VirtualBrokers) -> None:
    brokers.ask()
    peer, loop = brokers.peer(), brokers.loop

    async def beat() -> int:
        await loop.sleep(1)
        return int((await brokers.connection.send(heartbeat(), 0, 5)).error_code)

    told = loop.begin(beat())
    loop.turn()
    loop.turn()
    numbers = peer.requests()
    assert len(numbers) == 2
    peer.end.send(answer(numbers[0]) + answer(numbers[1], 9))
    loop.turn()
    assert told == [9]


def test_answers_may_come_in_any_pieces(brokers: VirtualBrokers) -> None:
    told = [brokers.ask() for _ in range(3)]
    peer = brokers.peer()
    for byte in b"".join(answer(number, 7) for number in peer.requests()):
        peer.end.send(bytes([byte]))
        brokers.loop.settle()

    assert told == [[7]] * 3


def test_the_rest_of_a_request_follows_when_the_socket_takes_it(brokers: VirtualBrokers) -> None:
    brokers.ask()
    peer = brokers.peer()
    peer.requests()
    peer.transport.limit = 3

    told = [brokers.ask() for _ in range(2)]
    numbers = peer.requests()
    while len(numbers) < 2:
        brokers.loop.turn()
        numbers += peer.requests()
    peer.transport.limit = 100
    peer.end.send(answer(numbers[0] - 1) + answer(numbers[0], 4) + answer(numbers[1], 5))
    brokers.loop.settle()

    assert told == [[4], [5]]


def test_a_request_that_is_not_sent_whole_was_not_sent(brokers: VirtualBrokers) -> None:
    brokers.ask()
    peer = brokers.peer()
    peer.requests()
    whole = brokers.ask()
    peer.transport.limit = 0
    part = brokers.ask()

    peer.end.close()
    brokers.loop.settle()

    assert_lost(whole, "")
    assert_lost(part, "", NotSentError)


@pytest.mark.parametrize("more", [-1, 1, 2**31 - 2])
def test_an_answer_to_something_else_closes_the_connection_for_all_that_wait(
    brokers: VirtualBrokers, more: int
) -> None:
    told = [brokers.ask() for _ in range(2)]
    peer = brokers.peer()
    first, _ = peer.requests()
    peer.end.send(answer((first + more) & 0x7FFFFFFF))
    brokers.loop.settle()

    for each in told:
        assert_lost(each, "it answers request ")
    assert peer.gone
    again = brokers.ask()
    brokers.peer().end.send(answer(*brokers.peer().requests()))
    brokers.loop.settle()
    assert again == [0]


def test_an_answer_that_nothing_was_asked_for_closes_the_connection(
    brokers: VirtualBrokers, caplog: pytest.LogCaptureFixture
) -> None:
    told = brokers.ask()
    peer = brokers.peer()
    [number] = peer.requests()
    with caplog.at_level(logging.WARNING):
        peer.end.send(answer(number, 3) * 2)
        brokers.loop.settle()

    assert told == [3]
    assert peer.gone
    assert "which is not the one that is due; the connection is closed" in caplog.text


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (struct.pack(">i", MOST + 1), "it announces an answer of 104857601 bytes"),
        (struct.pack(">i", 3), "it announces an answer of 3 bytes"),
        (struct.pack(">i", -1), "it announces an answer of -1 bytes"),
        (b"HTTP", "it speaks HTTP"),
        (b"\x15\x03\x03\x00", "it speaks TLS"),
    ],
)
def test_an_answer_of_a_length_that_none_has_closes_the_connection(
    brokers: VirtualBrokers, head: bytes, why: str
) -> None:
    told = brokers.ask()
    brokers.peer().end.send(head)
    brokers.loop.settle()

    [error] = told
    assert isinstance(error, UnreachableError)
    assert why in str(error)
    assert brokers.peer().gone


def test_an_answer_that_is_long_takes_no_more_room_than_has_come(brokers: VirtualBrokers) -> None:
    told = brokers.ask()
    peer = brokers.peer()
    peer.end.send(struct.pack(">i", MOST))
    peer.end.send(bytes(1000))
    brokers.loop.settle()

    [channel] = brokers.connection._brokers[0]._channels
    assert len(channel._answers._begun) == 1004
    assert not told


@pytest.mark.parametrize("cut", [4, 5, 8, 9, 10])
def test_an_answer_that_breaks_off_fails_its_request_and_what_follows(
    brokers: VirtualBrokers, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    told = [brokers.ask() for _ in range(2)]
    peer = brokers.peer()
    first, second = peer.requests()
    broken = answer(first)[4 : 4 + cut]
    peer.end.send(struct.pack(">i", len(broken)) + broken + answer(second))
    brokers.loop.settle()

    for each in told:
        assert_lost(each, "its answer cannot be read: ")
    assert "the connection is closed" in caplog.text
    assert peer.gone


def test_a_request_that_is_late_closes_the_connection(brokers: VirtualBrokers) -> None:
    began = brokers.loop.now()
    slow, quick = brokers.ask(300.0), brokers.ask(2.0)
    brokers.loop.until(lambda: quick)

    assert brokers.loop.now() - began == pytest.approx(2.0)
    for each in (slow, quick):
        assert_lost(each, "no answer within 2 s")
    assert brokers.peer().gone


def test_a_request_that_was_answered_is_not_late(brokers: VirtualBrokers) -> None:
    told = brokers.ask(2.0)
    peer = brokers.peer()
    peer.end.send(answer(*peer.requests()))
    brokers.loop.after(10)

    assert told == [0]
    assert not peer.gone


def test_what_waits_for_a_broker_that_hangs_up_fails(brokers: VirtualBrokers) -> None:
    told = [brokers.ask() for _ in range(2)]
    brokers.peer().end.close()
    brokers.loop.settle()

    for each in told:
        assert_lost(each, "")


def test_what_is_hung_up_on_fails_and_the_next_is_asked_on_another_connection(brokers: VirtualBrokers) -> None:
    told = brokers.ask()
    brokers.loop.result(brokers.connection.hang_up(0))
    again = brokers.ask()

    assert_lost(told, "the connection was closed")
    assert brokers.peers[brokers.tries[0][1]][0].gone
    assert not again
    assert len(brokers.tries) == 2


def test_a_broker_that_is_to_be_left_alone_is_asked_when_that_is_over(brokers: VirtualBrokers) -> None:
    told = brokers.ask()
    peer = brokers.peer()
    [number] = peer.requests()
    peer.end.send(answer(number, throttled_ms=4000))
    brokers.loop.settle()
    assert told == [0]

    late, waiting = brokers.ask(3.0), brokers.ask(10.0)
    brokers.loop.after(3.5)
    assert peer.requests() == []
    assert_lost(late, "no answer within 3 s, nor could it be asked", NotSentError)
    assert not waiting

    brokers.loop.after(0.6)
    [number] = peer.requests()
    peer.end.send(answer(number, 8))
    brokers.loop.settle()
    assert waiting == [8]
    assert not peer.gone


def test_a_request_that_the_broker_does_not_know_fails_alone(brokers: VirtualBrokers) -> None:
    brokers.versions = {12: (5, 9)}
    unknown = brokers.ask()

    assert_lost(unknown, "it does not support HeartbeatRequest in version 0 to 4, but in 5 to 9")
    assert not brokers.peer().gone
    assert brokers.peer().requests() == []
