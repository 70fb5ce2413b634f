"""The way to one broker: where it is, when a connection to it is opened, and until when one is used.

Used by ``Broker`` for requests and by ``BrokerConnections`` for records, on their threads. A connection is opened on a
thread of its own, which ends with that. Resolving names and agreeing on TLS and SASL happen there, and hold up no
heartbeats and no records.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import NamedTuple, TypeAlias

from streamsapp.brokers.opening import OpenConnection
from streamsapp.brokers.reaching import Reaching

#: Sessions of SASL are not renewed more often than so many seconds.
_SHORTEST_SESSION = 1.0

#: A host and a port.
Address: TypeAlias = tuple[str, int]
#: Opens a connection within so many seconds; called on a thread of its own.
Opens: TypeAlias = Callable[[Address, float], OpenConnection]
#: Makes a call on another thread.
Background: TypeAlias = Callable[[Callable[[], None]], None]


def on_a_thread(call: Callable[[], None]) -> None:
    """Make a call on a thread of its own."""
    Thread(target=call, name="kafka-open", daemon=True).start()


class Opener(NamedTuple):
    """The ways of a client to open connections; tests give others."""

    reaching: Reaching
    open: Opens
    #: Leaves a call for the client's thread; false if that has ended.
    post: Callable[[Callable[[], object]], bool]
    #: The time in monotonic seconds.
    now: Callable[[], float]
    background: Background = on_a_thread


class Link:
    """One connection after the other to one broker."""

    def __init__(
        self,
        address: Address,
        opener: Opener,
        on_opened: Callable[[OpenConnection], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        self.address = address
        self._opener = opener
        self._on_opened, self._on_failed = on_opened, on_failed
        self._opening = False
        #: How often it failed since it was well, the last failure, and until when there is no other try.
        self._failures = 0
        self._failure: Exception = ConnectionError("it was not tried")
        self.paused_until = -math.inf
        #: When another connection is to be opened, and when the last one's session ends (KIP-368).
        self.renew_at = self._session_ends = math.inf

    @property
    def is_troubled(self) -> bool:
        """True if the last try to open a connection has failed, or has not ended."""
        return self._opening or self._failures > 0

    def is_over(self, used_at: float) -> bool:
        """Return whether the last connection, which was used then, is too old to be used again."""
        now = self._opener.now()
        return now >= self._session_ends or now - used_at > self._opener.reaching.idle

    def well(self) -> None:
        """The broker has done what it was asked."""
        self._failures = 0

    def failed(self, error: Exception) -> None:
        """The broker was tried in vain: it is left alone for a moment, and for longer after each time."""
        self._failures, self._failure = self._failures + 1, error
        pause = self._opener.reaching.pause(self._failures)
        self.paused_until = self._opener.now() + pause * random.uniform(0.8, 1.2)

    def move(self, address: Address) -> bool:
        """It is found at this address from now on; returns whether that is another one."""
        moved, self.address = address != self.address, address
        return moved

    def open(self) -> Exception | None:
        """Open a connection, unless that is being done. Returns the last failure if that was a moment ago: then nothing
        is done."""
        if self._opening:
            return None
        if self._failures and self._opener.now() < self.paused_until:
            return self._failure
        self._opening = True
        timeout = self._opener.reaching.try_timeout(self._failures)
        self._opener.background(partial(self._try, self.address, timeout))
        return None

    def _try(self, address: Address, timeout: float) -> None:
        """On a thread of its own."""
        opened: OpenConnection | Exception
        try:
            opened = self._opener.open(address, timeout)
        except Exception as error:
            opened = error
        if not self._opener.post(partial(self._tried, address, opened)) and not isinstance(opened, Exception):
            opened.transport.close()

    def _tried(self, address: Address, opened: OpenConnection | Exception) -> None:
        self._opening = False
        if address != self.address:  # it has moved meanwhile
            if not isinstance(opened, Exception):
                opened.transport.close()
            self.open()
        elif isinstance(opened, Exception):
            self.failed(opened)
            self._on_failed(opened)
        else:
            self._session_ends = opened.expires_at
            self.renew_at = max(opened.renew_at, self._opener.now() + _SHORTEST_SESSION)
            self._on_opened(opened)
