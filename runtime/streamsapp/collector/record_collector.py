"""Records on their way out: filled by processing threads, drained into the producer by the polling thread.

Two buffers, one per epoch. Records that tasks send before they end their epoch belong to the commit under way
(``current``); those that they send after it wait (``next``) until that commit is through, so that one transaction holds
exactly the results of the input it commits, and processing goes on meanwhile (see
docs/decisions/0001-rolling-epochs.md).

Results of tasks that go before others have buffers of their own, which are drained first: neither do they queue behind
the results of others, nor wait for the room that these need.

Changelog records of overwritten values never get here: the write-back layer keeps the last value per key and hands
it over once, at the commit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamsapp.outgoing import OutputRecord

#: Sends some records and returns those it could not take because the producer's queue is full.
Send = Callable[[list[OutputRecord]], list[OutputRecord]]


class _Lane:
    """The buffers of tasks of one kind."""

    def __init__(self) -> None:
        self.current: deque[list[OutputRecord]] = deque()
        self.next: deque[list[OutputRecord]] = deque()
        self.buffered = 0


class RecordCollector:
    """Output buffers of an instance, bounded by a number of records."""

    def __init__(
        self, capacity: int, on_output: Callable[[], None] = lambda: None, enough: int = 1, *, prompt: bool = True
    ) -> None:
        """``on_output`` is called on the thread that added something to be sent, while ``enough`` records wait or more:
        fewer are sent when the thread that sends them is awake for something else. If they are ``prompt``, because
        somebody can read them before the commit, it is also called when no more are on their way."""
        self._capacity = capacity
        self._on_output = on_output
        self._enough = enough
        self.prompt = prompt
        self._usual, self._urgent = _Lane(), _Lane()
        self._epoch = 0
        self._lock = threading.RLock()
        self._room = threading.Condition(self._lock)
        #: Says whether the thread that sends them waits for the last of them.
        self._awaited = False

    def __len__(self) -> int:
        return self._usual.buffered + self._urgent.buffered

    # ---- processing threads ------------------------------------------------------------------------------------

    def add(self, records: list[OutputRecord], epoch: int, *, urgent: bool = False) -> None:
        """Append what a task sent in its ``epoch``, in its order. A task's results are all ``urgent``, or none is."""
        lane = self._urgent if urgent else self._usual
        with self._lock:
            (lane.current if epoch <= self._epoch else lane.next).append(records)
            lane.buffered += len(records)
        if self.enough:
            self._on_output()

    def no_more(self) -> None:
        """No task is processed: what waits is not going to be more."""
        if self.prompt and len(self) and not self._awaited:
            self._on_output()

    def wait_for_room(self, timeout: float, *, urgent: bool = False) -> bool:
        """Waits up to ``timeout`` seconds for room and says whether there is any: a slow broker slows processing, not
        memory."""
        lane = self._urgent if urgent else self._usual
        if lane.buffered < self._capacity:
            return True
        with self._lock:
            return self._room.wait_for(lambda: lane.buffered < self._capacity, timeout)

    # ---- polling thread ----------------------------------------------------------------------------------------

    @property
    def enough(self) -> bool:
        """Says whether enough records wait to be sent at once."""
        return len(self) >= self._enough

    @property
    def drained(self) -> bool:
        """Says whether everything of the current epoch was sent."""
        return not (self._usual.current or self._urgent.current)

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """Meanwhile nobody is told that no more are on their way: this thread waits for that, and sends what there is
        afterwards."""
        self._awaited = True
        try:
            yield
        finally:
            self._awaited = False

    def drain(self, send: Send, limit: int) -> int:
        """Send about ``limit`` records of the current epoch; returns how many were sent."""
        sent = self._drain(self._urgent, send, limit) if self._urgent.current else 0
        return sent if self._urgent.current else sent + self._drain(self._usual, send, limit - sent)

    def _drain(self, lane: _Lane, send: Send, limit: int) -> int:
        sent = 0
        while sent < limit and lane.current:
            records = _some(lane.current, limit - sent)
            rest = send(records)
            sent += len(records) - len(rest)
            if rest:
                lane.current.appendleft(rest)
                break
        if sent:
            with self._lock:
                lane.buffered -= sent
                self._room.notify_all()
        return sent

    def roll(self) -> None:
        """The commit is through: what was held for the next epoch is current now."""
        with self._lock:
            self._epoch += 1
            for lane in (self._usual, self._urgent):
                lane.current.extend(lane.next)
                lane.next.clear()

    def reset(self, epoch: int) -> None:
        """Drop everything and begin at ``epoch``: all tasks go on from the last commit."""
        with self._lock:
            self._epoch = epoch
            for lane in (self._usual, self._urgent):
                lane.current.clear()
                lane.next.clear()
                lane.buffered = 0
            self._room.notify_all()


def _some(waiting: deque[list[OutputRecord]], limit: int) -> list[OutputRecord]:
    """Take the first records, of several tasks if these sent few: they go into one request."""
    records = waiting.popleft()
    if waiting and len(records) < limit:
        records = list(records)
        while waiting and len(records) < limit:
            records += waiting.popleft()
    return records
