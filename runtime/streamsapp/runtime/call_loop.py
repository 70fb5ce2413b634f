"""The event loop of an instance, on which coroutine functions are called: one thread, which starts with the first call.

Tasks ask for callers, and close them, on the polling thread, and start calls on processing threads. The polling thread
stops the loop. The calls run on the loop's thread (``processor/async_calls.py``).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from streamsapp.processor.async_calls import CallLoop
from streamsapp.runtime.thread_failure import ThreadFailure

#: How long connections may take to close when the instance ends, and calls to end, in seconds each.
CLOSE_WAIT = 3.0


class CallLoopThread(threading.Thread):
    """Runs the loop from the first call to the end of the instance."""

    def __init__(self, name: str, failures: SimpleQueue[ThreadFailure]) -> None:
        super().__init__(name=name, daemon=True)
        self.calls = CallLoop(self._post)
        self._failures = failures
        self._begun = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def stop(self) -> None:
        """Cancel the calls that are under way, close what they use, and end the thread."""
        if self._loop is not None:
            self._post(lambda: asyncio.ensure_future(self._end()))

    def run(self) -> None:
        loop = self._loop
        assert loop is not None
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        except BaseException as error:  # the handler decides, nothing dies silently
            self._failures.put(ThreadFailure(self.name, error))
        finally:
            loop.close()

    def _post(self, function: Callable[[], object]) -> None:
        with self._begun:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self.start()
        with suppress(RuntimeError):  # it has ended already, and all calls with it
            self._loop.call_soon_threadsafe(function)

    async def _end(self) -> None:
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.calls.close(), CLOSE_WAIT)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CLOSE_WAIT)
        loop.stop()
