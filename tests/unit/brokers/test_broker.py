"""Connections to a broker begin, end and follow each other, in virtual time."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamsapp.brokers.errors import NotSentError, PausedError, RefusedError, RefusedTlsError, UnreachableError
from streamsapp.brokers.messages.find_coordinator import Coordinator
from virtual_brokers import BOOTSTRAP, VirtualBrokers, answer, cluster

ELSEWHERE = ("second", 9092)


@pytest.fixture
def brokers() -> Iterator[VirtualBrokers]:
    made = VirtualBrokers()
    yield made
    made.close()


def replied(brokers: VirtualBrokers, told: list[object], at: tuple[str, int] = BOOTSTRAP) -> None:
    """The broker answers all that it was asked."""
    for number in brokers.peer(at).requests():
        brokers.peer(at).end.send(answer(number))
    brokers.loop.settle()
    assert told == [0]


def test_a_broker_that_is_away_is_tried_again_after_pauses_that_grow(brokers: VirtualBrokers) -> None:
    brokers.fates.extend([NotSentError("no connection to first:9092: refused")] * 7)
    brokers.fates.append(MemoryError("no room"))
    said = list[str]()
    while brokers.fates:
        [error] = brokers.ask()
        if isinstance(error, PausedError):
            brokers.loop.after(0.001)
        else:
            assert type(error) is NotSentError
            said.append(str(error))
    assert said == ["no connection to first:9092: refused"] * 7 + ["broker 0: MemoryError('no room')"]
    times = [when for when, _, _ in brokers.tries]
    pauses = [later - sooner for sooner, later in itertools.pairwise(times)]

    for pause, usual in zip(pauses, (0.05, 0.1, 0.2, 0.4, 0.5, 0.5, 0.5), strict=True):
        assert 0.8 * usual <= pause <= 1.2 * usual + 0.002
    assert [allowed for _, _, allowed in brokers.tries] == [5.0, *[10.0] * 7]

    brokers.loop.after(1.0)
    replied(brokers, brokers.ask())
    brokers.peer().end.close()
    brokers.loop.settle()
    replied(brokers, brokers.ask())  # without a pause: it was there


@pytest.mark.parametrize("kind", [RefusedError, RefusedTlsError])
def test_who_is_refused_is_told_so_also_in_the_pause(brokers: VirtualBrokers, kind: type[RefusedError]) -> None:
    brokers.fates.append(kind("it refuses the credentials: no; check them"))

    for _ in range(3):
        [error] = brokers.ask()
        assert type(error) is kind
        assert str(error) == "it refuses the credentials: no; check them"
    assert len(brokers.tries) == 1


def test_all_that_wait_for_a_connection_share_it(brokers: VirtualBrokers) -> None:
    brokers.held = []
    told = [brokers.ask() for _ in range(3)]
    [opens] = brokers.held
    opens()
    brokers.loop.settle()

    numbers = brokers.peer().requests()
    assert len(numbers) == 3
    brokers.peer().end.send(b"".join(map(answer, numbers)))
    brokers.loop.settle()
    assert told == [[0]] * 3


def test_who_waits_too_long_for_a_connection_has_sent_nothing(brokers: VirtualBrokers) -> None:
    brokers.held = []
    told = brokers.ask(2.0)
    brokers.loop.after(2.1)
    [error] = told
    assert type(error) is NotSentError

    [opens] = brokers.held
    opens()
    brokers.loop.settle()
    assert brokers.peer().requests() == []
    replied(brokers, brokers.ask())


def test_what_is_hung_up_on_while_it_waits_for_a_connection_fails(brokers: VirtualBrokers) -> None:
    brokers.held = []
    told = brokers.ask()
    brokers.loop.result(brokers.connection.hang_up(0))
    brokers.loop.settle()

    [error] = told
    assert type(error) is NotSentError


def test_a_connection_that_opens_after_the_end_is_closed() -> None:
    brokers = VirtualBrokers()
    brokers.held = []
    told = brokers.ask()
    brokers.close()
    [opens] = brokers.held
    opens()

    assert brokers.peer().gone
    assert told == [], "whoever waits ends with the thread, and says nothing"
    brokers.peer().end.close()


def test_a_broker_that_moves_is_asked_at_its_new_address_and_answers_what_it_was_asked_before(
    brokers: VirtualBrokers,
) -> None:
    before = brokers.ask()
    old = brokers.peer()
    brokers.connection.learn(cluster(ELSEWHERE))
    after = brokers.ask()
    replied(brokers, after, ELSEWHERE)
    assert not before
    assert not old.gone

    replied(brokers, before)
    assert old.gone


def test_a_broker_that_moves_while_it_is_connected_to_is_asked_at_its_new_address(brokers: VirtualBrokers) -> None:
    for fate in (None, OSError("nobody is there")):
        brokers.held = []
        told = brokers.ask()
        brokers.connection.learn(cluster(ELSEWHERE))
        brokers.fates.append(fate)
        [opens] = brokers.held
        brokers.held = None
        opens()
        brokers.loop.settle()

        replied(brokers, told, ELSEWHERE)
        brokers.connection.learn(cluster(BOOTSTRAP))
        brokers.loop.settle()


def test_a_broker_that_has_left_the_cluster_is_not_asked(brokers: VirtualBrokers) -> None:
    brokers.connection.learn(cluster(BOOTSTRAP, ELSEWHERE))
    told = brokers.ask(node=1)
    brokers.connection.learn(cluster(BOOTSTRAP))
    brokers.loop.settle()

    [error] = told
    assert isinstance(error, UnreachableError)
    assert brokers.peer(ELSEWHERE).gone
    [error] = brokers.ask(node=1)
    assert type(error) is NotSentError
    brokers.connection.learn(cluster())  # of a broker that knows of none
    assert brokers.connection.brokers() == [0]


def test_a_coordinator_has_two_connections(brokers: VirtualBrokers) -> None:
    named = Coordinator(node_id=7, host=ELSEWHERE[0], port=ELSEWHERE[1])
    waits, quick = brokers.connection.two_ways_to(named, 0, "g")
    joining = brokers.ask(300.0, waits)
    beating = brokers.ask(2.0, quick)

    assert len(brokers.peers[ELSEWHERE]) == 2
    replied(brokers, beating, ELSEWHERE)
    assert not joining


def test_a_connection_that_was_idle_for_long_is_not_used_any_more(brokers: VirtualBrokers) -> None:
    replied(brokers, brokers.ask())
    first = brokers.peer()
    brokers.loop.after(530)
    replied(brokers, brokers.ask())
    assert brokers.peer() is first

    brokers.loop.after(550)
    replied(brokers, brokers.ask())
    assert brokers.peer() is not first
    assert first.gone


def test_a_session_is_renewed_between_requests_before_it_ends(brokers: VirtualBrokers) -> None:
    brokers.fates.extend([100.0, 100.0])
    waiting = brokers.ask(300.0)
    old = brokers.peer()
    brokers.loop.after(84)
    assert len(brokers.tries) == 1
    brokers.loop.after(2)
    assert len(brokers.tries) == 2

    replied(brokers, brokers.ask())
    assert not waiting, "it waits where it was asked"
    assert not old.gone
    old.end.send(answer(*old.requests()))
    brokers.loop.settle()
    assert waiting == [0]
    assert old.gone


def test_a_session_that_cannot_be_renewed_is_used_to_its_end_and_no_longer(brokers: VirtualBrokers) -> None:
    brokers.fates.extend([100.0, *[OSError("away")] * 1000])
    replied(brokers, brokers.ask())
    brokers.loop.after(99)
    assert len(brokers.tries) > 10
    replied(brokers, brokers.ask())

    brokers.loop.after(1.1)
    [error] = brokers.ask()
    assert isinstance(error, NotSentError)
    assert brokers.peer().gone

    brokers.fates.clear()
    brokers.loop.after(1)
    replied(brokers, brokers.ask())


def test_sessions_that_end_at_once_are_not_renewed_without_pause(brokers: VirtualBrokers) -> None:
    brokers.fates.extend([0.001] * 100)
    replied(brokers, brokers.ask())
    brokers.loop.after(10)

    assert len(brokers.tries) <= 11


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def test_a_thousand_connections_that_were_lost_leave_no_descriptor() -> None:
    gc.collect()
    before = descriptors()
    brokers = VirtualBrokers()
    for number in range(1000):
        told = brokers.ask(node=0)
        peer = brokers.peer()
        if number % 3 == 0:
            peer.end.close()
        elif number % 3 == 1:
            peer.end.send(b"HTTP")
        else:
            brokers.loop.result(brokers.connection.hang_up(0))
        brokers.loop.settle()
        [error] = told
        assert isinstance(error, UnreachableError)
        peer.end.close()
        brokers.peers.clear()
    assert len(brokers.tries) == 1000
    brokers.close()

    assert descriptors() <= before  # a test before this one may have left some that are closed by now
