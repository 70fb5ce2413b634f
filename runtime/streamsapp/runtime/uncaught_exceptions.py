"""Exceptions that nothing else handled, and the uncaught exception handler's answers to them, within limits.

Called on the polling thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from queue import SimpleQueue

from streamsapp.errors import FencedError, ProcessorHangsError, TopicError, UserInputError
from streamsapp.remote.object_store import UnfitObjectStoreError
from streamsapp.runtime.listeners import UncaughtExceptionHandler, UncaughtExceptionResponse
from streamsapp.runtime.thread_failure import ThreadFailure

log = logging.getLogger(__name__)

#: No handler is asked: starting again would fail again, wait for a thread that never returns, or take over from the
#: process that took over from us.
_FINAL = (UserInputError, TopicError, FencedError, ProcessorHangsError, UnfitObjectStoreError)


class UncaughtExceptions:
    """Takes the failures of all threads, and asks the handler (KIP-671)."""

    def __init__(
        self,
        failures: SimpleQueue[ThreadFailure],
        handler: Callable[[], UncaughtExceptionHandler],
        global_thread: str | None,
    ) -> None:
        """``handler`` gives the one that is set now; ``global_thread`` is the name of a thread that is not replaced."""
        self._failures = failures
        self._handler = handler
        self._global_thread = global_thread

    def take(self) -> Iterator[ThreadFailure]:
        """The failures that threads have reported since."""
        while not self._failures.empty():
            yield self._failures.get_nowait()

    def answer(self, failure: ThreadFailure) -> UncaughtExceptionResponse:
        """The instance ends where the handler is not asked, raises, or wants what cannot be done."""
        error = failure.error
        if is_final(error):
            log.error("%s failed: %s", failure.thread, error)
            return UncaughtExceptionResponse.SHUTDOWN_CLIENT
        assert isinstance(error, Exception)
        try:
            response = self._handler()(error)
        except Exception:
            log.exception("the uncaught exception handler raised; the instance shuts down")
            return UncaughtExceptionResponse.SHUTDOWN_CLIENT
        if response is UncaughtExceptionResponse.REPLACE_THREAD and failure.thread == self._global_thread:
            log.warning("the global thread cannot be replaced; the instance shuts down")
            return UncaughtExceptionResponse.SHUTDOWN_CLIENT
        return response


def is_final(error: BaseException) -> bool:
    """Return whether the instance ends for an error, whatever the application says."""
    return isinstance(error, _FINAL) or not isinstance(error, Exception)
