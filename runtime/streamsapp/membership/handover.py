"""What passes between the membership's thread and the polling thread: news one way, the leave to commit the other.

One lock, held for moments only. The rules it keeps (see ``api.Membership``):

* An assignment counts from the moment it is polled: one that nobody polled is taken back when the member joins again.
* No commit begins while the member joins, is no member, or has news that nobody polled yet; one that began keeps the
  identity it began with, so that a commit that outlives its generation is refused by the coordinator.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from streamsapp.clock import Clock
from streamsapp.membership.api import Assignment, Holdings, Lost, News
from streamsapp.membership.wire import Identity


class Handover:
    """Between the two threads."""

    def __init__(self, clock: Clock, transactional_id: str) -> None:
        self._clock = clock
        #: Called on the polling thread when a commit ends that a join may be waiting for.
        self.on_commit_ended: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._news: deque[tuple[News, str]] = deque()
        self._error: Exception | None = None
        self._open: Identity | None = None
        self._committing: Identity | None = None
        #: Handed out, and not lost since.
        self._owned: Assignment | None = None
        #: What the runtime says that it holds is of before the loss.
        self._stale = False
        #: Of the life that the polling thread knows of.
        self.transactional_id = transactional_id
        #: When the polling thread last asked for news, in monotonic seconds.
        self.polled_at = clock.monotonic()

    # ---- polling thread ----------------------------------------------------------------------------------------

    def poll(self) -> News | None:
        """The next news; raises what ended the membership."""
        with self._lock:
            self.polled_at = self._clock.monotonic()
            if not any(isinstance(news, Lost) for news, _ in self._news):
                self._stale = False
            if not self._news:
                if self._error is not None:
                    raise self._error
                return None
            news, transactional_id = self._news.popleft()
            if isinstance(news, Assignment):
                self._owned = news
            elif isinstance(news, Lost):
                self._stale, self._owned = True, None
                self.transactional_id = transactional_id
            return news

    def begin_commit(self) -> bool:
        with self._lock:
            if self._open is None or self._news or self._error is not None:
                return False
            self._committing = self._open
            return True

    def end_commit(self) -> None:
        with self._lock:
            self._committing = None
            awaited = self._open is None
        if awaited:
            self.on_commit_ended()

    @property
    def committing(self) -> Identity | None:
        """Whose commit is under way."""
        return self._committing

    # ---- membership's thread -----------------------------------------------------------------------------------

    def close(self) -> None:
        """No commit may begin until ``open``."""
        with self._lock:
            self._open = None

    def open(self, identity: Identity) -> None:
        with self._lock:
            self._open = identity

    def take_stock(self, holdings: Callable[[], Holdings]) -> Holdings:
        """What the member holds as it joins: what the runtime says, and what it was handed since.

        An assignment that nobody polled is taken back: the next one says what holds.
        """
        with self._lock:
            self._news = deque(each for each in self._news if not isinstance(each[0], Assignment))
            owned, stale = self._owned, self._stale
        held = holdings()
        if stale:
            return Holdings(lags=held.lags, on_disk=held.on_disk | held.active)
        if owned is not None and owned.generation > held.generation:
            return replace(held, active=held.active | owned.active)
        return held

    def put(self, news: News, transactional_id: str) -> None:
        """Tell the polling thread; a loss makes void what it was told before and has not polled."""
        with self._lock:
            if isinstance(news, Lost):
                self._open = None
                self._stale = True
                self._news = deque(each for each in self._news if not isinstance(each[0], Assignment))
            self._news.append((news, transactional_id))

    def fail(self, error: Exception) -> None:
        """``poll`` raises it once everything else is told."""
        with self._lock:
            self._open = None
            self._error = self._error or error
