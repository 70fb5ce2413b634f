"""Calls of a user's coroutine functions that answer records: bounded in number, with a time-out, and tried again.

An operator starts calls and takes their answers, on the processing thread that holds its task. Everything else runs on
an event loop: the one of the instance, which has a thread of its own, or that of a test driver.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from streamsapp.errors import TopologyError

log = logging.getLogger(__name__)

#: First and longest pause before a call is made again, in seconds.
RETRY_FIRST, RETRY_LONGEST = 0.1, 10.0

#: The fault of a topology that has calls, where none are made.
NOT_HERE = (
    "map_async makes its calls in instances and in test drivers, and not on Spark, nor over history; have an "
    "application of its own call the service, between two topics"
)

#: Has a function called on the event loop, from any thread.
Post: TypeAlias = Callable[[Callable[[], object]], None]


@dataclass(frozen=True, eq=False)
class AsyncFunction:
    """A coroutine function of one node, and how it is called. Two of them are never equal."""

    call: Callable[..., Awaitable[Any]]
    #: Says whether it is given the key before the value.
    with_key: bool
    #: Makes the async context manager whose value it is given first.
    using: Callable[[], AbstractAsyncContextManager[Any]] | None
    #: Calls that are made at the same time, at most.
    concurrency: int
    #: Of one call, in seconds.
    timeout: float
    #: How often a call that failed is made again.
    retries: int


class Answer(NamedTuple):
    """The answer of the call that was started under a number: its result, or its error."""

    number: int
    result: Any = None
    error: Exception | None = None


class Opened:
    """The value of ``using``, for all calls of one function: entered for the first call, left with the last caller.

    On the loop. One asyncio task does both: libraries that count on it, such as anyio, raise otherwise.
    """

    def __init__(self, using: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._using = using
        self._callers = 0
        self._keeper: asyncio.Task[None] | None = None
        self._value: asyncio.Future[Any]
        self._last = asyncio.Event()

    def join(self) -> None:
        """One caller more."""
        self._callers += 1

    def leave(self) -> None:
        """One caller less."""
        self._callers -= 1
        if self._callers <= 0:
            self._last.set()

    async def get(self) -> Any:
        """Returns the value, and raises what entering raised; then the next call tries it again."""
        if self._keeper is not None and self._last.is_set():
            await asyncio.wait([self._keeper])  # it is being left
        if self._keeper is None or self._keeper.done():
            loop = asyncio.get_running_loop()
            self._value, self._last = loop.create_future(), asyncio.Event()
            self._keeper = loop.create_task(self._keep(self._value, self._last))
        return await asyncio.shield(self._value)

    async def closed(self) -> None:
        """Returns when it was left."""
        self._last.set()
        if self._keeper is not None:
            await asyncio.wait([self._keeper])

    async def _keep(self, value: asyncio.Future[Any], last: asyncio.Event) -> None:
        try:
            async with self._using() as opened:
                value.set_result(opened)
                await last.wait()
        except Exception as error:
            if value.done():
                log.warning("what map_async's calls used was not closed well: %s: %s", type(error).__name__, error)
                return
            value.set_exception(error)
            value.exception()  # read, so that asyncio does not report an error that no call waits for any more


class Caller:
    """The calls of one node of one task."""

    def __init__(self, function: AsyncFunction, opened: Opened | None, post: Post, wake: Callable[[], None]) -> None:
        """``wake`` is called on the loop's thread when there are answers to take."""
        self._function = function
        self._opened = opened
        self._post = post
        self._wake = wake
        self._given: deque[tuple[int, tuple[Any, ...]]] = deque()
        self._answers: deque[Answer] = deque()
        self._running: set[asyncio.Task[None]] = set()
        #: Says that the loop is about to look at what was given, and the task at what was answered.
        self._posted = self._woken = False
        #: No answers are taken any more.
        self.closed = False
        #: Calls that were made again.
        self.retried = 0
        if opened is not None:
            post(opened.join)

    # ---- processing thread -------------------------------------------------------------------------------------

    def start(self, number: int, key: Any, value: Any) -> None:
        """Makes a call as soon as there is room for it; calls are made in the order in which they are given."""
        self._given.append((number, (key, value) if self._function.with_key else (value,)))
        if not self._posted:
            self._posted = True
            self._post(self._begin)

    @property
    def answered(self) -> bool:
        """True if there are answers to take. The first one that comes after it was asked wakes the task again."""
        self._woken = False  # before the look: an answer that comes in between is either seen or wakes
        return bool(self._answers)

    def take(self) -> Iterator[Answer]:
        """Yields the answers that have come, in the order in which they came."""
        while self._answers:
            yield self._answers.popleft()

    def close(self) -> None:
        """Cancels the calls that are not answered; the thread need not hold the task."""
        self.closed = True
        self._post(self._end)

    # ---- event loop --------------------------------------------------------------------------------------------

    async def quiet(self) -> None:
        """Returns when all calls are answered."""
        while self._running:
            await asyncio.wait(list(self._running))

    def _begin(self) -> None:
        self._posted = False
        while self._given and len(self._running) < self._function.concurrency and not self.closed:
            call = asyncio.get_running_loop().create_task(self._answer(*self._given.popleft()))
            self._running.add(call)
            call.add_done_callback(self._ended)

    def _ended(self, call: asyncio.Task[None]) -> None:
        self._running.discard(call)
        self._begin()

    def _end(self) -> None:
        for call in list(self._running):
            call.cancel()
        if self._opened is not None:
            self._opened.leave()

    async def _answer(self, number: int, arguments: tuple[Any, ...]) -> None:
        try:
            answer = Answer(number, await self._tried(arguments))
        except Exception as error:
            answer = Answer(number, error=error)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit) as error:
            if self.closed:
                raise
            # Not ours: the function cancelled itself, or would end the loop for all.
            answer = Answer(number, error=RuntimeError(f"the call ended with {type(error).__name__}"))
        self._answers.append(answer)
        if not (self._woken or self.closed):
            self._woken = True
            self._wake()

    async def _tried(self, arguments: tuple[Any, ...]) -> Any:
        pause = RETRY_FIRST
        for _ in range(self._function.retries):
            try:
                return await self._asked(arguments)
            except Exception as error:
                log.debug("a call failed, and is made again in %.1f s: %s: %s", pause, type(error).__name__, error)
            self.retried += 1
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_LONGEST)
        return await self._asked(arguments)

    async def _asked(self, arguments: tuple[Any, ...]) -> Any:
        function, limit = self._function, asyncio.timeout(self._function.timeout)
        try:
            async with limit:
                if self._opened is None:
                    return await function.call(*arguments)
                return await function.call(await self._opened.get(), *arguments)
        except TimeoutError as error:
            if limit.expired():
                raise TimeoutError(f"no answer within {function.timeout:g} s") from error
            raise


