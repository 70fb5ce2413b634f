"""The event loop of a test driver: every call is answered before the driver goes on, and time passes only in calls that
wait for something outside.

On the caller's thread. A function that sleeps, or that never answers until its time-out, takes no time: where nothing
but a timer is waited for, the loop's clock is put forward to it. So results are the same each time, and at once.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, TypeVar, TypeVarTuple

from streamsapp.processor.async_calls import CallLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Selector(selectors.DefaultSelector):
    """Waits for sockets, and lets the time go by at once where there are none."""

    def __init__(self) -> None:
        super().__init__()
        #: Seconds by which the clock was put forward.
        self.skipped = 0.0
        #: Functions that run on other threads.
        self.elsewhere = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        # One is the loop's own.
        if ready or timeout is None or self.elsewhere or len(self.get_map()) > 1:
            return ready or super().select(timeout)
        self.skipped += max(0.0, timeout)
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, selector: _Selector) -> None:
        self._waits = selector
        super().__init__(selector)

    def time(self) -> float:
        return time.monotonic() + self._waits.skipped

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._waits.elsewhere += 1
        future.add_done_callback(self._came_back)
        return future

    def _came_back(self, future: object) -> None:
        self._waits.elsewhere -= 1


class DrivenCalls:
    """Makes the calls of a driver's tasks."""

    def __init__(self) -> None:
        self.calls = CallLoop(self._post)
        self._loop: _Loop | None = None

    def close(self) -> None:
        """Closes what the calls used."""
        if self._loop is not None:
            self._run(self.calls.close())
            self._loop.close()
            self._loop = None

    def _post(self, function: Callable[[], object]) -> None:
        self._loop = self._loop or _Loop(_Selector())
        self._loop.call_soon(function)
        # The function is called before the coroutine begins.
        self._run(self.calls.quiet())

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        loop = self._loop
        assert loop is not None
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            loop.run_until_complete(coroutine)
            return
        # A notebook has a loop that runs on this thread.
        helper = threading.Thread(target=loop.run_until_complete, args=(coroutine,))
        helper.start()
        helper.join()
