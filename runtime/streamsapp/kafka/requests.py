"""Requests to brokers that the calling thread stops waiting for when its instance has to end.

The calls of librdkafka cannot be interrupted: each runs on a thread of its own, which is left behind if it has to be.
Used by the clients of this package, on whichever thread uses the client.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from streamsapp.deadline import Deadline
from streamsapp.errors import StreamsError

T = TypeVar("T")


class NoAnswerError(StreamsError):
    """A request was given up: it took too long, or the instance closes."""


class Requests:
    """The requests of one client."""

    def __init__(self, deadline: Deadline | None) -> None:
        """Without a ``deadline`` the caller waits for as long as the request takes."""
        self._deadline = deadline
        self._lock = threading.Lock()
        self._under_way = 0

    @property
    def under_way(self) -> bool:
        """True if a thread uses the client, possibly a thread that no caller waits for: then it must not be closed."""
        return self._under_way > 0

    def ask(self, request: Callable[[], T], within: float = math.inf) -> T:
        """The answer; ``NoAnswerError`` if there is none within so many seconds and before the deadline."""
        if self._deadline is None:
            return request()
        outcome: Future[T] = Future()
        answered = threading.Event()
        self._count(1)
        threading.Thread(target=self._run, args=(request, outcome, answered), name="request", daemon=True).start()
        if not self._deadline.wait(answered.wait, within):
            raise NoAnswerError(
                "the instance closes and waits for the broker no longer"
                if self._deadline.passed
                else f"the broker did not answer within {within:.0f} s"
            )
        return outcome.result()

    def _run(self, request: Callable[[], T], outcome: Future[T], answered: threading.Event) -> None:
        try:
            outcome.set_result(request())
        except BaseException as error:
            outcome.set_exception(error)
        finally:
            self._count(-1)
            answered.set()

    def _count(self, change: int) -> None:
        with self._lock:
            self._under_way += change
