"""A cluster that has moved is found again behind the names that the user gave (KIP-899), in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from streamsapp.brokers.errors import NotSentError, UnreachableError
from streamsapp.brokers.link import Address
from streamsapp.brokers.opening import OpenConnection
from virtual_brokers import BOOTSTRAP, VirtualBrokers, answer, cluster, heartbeat

OLD: list[Address] = [("old-0", 9092), ("old-1", 9092), ("old-2", 9092)]
NEW: list[Address] = [("new-0", 9092), ("new-1", 9092), ("new-2", 9092)]


class MovedBrokers(VirtualBrokers):
    """Nothing is at the old addresses: connections to them are refused, or hear nothing."""

    silent = False

    def _open(self, address: Address, timeout: float) -> OpenConnection:
        if address in OLD:
            self.tries.append((self.loop.now(), address, timeout))
            raise NotSentError(f"{address[0]} refuses")
        return super()._open(address, timeout)

    def _background(self, call: Callable[[], None]) -> None:
        address, timeout = call.args  # type: ignore[attr-defined]  # a partial call
        if self.silent and address in OLD:
            self.loop.call_at(self.loop.now() + timeout, call)
        else:
            call()

    def ask_any(self, *, apart: bool = False) -> list[Any]:
        """Ask; returns a list that will have the outcome."""
        told = self.loop.begin(self.connection.ask_any(heartbeat, 2.0, apart=apart))
        self.loop.settle()
        return told


@pytest.fixture
def brokers() -> Iterator[MovedBrokers]:
    with closing(MovedBrokers()) as made:
        made.connection.learn(cluster(*OLD))
        yield made


def answered(brokers: MovedBrokers, told: list[Any], at: Address) -> None:
    """The broker there answers what it is asked, which is the outcome."""
    brokers.loop.until(lambda: brokers.peers[at])
    numbers = list[int]()

    def is_asked() -> bool:
        numbers.extend(brokers.peer(at).requests())
        return bool(numbers)

    brokers.loop.until(is_asked)
    brokers.peer(at).end.sendall(answer(numbers[0], 7))
    brokers.loop.until(lambda: told)
    assert not isinstance(told[0], Exception), told
    assert told[0].error_code == 7


@pytest.mark.parametrize("silent", [False, True], ids=["refused", "silent"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_cluster_that_has_moved_is_found_by_its_first_name(
    brokers: MovedBrokers, *, silent: bool, apart: bool
) -> None:
    brokers.silent = silent
    answered(brokers, brokers.ask_any(apart=apart), BOOTSTRAP)

    began = brokers.loop.now()
    answered(brokers, brokers.ask_any(apart=apart), BOOTSTRAP)
    assert brokers.loop.now() == began  # a broker that was out of reach is not asked first again

    brokers.connection.learn(cluster(*NEW))
    told = brokers.ask_any()
    brokers.loop.until(lambda: any(brokers.peers[at] for at in NEW))
    [found] = [at for at in NEW if brokers.peers[at]]
    answered(brokers, told, found)


def test_a_cluster_that_is_away_as_a_whole_is_an_error_and_found_when_it_is_back(brokers: MovedBrokers) -> None:
    brokers.fates.append(NotSentError("it is away"))
    told = brokers.ask_any()
    brokers.loop.until(lambda: told)
    assert isinstance(told[0], UnreachableError)

    brokers.loop.after(1.0)
    answered(brokers, brokers.ask_any(), BOOTSTRAP)
