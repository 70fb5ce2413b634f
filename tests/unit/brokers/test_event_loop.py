"""The event loop of connections: coroutines wait for time, for each other and for threads, and none stops another."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from streamsapp.brokers.connection import Connection, Turns
from streamsapp.brokers.event_loop import Awaited, EventLoop, WakeUp
from streamsapp.brokers.settings import connection_settings
from streamsapp.clock import SystemClock
from streamsapp.deadline import Deadline
from virtual_time import VirtualLoop

SOON = 30.0


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    made = VirtualLoop()
    yield made
    made.end()
    made.close()


@pytest.fixture
def connection() -> Iterator[Connection]:
    made = Connection(connection_settings({"bootstrap.servers": "127.0.0.1:1"}, "turns"))
    made.start()
    yield made
    made.close(SOON)


def test_coroutines_run_when_their_time_has_come(loop: VirtualLoop) -> None:
    order = list[tuple[float, str]]()
    began = loop.now()

    async def work(name: str, seconds: float) -> None:
        for _ in range(2):
            await loop.sleep(seconds)
            order.append((round(loop.now() - began, 6), name))

    works = [loop.begin(work(name, seconds)) for name, seconds in (("slow", 3600.0), ("fast", 0.25), ("at once", 0.0))]
    loop.until(lambda: all(works))

    assert order == [
        (0.0, "at once"),
        (0.0, "at once"),
        (0.25, "fast"),
        (0.5, "fast"),
        (3600.0, "slow"),
        (7200.0, "slow"),
    ]


@pytest.mark.parametrize("how", ["a coroutine", "a call", "a timer"])
def test_a_task_that_fails_is_told_and_the_others_go_on(
    loop: VirtualLoop, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    def fail() -> None:
        raise ValueError("no good")

    async def work() -> int:
        for _ in range(3):
            await loop.sleep(1)
        return 3

    async def failing() -> None:
        await loop.sleep(1)
        fail()

    if how == "a coroutine":
        loop.start(failing())
    elif how == "a call":
        loop.post(fail)
    else:
        loop.call_at(loop.now() + 1, fail)

    with caplog.at_level(logging.ERROR):
        assert loop.result(work()) == 3
    assert "no good" in caplog.text


def test_a_task_that_waits_gets_the_first_result_or_error(loop: VirtualLoop) -> None:
    results = [Awaited[int](loop) for _ in range(4)]

    async def wait(result: Awaited[int]) -> int:
        return await result

    told = [loop.begin(wait(result)) for result in results[:2]]
    loop.settle()
    for result in results:
        result.set(7) if result in results[::2] else result.fail(ValueError("no"))
        result.fail(KeyError())
        result.set(8)
    told += [loop.begin(wait(result)) for result in results[2:]]
    loop.settle()

    assert [str(each) for [each] in told] == ["7", "no"] * 2


def test_timers_that_are_cancelled_are_neither_called_nor_kept(loop: VirtualLoop) -> None:
    called = list[int]()
    for number in range(10_000):
        timer = loop.call_at(loop.now() + 3600 + number, partial(called.append, number))
        if number % 1000:
            loop.cancel(timer)
            loop.cancel(timer)
    assert len(loop._timers) < 250

    loop.after(20_000)

    assert called == [*range(0, 10_000, 1000)]


def test_a_notification_is_kept_until_somebody_waits_for_it_and_no_longer(loop: VirtualLoop) -> None:
    wake_up = WakeUp(loop)
    began = loop.now()

    async def work() -> list[float]:
        times = []
        for timeout in (5.0, 5.0, 5.0):
            await wake_up.wait(timeout)
            times.append(loop.now() - began)
        return times

    wake_up.notify()
    wake_up.notify()
    loop.call_at(began + 2, wake_up.notify_here)

    assert loop.result(work()) == [0.0, 2.0, 7.0]
    assert not any(timer.call for _, _, timer in loop._timers)


def test_coroutines_that_have_not_ended_are_closed_with_the_loop() -> None:
    loop, steps = VirtualLoop(), list[str]()

    async def work() -> None:
        try:
            await loop.sleep(3600)
            steps.append("went on")
        finally:
            steps.append("ended")

    async def stubborn() -> None:
        try:
            await loop.sleep(3600)
        finally:
            await loop.sleep(3600)

    for coroutine in (stubborn(), work(), stubborn()):
        loop.start(coroutine)
    loop.turn()
    loop.end()
    loop.close()

    assert steps == ["ended"]
    assert not loop.post(lambda: steps.append("came too late"))
    assert steps == ["ended"]


def test_calls_of_many_threads_are_all_made_in_their_order() -> None:
    loop, made, count = EventLoop(), list[tuple[int, int]](), 5000
    wake_up, woken = WakeUp(loop), threading.Event()

    def leave(number: int) -> None:
        for each in range(count):
            loop.post(partial(made.append, (number, each)))
            wake_up.notify()

    async def watch() -> None:
        while len(made) < 4 * count:
            await wake_up.wait(SOON)
        woken.set()

    loop.start(watch())
    running = threading.Thread(target=loop.run)
    running.start()
    leaving = [threading.Thread(target=leave, args=(number,)) for number in range(4)]
    for thread in leaving:
        thread.start()
    assert woken.wait(SOON)
    loop.post(loop.stop)
    for thread in (*leaving, running):
        thread.join(SOON)
    loop.end()
    loop.close()

    for number in range(4):
        assert [each for of, each in made if of == number] == [*range(count)]


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
