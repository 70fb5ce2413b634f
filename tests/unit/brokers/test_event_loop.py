"""The event loop of connections: tasks wait for time and for each other, and one that fails stops no other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from kafka.future import Future

from streamsapp.brokers.connection import Connection, Turns
from streamsapp.brokers.sockets import WatchingLoop
from streamsapp.clock import SystemClock
from streamsapp.deadline import Deadline

SOON = 30.0


@pytest.fixture
def loop() -> Iterator[WatchingLoop]:
    made = WatchingLoop()
    yield made
    made.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection({"bootstrap_servers": ["127.0.0.1:1"], "client_id": "turns"})
    made.start()
    yield made
    made.close(SOON)


def test_a_task_that_fails_is_told_and_the_others_go_on(loop: WatchingLoop, caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    async def fail() -> None:
        raise ValueError("no good")

    async def work() -> None:
        for number in range(3):
            await loop.sleep(0)
            done.append(number)

    loop.call_soon(fail)
    loop.call_soon(work)
    with caplog.at_level(logging.ERROR):
        while len(done) < 3:
            loop._poll_once()

    assert "no good" in caplog.text


def test_a_task_that_waits_gets_the_result_or_the_error(loop: WatchingLoop) -> None:
    results, told = [Future() for _ in range(2)], list[object]()

    async def wait(result: Future) -> None:
        try:
            told.append(await result)
        except ValueError as error:
            told.append(str(error))

    for result in results:
        loop.call_soon(partial(wait, result))
    loop.call_soon(lambda: results[0].success(7))
    loop.call_soon(lambda: results[1].failure(ValueError("no")))
    while len(told) < 2:
        loop._poll_once(0)

    assert told == [7, "no"]


def test_a_task_that_is_cancelled_is_not_run_again(loop: WatchingLoop) -> None:
    steps: list[str] = []

    async def work() -> None:
        try:
            await loop.sleep(3600)
            steps.append("went on")
        finally:
            steps.append("ended")

    task = loop.call_soon(work)
    loop._poll_once(0)
    loop.cancel(task)
    loop._poll_once(0)

    assert steps == ["ended"]


def test_a_wait_that_the_loop_refuses_is_raised_where_it_was_awaited(loop: WatchingLoop) -> None:
    told: list[str] = []

    async def work() -> None:
        try:
            await loop.wait_read(-1)
        except ValueError as error:
            told.append(type(error).__name__)

    loop.call_soon(work)
    for _ in range(3):
        loop._poll_once(0)

    assert told == ["ValueError"]


def test_coroutines_take_turns_in_the_order_in_which_they_came(connection: Connection) -> None:
    turns, order, ended = Turns(connection), list[str](), threading.Semaphore(0)

    async def work(name: str) -> None:
        async with turns:
            order.append(f"{name} begins")
            await connection.sleep(0.01)
            order.append(f"{name} ends")
        ended.release()

    for name in "abc":
        connection.spawn(partial(work, name))
    for _ in "abc":
        assert ended.acquire(timeout=SOON)

    assert order == [f"{name} {what}" for name in "abc" for what in ("begins", "ends")]
    assert connection.run(turns.__aenter__, SOON, Deadline(SystemClock())) is None
