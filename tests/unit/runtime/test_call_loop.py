"""The event loop of an instance: bounded calls, time-outs, retries, and connections that live as long as the tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import Any

import pytest

from streamsapp.processor import async_calls
from streamsapp.processor.async_calls import Answer, AsyncFunction, Caller
from streamsapp.runtime.call_loop import CallLoopThread
from streamsapp.runtime.thread_failure import ThreadFailure

WAIT = 60.0


class Loop:
    """A loop, and what its callers have answered."""

    def __init__(self) -> None:
        self.failures: SimpleQueue[ThreadFailure] = SimpleQueue()
        self.thread = CallLoopThread("calls", self.failures)
        self.woken = threading.Event()

    def caller(self, call: Callable[..., Awaitable[Any]], **options: Any) -> Caller:
        settings = {"with_key": False, "using": None, "concurrency": 10, "timeout": WAIT, "retries": 0, **options}
        return self.thread.calls.caller(AsyncFunction(call, **settings), self.woken.set)

    def answers(self, caller: Caller, count: int) -> list[Answer]:
        """Waits for so many answers."""
        found: list[Answer] = []
        while len(found) < count:
            assert self.woken.wait(WAIT)
            self.woken.clear()
            if caller.answered:
                found += caller.take()
        return found


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    if loop.thread.is_alive():
        loop.thread.stop()
        loop.thread.join(WAIT)
        assert not loop.thread.is_alive()
    assert loop.failures.empty()


def test_the_thread_starts_with_the_first_call(loop: Loop) -> None:
    async def double(value: int) -> int:
        return 2 * value

    caller = loop.caller(double)
    assert not loop.thread.is_alive()
    for number in range(100):
        caller.start(number, None, number)
    assert sorted(loop.answers(caller, 100)) == [(number, 2 * number, None) for number in range(100)]


def test_an_answer_that_comes_while_others_are_taken_wakes_for_the_next_one(loop: Loop) -> None:
    async def same(value: int) -> int:
        return value

    caller = loop.caller(same)
    caller.start(0, None, 0)
    assert loop.woken.wait(WAIT)
    loop.woken.clear()
    assert caller.answered
    taking = caller.take()
    assert next(taking).number == 0
    caller.start(1, None, 1)
    assert loop.woken.wait(WAIT)
    loop.woken.clear()
    assert [answer.number for answer in taking] == [1]
    assert not caller.answered
    caller.start(2, None, 2)
    assert loop.woken.wait(WAIT)


def test_no_more_calls_are_made_at_the_same_time_than_may(loop: Loop) -> None:
    at_once: list[int] = [0, 0]
    order: list[int] = []

    async def call(value: int) -> None:
        order.append(value)
        at_once[0] += 1
        at_once[1] = max(at_once)
        await asyncio.sleep(0.001)
        at_once[0] -= 1

    caller = loop.caller(call, concurrency=3)
    for number in range(30):
        caller.start(number, None, number)
    loop.answers(caller, 30)
    assert at_once == [0, 3]
    assert order == list(range(30)), "calls begin in the order in which they were given"


def test_a_call_that_takes_too_long_is_made_again_and_then_fails(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_calls, "RETRY_FIRST", 0.001)
    calls: list[int] = []

    async def never(value: int) -> None:
        calls.append(value)
        await asyncio.Event().wait()

    caller = loop.caller(never, timeout=0.01, retries=2)
    caller.start(7, None, 1)
    ((number, _, error),) = loop.answers(caller, 1)
    assert (number, str(error), calls, caller.retried) == (7, "no answer within 0.01 s", [1, 1, 1], 2)


def test_a_timeout_of_the_service_keeps_its_own_words(loop: Loop) -> None:
    async def refused(value: int) -> None:
        raise TimeoutError("the proxy gave up")

    caller = loop.caller(refused)
    caller.start(0, None, 1)
    assert [str(answer.error) for answer in loop.answers(caller, 1)] == ["the proxy gave up"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError()])
def test_a_function_that_would_end_the_loop_fails_alone(loop: Loop, error: BaseException) -> None:
    async def ends(value: int) -> int:
        if value:
            raise error
        return value

    caller = loop.caller(ends)
    for number in (1, 0):
        caller.start(number, None, number)
    answers = {number: each for number, _, each in loop.answers(caller, 2)}
    assert answers[0] is None
    assert str(answers[1]) == f"the call ended with {type(error).__name__}"


class Connections:
    """Counts what is opened and closed."""

    def __init__(self, fail_first: bool = False) -> None:
        self.opened = self.closed = 0
        self.tasks: set[Any] = set()
        self._fail = fail_first
        self.is_closed = threading.Event()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[str]:
        self.tasks.add(asyncio.current_task())
        if self._fail:
            self._fail = False
            raise ConnectionError("not yet")
        self.opened += 1
        try:
            yield "connection"
        finally:
            self.tasks.add(asyncio.current_task())
            self.closed += 1
            self.is_closed.set()


async def with_connection(connection: str, value: int) -> tuple[str, int]:
    return connection, value


def test_callers_of_one_function_share_a_connection_that_is_closed_with_the_last(loop: Loop) -> None:
    connections = Connections()
    function = AsyncFunction(with_connection, False, connections, 10, WAIT, 0)
    woken = threading.Event()
    first, second = (loop.thread.calls.caller(function, woken.set) for _ in range(2))
    for number, caller in enumerate((first, second)):
        caller.start(number, None, number)
        while not caller.answered:
            woken.wait(0.01)
        assert list(caller.take()) == [(number, ("connection", number), None)]
    assert (connections.opened, connections.closed) == (1, 0)
    first.close()
    second.start(3, None, 3)
    while not second.answered:
        woken.wait(0.01)
    assert connections.closed == 0
    second.close()
    assert connections.is_closed.wait(WAIT)
    assert (connections.opened, connections.closed, len(connections.tasks)) == (1, 1, 1)

    again = loop.thread.calls.caller(function, woken.set)
    again.start(0, None, 0)
    while not again.answered:
        woken.wait(0.01)
    assert connections.opened == 2, "a task that starts again opens it anew"


def test_a_connection_that_cannot_be_opened_is_a_failed_call_and_tried_again(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_calls, "RETRY_FIRST", 0.001)
    refusing = loop.caller(with_connection, using=Connections(fail_first=True))
    refusing.start(0, None, 5)
    assert [str(answer.error) for answer in loop.answers(refusing, 1)] == ["not yet"]
    trying = loop.caller(with_connection, using=Connections(fail_first=True), retries=1)
    trying.start(0, None, 5)
    assert loop.answers(trying, 1) == [(0, ("connection", 5), None)]


def test_closing_cancels_calls_and_leaves_their_answers_away(loop: Loop) -> None:
    began, ended = threading.Event(), threading.Event()

    async def hang(value: int) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    caller = loop.caller(hang)
    caller.start(0, None, 0)
    caller.start(1, None, 1)
    assert began.wait(WAIT)
    caller.close()
    assert ended.wait(WAIT)
    assert not caller.answered


def test_stopping_ends_calls_and_closes_connections(loop: Loop) -> None:
    connections, began = Connections(), threading.Event()

    async def hang(connection: str, value: int) -> None:
        began.set()
        await asyncio.Event().wait()

    caller = loop.caller(hang, using=connections)
    caller.start(0, None, 0)
    assert began.wait(WAIT)
    loop.thread.stop()
    loop.thread.join(WAIT)
    assert not loop.thread.is_alive()
    assert connections.closed == 1
    caller.close()
    caller.start(1, None, 1)  # does nothing, and raises nothing