class CallLoop:
    """The callers on one event loop. Tasks that call the same function share what its ``using`` opens."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._callers: list[Caller] = []
        self._opened: dict[AsyncFunction, Opened] = {}

    def caller(self, function: AsyncFunction, wake: Callable[[], None]) -> Caller:
        """Returns what makes the calls of one node of one task (polling thread)."""
        opened = None
        if function.using is not None:
            opened = self._opened.setdefault(function, Opened(function.using))
        caller = Caller(function, opened, self._post, wake)
        self._callers = [*(each for each in self._callers if not each.closed), caller]
        return caller

    # ---- event loop --------------------------------------------------------------------------------------------

    async def quiet(self) -> None:
        """Returns when all calls are answered."""
        for caller in self._callers:
            await caller.quiet()

    async def close(self) -> None:
        """Returns when everything that calls used is closed."""
        await asyncio.gather(*(each.closed() for each in self._opened.values()))
        await asyncio.get_running_loop().shutdown_asyncgens()


def _nothing() -> None:
    """Stands for a function that is not set."""


class TaskCalls:
    """The part of one task in calls: what makes them, and whether the task may take records."""

    def __init__(self, loop: CallLoop | None) -> None:
        """Without a ``loop`` no calls are made where the task runs."""
        self._loop = loop
        #: The nodes that have as many unanswered records as they may. As long as there are any, the task takes none.
        self.full: set[str] = set()
        #: Has the task run, on any thread; and has it stop before the next record. Set by the task's owner.
        self.wake: Callable[[], None] = _nothing
        self.stop: Callable[[], None] = _nothing

    def caller(self, function: AsyncFunction) -> Caller:
        """Returns what makes the calls of one node. Raises ``TopologyError`` where none are made."""
        if self._loop is None:
            raise TopologyError(NOT_HERE)
        return self._loop.caller(function, self._wake)

    def _wake(self) -> None:
        """Calls the owner that the task has then."""
        self.wake()

    def hold(self, node: str) -> None:
        """The node takes no more records for now."""
        self.full.add(node)
        self.stop()

    def release(self, node: str) -> None:
        """The node takes records again."""
        self.full.discard(node)
