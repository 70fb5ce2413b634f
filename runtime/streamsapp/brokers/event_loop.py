"""An event loop: the coroutines, the timers and the sockets of one thread, and calls that other threads leave there.

Each ``Connection`` has one, on a thread of its own; ``post`` and ``WakeUp.notify`` are for any thread, all else is for
that one. Time and the selector are given, so that tests need not wait. A turn costs tens of microseconds, and
heartbeats are most of the work of an idle instance. So an answer is read, and the coroutine that waits for it runs on,
in the same turn.
"""

from __future__ import annotations

import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import count
from selectors import EVENT_READ, BaseSelector, DefaultSelector
from threading import Lock
from typing import Any, Generic, TypeAlias, TypeVar

from streamsapp.clock import Clock, SystemClock

log = logging.getLogger(__name__)

T = TypeVar("T")
#: A coroutine of a loop; it handles its own errors.
Work: TypeAlias = Coroutine[Any, Any, object]

#: Timers that were cancelled are kept until they are due, unless there are so many of them, and more than others.
_MANY = 100


class Timer:
    """A call at a point in time."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        #: ``None``: it was cancelled, or made.
        self.call: Callable[[], object] | None = call


class Awaited(Generic[T]):
    """A result for which one coroutine may wait: ``await`` returns it, or raises its error."""

    __slots__ = ("_error", "_loop", "_value", "_waiter", "done")

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._waiter: Work | None = None
        self._value: T | None = None
        self._error: Exception | None = None
        self.done = False

    def set(self, value: T) -> None:
        """The result is known. Only the first one counts."""
        if not self.done:
            self._value = value
            self._end()

    def fail(self, error: Exception) -> None:
        """There is no result. Only the first one counts."""
        if not self.done:
            self._error = error
            self._end()

    def wake(self, waiter: Work) -> None:
        """Run this coroutine on when the result is known."""
        self._waiter = waiter

    def _end(self) -> None:
        self.done = True
        if self._waiter is not None:
            self._loop.run_on(self._waiter)

    def __await__(self) -> Generator[Awaited[T], None, T]:
        if not self.done:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]


class EventLoop:
    """Runs until it is stopped."""

    def __init__(self, clock: Clock | None = None, selector: BaseSelector | None = None) -> None:
        #: The time in monotonic seconds. Any thread.
        self.now = (clock or SystemClock()).monotonic
        self._selector = selector or DefaultSelector()
        #: All coroutines that have not ended, and the coroutines that can run on.
        self._works: set[Work] = set()
        self._ready: deque[Work] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._cancelled = 0
        self._numbers = count()
        self._posted: deque[Callable[[], object]] = deque()
        self._lock = Lock()
        self._rung = False
        self._stopped = self._ended = False
        self._bell, self._rope = socket.socketpair()
        for each in (self._bell, self._rope):
            each.setblocking(False)
        self._selector.register(self._bell, EVENT_READ, self._answer_bell)

    # ---- any thread ----------------------------------------------------------------------------------------------

    def post(self, call: Callable[[], object]) -> bool:
        """Make this call on the loop's thread; returns false if that has ended."""
        with self._lock:
            if self._ended:
                return False
            self._posted.append(call)
            if not self._rung:
                self._rung = True
                self._rope.send(b"\0")
        return True

    # ---- the loop's thread ---------------------------------------------------------------------------------------

    def start(self, work: Work) -> None:
        """Run a coroutine, soon."""
        self._works.add(work)
        self._ready.append(work)

    def carry(self, work: Coroutine[Any, Any, T]) -> Awaited[T]:
        """As ``start``; returns what will have its result."""
        outcome: Awaited[T] = Awaited(self)

        async def carried() -> None:
            try:
                outcome.set(await work)
            except Exception as error:
                outcome.fail(error)

        self.start(carried())
        return outcome

    def run_on(self, work: Work) -> None:
        """A coroutine has what it waits for."""
        self._ready.append(work)

    def call_at(self, when: float, call: Callable[[], object]) -> Timer:
        """Make this call at a time, in monotonic seconds."""
        timer = Timer(call)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def cancel(self, timer: Timer | None) -> None:
        """Do not make the call of a timer, if there is one and it has not been made."""
        if timer is None or timer.call is None:
            return
        timer.call = None
        self._cancelled += 1
        if self._cancelled > max(_MANY, len(self._timers) // 2):
            self._timers = [each for each in self._timers if each[2].call is not None]
            heapify(self._timers)
            self._cancelled = 0

    def sleep(self, seconds: float) -> Awaited[None]:
        """Awaited, it returns after so many seconds."""
        slept: Awaited[None] = Awaited(self)
        self.call_at(self.now() + seconds, partial(slept.set, None))
        return slept

    def watch(self, descriptor: int, call: Callable[[int], object], events: int = EVENT_READ) -> None:
        """Call with the events that a socket is ready for whenever it is, until ``unwatch``."""
        if descriptor in self._selector.get_map():
            self._selector.modify(descriptor, events, call)
        else:
            self._selector.register(descriptor, events, call)

    def unwatch(self, descriptor: int) -> None:
        """Called before the socket is closed."""
        self._selector.unregister(descriptor)

    def stop(self) -> None:
        """End with this turn."""
        self._stopped = True

    def run(self) -> None:
        """Run until it is stopped."""
        while not self._stopped:
            self.turn()

    def turn(self) -> None:
        """Wait until there is something to do, and do it."""
        for key, events in self._selector.select(self._idle_time()):
            self._make(key.data, events)
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            timer = heappop(self._timers)[2]
            call, timer.call = timer.call, None
            if call is None:
                self._cancelled -= 1
            else:
                self._make(call)
        while self._ready:
            self._step(self._ready.popleft())

    def end(self) -> None:
        """Take nothing any more; calls that were left here until now are made."""
        with self._lock:
            self._ended = True
        self._make_posted()

    def close(self) -> None:
        """After ``end``: close all coroutines that have not ended."""
        while self._works:
            with suppress(Exception):  # a coroutine that waits while it ends, or fails at it
                self._works.pop().close()
        self._selector.close()
        self._bell.close()
        self._rope.close()

    def _idle_time(self) -> float | None:
        """The seconds in which there is nothing to do, unless something comes; ``None``: for ever."""
        if self._ready:
            return 0.0
        while self._timers and self._timers[0][2].call is None:
            heappop(self._timers)
            self._cancelled -= 1
        return max(0.0, self._timers[0][0] - self.now()) if self._timers else None

    def _step(self, work: Work) -> None:
        """Let a coroutine run until it waits for something."""
        try:
            work.send(None).wake(work)
        except StopIteration:
            self._works.discard(work)
        except Exception:
            log.exception("a task of the connection failed")
            self._works.discard(work)

    def _make(self, call: Callable[..., object], *arguments: int) -> None:
        try:
            call(*arguments)
        except Exception:
            log.exception("a task of the connection failed")

    def _answer_bell(self, events: int) -> None:
        with self._lock:
            self._bell.recv(16)
            self._rung = False
        self._make_posted()

    def _make_posted(self) -> None:
        while self._posted:
            self._make(self._posted.popleft())


class WakeUp:
    """Wakes one coroutine, from any thread; a notification that no coroutine waits for is kept."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._waiting: Awaited[None] | None = None
        self._kept = False

    def notify(self) -> None:
        """Any thread; does nothing once the loop has ended."""
        self._loop.post(self.notify_here)

    def notify_here(self) -> None:
        """As ``notify``, on the loop's thread."""
        if self._waiting is None or self._waiting.done:
            self._kept = True
        else:
            self._waiting.set(None)

    async def wait(self, timeout: float | None = None) -> None:
        """Return when notified, or when ``timeout`` seconds have passed."""
        if self._kept:
            self._kept = False
            return
        waiting = self._waiting = Awaited(self._loop)
        timer = None if timeout is None else self._loop.call_at(self._loop.now() + timeout, partial(waiting.set, None))
        try:
            await waiting
        finally:
            self._waiting = None
            self._loop.cancel(timer)
