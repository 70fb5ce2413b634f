"""How often and for how long brokers are tried, as the user has said it: in virtual time, over real sockets."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterator

import pytest

from handshaking_broker import HandshakingBroker
from streamsapp.brokers.errors import NotSentError, UnreachableError
from streamsapp.brokers.opening import open_connection
from streamsapp.brokers.reaching import Reaching, reaching
from streamsapp.brokers.security import Security
from streamsapp.errors import ConfigError
from virtual_brokers import VirtualBrokers, answer

Start = Callable[..., VirtualBrokers]


@pytest.fixture
def start() -> Iterator[Start]:
    made: list[VirtualBrokers] = []

    def started(**properties: str) -> VirtualBrokers:
        made.append(VirtualBrokers(**properties))
        return made[-1]

    yield started
    for each in made:
        each.close()


def test_the_pauses_between_tries_are_those_that_are_set(start: Start) -> None:
    brokers = start(reconnect_backoff_ms="1000", reconnect_backoff_max_ms="4000")
    brokers.fates.extend([NotSentError("no connection")] * 5)
    while brokers.fates:
        brokers.ask()
        brokers.loop.after(0.1)

    begun = [each for each, _, _ in brokers.tries]
    pauses = [after - before for before, after in itertools.pairwise(begun)]
    for pause, wanted in zip(pauses, (1.0, 2.0, 4.0, 4.0), strict=True):
        assert 0.8 * wanted <= pause <= 1.2 * wanted + 0.2


def test_a_try_takes_no_longer_than_is_set(start: Start) -> None:
    brokers = start(socket_connection_setup_timeout_ms="1500")
    brokers.fates.append(NotSentError("no connection"))
    brokers.ask()
    brokers.loop.after(1.0)
    brokers.ask()

    assert [timeout for _, _, timeout in brokers.tries] == [1.5, 1.5]


def test_an_answer_is_waited_for_no_longer_than_is_set(start: Start) -> None:
    brokers = start(socket_timeout_ms="2000")
    told = brokers.ask(60.0)
    brokers.loop.after(1.9)
    assert told == []
    brokers.loop.after(0.2)

    [error] = told
    assert type(error) is UnreachableError
    assert str(error) == "broker 0: no answer within 2 s"


def test_the_time_for_which_a_broker_is_to_wait_is_not_part_of_that(start: Start) -> None:
    brokers = start(socket_timeout_ms="2000")
    told = brokers.ask(60.0, held=30.0)
    brokers.loop.after(31.9)
    assert told == []
    brokers.loop.after(0.2)
    assert len(told) == 1


def test_a_connection_that_was_idle_for_as_long_as_is_set_is_not_used_any_more(start: Start) -> None:
    brokers = start(connections_max_idle_ms="3000")
    for pause in (2.9, 3.1, 0.0):
        told = brokers.ask()
        [number] = brokers.peer().requests()
        brokers.peer().end.send(answer(number))
        brokers.loop.settle()
        assert told == [0]
        brokers.loop.after(pause)

    assert len(brokers.tries) == 2


def test_sockets_have_buffers_of_the_sizes_that_are_set() -> None:
    options = reaching({"socket.send.buffer.bytes": "30000", "socket.receive.buffer.bytes": 40_000}).socket_options()
    with HandshakingBroker() as broker:
        made = open_connection(broker.address, Security("PLAINTEXT"), "me", 10.0, options=options).transport
        again = socket.socket(fileno=socket.dup(made.fileno()))
        with again:
            sizes = [again.getsockopt(socket.SOL_SOCKET, each) for each in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
        made.close()

    assert sizes[0] in (30_000, 60_000)  # Linux doubles it
    assert sizes[1] in (40_000, 80_000)


def test_a_first_pause_that_is_set_alone_may_be_longer_than_the_longest_by_default() -> None:
    made = reaching({"reconnect.backoff.ms": "3000"})
    assert (made.pause(1), made.pause(9)) == (3.0, 3.0)
    assert reaching({"connections.max.idle.ms": 0}).idle == float("inf")
    assert reaching({}) == Reaching()


def test_what_is_no_number_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"^socket\.timeout\.ms: expected a number, got 'long'"):
        reaching({"socket.timeout.ms": "long"})
