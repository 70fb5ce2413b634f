"""The operator has a pod take out the members whose containers have ended; pods are played by the test."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from streamsapp.clock import SystemClock
from streamsapp_operator.apply import EndedContainers
from streamsapp_operator.model.observed_state import ChildrenSeen, ObservedState
from streamsapp_operator.observe.observer import AppObservation
from streamsapp_operator.observe.pod_status import PodAsker
from streamsapp_operator.steady_clock import SteadyClock
from talking_pod import answer, pod

NOTHING = ObservedState(at=0.0, children=ChildrenSeen(), pods=())


class Pods:
    """Pods that answer with a code each, and what they were asked."""

    def __init__(self, *codes: str) -> None:
        self._open = ExitStack()
        self.asked: list[list[bytes]] = [[] for _ in codes]
        self.addresses = tuple(self._open.enter_context(pod(self._talk(*each))) for each in enumerate(codes))

    def _talk(self, number: int, code: str) -> Callable[[socket.socket, bytes], None]:
        def talk(connection: socket.socket, request: bytes) -> None:
            self.asked[number].append(request)
            connection.sendall(answer(code, b"{}"))

        return talk

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def ended() -> Iterator[EndedContainers]:
    asker = PodAsker(SteadyClock(SystemClock()), timeout=60.0)
    yield EndedContainers(asker)
    asker.close()


def seen(pods: Pods, *members: str) -> AppObservation:
    return AppObservation(NOTHING, {}, members, pods.addresses)


def test_one_pod_takes_the_members_out_and_is_asked_once(ended: EndedContainers) -> None:
    pods = Pods("503 Away", "200 OK", "200 OK")
    for _ in range(3):
        ended.take_out(seen(pods, "a b", "c&d"), ["token"])
    pods.close()

    assert [len(each) for each in pods.asked] == [1, 1, 0]
    request = pods.asked[1][0].decode()
    assert request.startswith("POST /ended?member=a+b&member=c%26d HTTP/1.1\r\n")
    assert "Authorization: Bearer token" in request


def test_a_member_that_no_pod_takes_out_is_tried_again(ended: EndedContainers) -> None:
    pods = Pods("503 Away")
    for _ in range(2):
        ended.take_out(seen(pods, "a"), ["token"])
    pods.close()

    assert len(pods.asked[0]) == 2


def test_without_ends_or_without_ready_pods_none_is_asked(ended: EndedContainers) -> None:
    pods = Pods("200 OK")
    ended.take_out(seen(pods), ["token"])
    ended.take_out(AppObservation(NOTHING, {}, ("a",), ()), ["token"])
    pods.close()

    assert pods.asked == [[]]


def test_another_end_of_the_same_pod_is_new(ended: EndedContainers) -> None:
    pods = Pods("200 OK")
    ended.take_out(seen(pods, "a"), ["token"])
    ended.take_out(seen(pods, "b", "a"), ["token"])
    pods.close()

    assert [request.split(b" ")[1] for request in pods.asked[0]] == [b"/ended?member=a", b"/ended?member=b"]
