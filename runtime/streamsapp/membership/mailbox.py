"""The mailbox between the membership's thread and the polling thread: it carries news, and the permission to commit.

One lock, held for moments only. The rules it keeps (see ``api.Membership``):

* An assignment counts from the moment it is polled: an assignment that was not polled is taken back when the member
joins again. * No commit begins while the member is no member, or has news that was not polled yet, or joins. A commit
that began keeps the identity it began with, so that the coordinator refuses a commit that outlives its generation.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from streamsapp.clock import Clock
from streamsapp.membership.api import Assignment, Holdings, Lost, News
from streamsapp.membership.wire import Identity
from streamsapp.record import TaskId

#: How long commits wait for a join, in seconds: several times what it takes when all members are well. A commit that is
#: on its way when the generation ends is refused, and under exactly once its transaction is lost.
JOIN_WAIT = 0.75
#: A polling thread that has something to do comes back for news within so many seconds, and rests after so many more
#: without.
SOON, REST_AFTER = 0.1, 5.0


@dataclass
class _Commits:
    """The commits of the polling thread, as the membership's thread follows them."""

    #: The identity of the commit that is under way.
    under_way: Identity | None = None
    #: While a join is under way: commits wait until then, in monotonic seconds, and go on if it takes longer.
    wait_until: float | None = None
    #: True while the member waits for a commit before it joins: none can begin then for a moment.
    wanted: bool = False


class MembershipMailbox:
    """Keeps what one thread has for the other, under its lock."""

    def __init__(self, clock: Clock, transactional_id: str, on_news: Callable[[], None] = lambda: None) -> None:
        """``on_news`` is called on the membership's thread when there is something for the polling thread."""
        self._clock = clock
        self._on_news = on_news
        #: Called on the polling thread when a commit ends that a join may be waiting for.
        self.on_commit_ended: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._news: deque[tuple[News, str]] = deque()
        self._error: Exception | None = None
        self._open: Identity | None = None
        self._commits = _Commits()
        #: The last assignment that was handed out, unless it was lost since. And whether the polling thread is done
        #: with that, or with the loss: then it came for more.
        self._assigned: Assignment | None = None
        self._settled = False
        #: Tasks that were handed out since the last loss and, for all that is known, are still held.
        self._granted: frozenset[TaskId] = frozenset()
        #: Of the life that the polling thread knows of.
        self.transactional_id = transactional_id
        #: The last time at which the polling thread asked for news, in monotonic seconds.
        self.polled_at = clock.monotonic()
        #: The last time at which it came back soon, with more than a little to do.
        self._worked_at = self.polled_at

    # ---- polling thread ----------------------------------------------------------------------------------------

    def poll(self, *, seldom: bool = False) -> News | None:
        """The next news; raises what ended the membership. ``seldom``: the polling thread has little to do, however
        soon it comes back."""
        with self._lock:
            now = self._clock.monotonic()
            if now - self.polled_at < SOON and not seldom:
                self._worked_at = now
            self.polled_at = now
            self._settled = True
            if not self._news:
                if self._error is not None:
                    raise self._error
                return None
            news, transactional_id = self._news.popleft()
            if isinstance(news, Assignment):
                self._assigned, self._settled = news, False
                self._granted |= news.active
            elif isinstance(news, Lost):
                self.transactional_id, self._settled = transactional_id, False
            return news

    @property
    def may_commit(self) -> bool:
        if self._open is None or self._news or self._error is not None:
            return False
        until = self._commits.wait_until
        return until is None or self._clock.monotonic() >= until

    @property
    def commit_wanted(self) -> bool:
        """True if a commit is wanted now, before none can begin for a moment."""
        return self._commits.wanted

    def begin_commit(self) -> bool:
        with self._lock:
            if not self.may_commit:
                return False
            self._commits.under_way = self._open
            return True

    def cuts(self, number: int) -> bool:
        """Return whether the commit under way may have this cut: it is of the generation whose assignment has it, and
        this member has not begun to join the next. A join that begins now waits for the commit."""
        with self._lock:
            assigned, commits = self._assigned, self._commits
            if assigned is None or commits.under_way is None or commits.wait_until is not None:
                return False
            current = commits.under_way == self._open and commits.under_way.generation == assigned.generation
            return current and assigned.cut == number

    def end_commit(self) -> None:
        """Also when there was nothing to commit."""
        with self._lock:
            self._commits.under_way = None
            awaited = self._commits.wanted or self._commits.wait_until is not None
            self._commits.wanted = False
        if awaited:
            self.on_commit_ended()

    @property
    def committing(self) -> Identity | None:
        """The identity under which a commit is under way; ``None`` without one."""
        return self._commits.under_way

    # ---- any thread --------------------------------------------------------------------------------------------

    @property
    def losses_heard(self) -> bool:
        """True if the polling thread is done with every loss. Until then it holds tasks that may belong to another
        instance, also when the member has joined again meanwhile."""
        with self._lock:
            handling = self._assigned is None and not self._settled
            return not handling and not any(isinstance(news, Lost) for news, _ in self._news)

    # ---- membership's thread -----------------------------------------------------------------------------------

    @property
    def resting(self) -> bool:
        """True if the polling thread has had little or nothing to do for a while."""
        return self._clock.monotonic() - self._worked_at > REST_AFTER

    @property
    def settled(self) -> bool:
        """True if the polling thread is done with all news."""
        return self._settled and not self._news

    def want_commit(self) -> None:
        """Ask for a commit, if one may begin."""
        with self._lock:
            self._commits.wanted = self.may_commit
        self._on_news()

    def joining(self) -> None:
        """A join begins. It is over in a moment when all members are well. A member that waits for another that went
        away may commit meanwhile: the generation holds until all have joined, and the tasks of this member stay its
        own."""
        with self._lock:
            self._commits.wanted = False
            self._commits.wait_until = self._clock.monotonic() + JOIN_WAIT

    def close(self) -> None:
        """The generation is over: no commit may begin until ``open``."""
        with self._lock:
            self._open = None

    def open(self, identity: Identity) -> None:
        with self._lock:
            self._open = identity
            self._commits.wait_until = None
        self._on_news()

    def take_stock(self, holdings: Callable[[], Holdings]) -> Holdings:
        """The holdings of the member as it joins: the holdings that the runtime reports, and the tasks that it was
        handed and cannot reflect yet. Left out is everything that it was not handed since the last loss: it may still
        be closing that.

        An assignment that was not polled is taken back: the next one says what holds.
        """
        with self._lock:
            self._news = deque(each for each in self._news if not isinstance(each[0], Assignment))
            assigned, settled = self._assigned, self._settled
        # Not under the lock: the object that answers has locks of its own. Nothing is handed out meanwhile.
        held = holdings()
        active = held.active
        if assigned is not None and (not settled or held.generation < assigned.generation):
            active |= assigned.active
        with self._lock:
            self._granted &= active
            return replace(held, active=self._granted, on_disk=held.on_disk | (held.active - self._granted))

    def put(self, news: News, transactional_id: str) -> None:
        """Send news to the polling thread; a loss makes void earlier news that it has not polled."""
        with self._lock:
            if isinstance(news, Lost):
                self._open = self._assigned = None
                self._granted = frozenset()
                self._news = deque(each for each in self._news if not isinstance(each[0], Assignment))
            self._news.append((news, transactional_id))
        self._on_news()

    def fail(self, error: Exception) -> None:
        """``poll`` raises it once all other news is polled."""
        with self._lock:
            self._open = None
            self._error = self._error or error
        self._on_news()
