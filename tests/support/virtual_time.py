"""An event loop in time of its own: when there is nothing to do, time moves to the moment when there is.

Called by the tests of connections, on their own thread. Sockets are real ones, and both ends are in the test's hands.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from selectors import DefaultSelector, SelectorKey
from typing import Any, TypeVar

from streamsapp.brokers.event_loop import EventLoop

T = TypeVar("T")


class VirtualClock:
    """Moves when it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_ms(self) -> int:
        return round(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class VirtualSelector(DefaultSelector):
    """Moves the clock instead of waiting."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        found: list[tuple[SelectorKey, int]] = super().select(0)
        if not found:
            assert timeout is not None, "nothing is due, and nothing will ever come"
            self._clock.seconds += timeout
        return found


class VirtualLoop(EventLoop):
    """A loop that the test turns."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        super().__init__(self.clock, VirtualSelector(self.clock))

    def until(self, reached: Callable[[], object]) -> None:
        """Turn until this is so."""
        for _ in range(100_000):
            if reached():
                return
            self.turn()
        raise AssertionError("not reached")

    def within(self, seconds: float, reached: Callable[[], T]) -> T:
        """Turn until this is so, or until so much time has passed; returns what it is then."""
        over = list[bool]()
        timer = self.call_at(self.now() + seconds, lambda: over.append(True))
        self.until(lambda: over or reached())
        self.cancel(timer)
        return reached()

    def after(self, seconds: float) -> None:
        """Turn until so much time has passed."""
        self.within(seconds, lambda: False)

    def settle(self) -> None:
        """Turn until nothing is left to be done at this time."""
        for _ in range(8):
            self.post(lambda: None)
            self.turn()

    def begin(self, work: Coroutine[Any, Any, T]) -> list[T | Exception]:
        """Start a coroutine; returns a list that will have its result, or its error."""
        ended = list[T | Exception]()

        async def carried() -> None:
            try:
                ended.append(await work)
            except Exception as error:
                ended.append(error)

        self.start(carried())
        return ended

    def result(self, work: Coroutine[Any, Any, T]) -> T:
        """Turn until a coroutine has ended; returns or raises as it does."""
        ended = self.begin(work)
        self.until(lambda: ended)
        if isinstance(ended[0], Exception):
            raise ended[0]
        return ended[0]
