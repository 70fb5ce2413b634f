"""Requests to one broker: the channel to it, and what waits for that.

Used by ``Connection``, on the thread of its event loop.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from functools import partial
from typing import TypeVar

from streamsapp.brokers.channel import Asked, Channel
from streamsapp.brokers.errors import NotSentError, PausedError, RefusedError
from streamsapp.brokers.event_loop import Awaited, EventLoop, Timer
from streamsapp.brokers.link import Address, Link, Opener
from streamsapp.brokers.opening import OpenConnection
from streamsapp.brokers.request_by_hand import RequestByHand

log = logging.getLogger(__name__)

#: An answer.
A = TypeVar("A")


class Broker:
    """Requests to one broker."""

    def __init__(self, loop: EventLoop, name: str, address: Address, client_id: str, opener: Opener) -> None:
        self._loop = loop
        self._name = name
        self._client_id, self._longest_answer = client_id, opener.reaching.answer
        self._link = Link(address, opener, self._opened, self._not_opened)
        #: The channel that takes requests, and the channels on which an answer is waited for.
        self._channel: Channel | None = None
        self._channels: set[Channel] = set()
        #: Opens another connection before the session of this one ends.
        self._renewal: Timer | None = None
        self._waiting: deque[Asked] = deque()
        #: It wants to be left alone until then.
        self._not_before = 0.0

    def ask(self, request: RequestByHand[A], timeout: float, held: float = 0.0) -> Awaited[A]:
        """The answer, within so many seconds beside those for which it may be ``held``; else ``UnreachableError``."""
        timeout = held + min(timeout, self._longest_answer)
        outcome: Awaited[A] = Awaited(self._loop)
        asked = Asked(request, timeout, outcome)
        asked.timer = self._loop.call_at(self._loop.now() + timeout, partial(self._late, asked))
        self._waiting.append(asked)
        self._go_on()
        return outcome

    @property
    def is_away(self) -> bool:
        """True if there is no connection, and the last try to open one has failed, or has not ended."""
        return self._channel is None and self._link.is_troubled

    def move(self, address: Address) -> None:
        """It is found at this address from now on."""
        if self._link.move(address):
            self.retire()

    def retire(self) -> None:
        """Close the connection when no answer is waited for."""
        channel, self._channel = self._channel, None
        self._loop.cancel(self._renewal)
        if channel is not None:
            channel.retire()

    def hang_up(self, why: str) -> None:
        """Close the connection: whatever waits fails."""
        for channel in list(self._channels):
            channel.close(why)
        self._fail(NotSentError, f"broker {self._name}: {why}")

    # ---- requests ------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Send what waits, as soon as the broker may be asked."""
        while self._waiting:
            if self._not_before > self._loop.now():
                return
            channel = self._usable()
            if channel is None:
                self._open()
                return
            channel.send(self._waiting.popleft(), self._client_id)

    def _usable(self) -> Channel | None:
        """The channel, unless it is too old."""
        if self._channel is not None and self._link.is_over(self._channel.used_at):
            self.retire()
        return self._channel

    def _late(self, asked: Asked) -> None:
        why = f"no answer within {asked.timeout:g} s"
        if asked.channel is not None:
            asked.channel.close(why)
        else:
            self._waiting.remove(asked)
            asked.outcome.fail(NotSentError(f"broker {self._name}: {why}, nor could it be asked"))

    def _throttled(self, seconds: float) -> None:
        self._not_before = max(self._not_before, self._loop.now() + seconds)
        self._loop.call_at(self._not_before, self._go_on)

    def _fail(self, kind: type[NotSentError], why: str) -> None:
        """Requests that wait to be sent are not."""
        while self._waiting:
            asked = self._waiting.popleft()
            self._loop.cancel(asked.timer)
            asked.outcome.fail(kind(why))

    # ---- the connection ------------------------------------------------------------------------------------------

    def _open(self) -> None:
        """Open a connection; requests that wait fail if that was tried in vain a moment ago."""
        if (failure := self._link.open()) is not None:
            # A client that was refused is so for this moment, too.
            self._fail(type(failure) if isinstance(failure, RefusedError) else PausedError, self._said(failure))

    def _opened(self, opened: OpenConnection) -> None:
        """Use this connection from now on."""
        log.debug("broker %s: connected to %s:%d", self._name, *self._link.address)
        self.retire()
        self._link.well()
        self._channel = Channel(self._loop, opened, self._name, self._lost, self._throttled)
        self._channels.add(self._channel)
        self._renew_at(self._link.renew_at)
        self._go_on()

    def _not_opened(self, failure: Exception) -> None:
        log.debug("broker %s: %s", self._name, failure)
        if self._channel is None:
            self._fail(type(failure) if isinstance(failure, NotSentError) else NotSentError, self._said(failure))
        else:  # requests go on until the session ends
            self._renew_at(self._link.paused_until)

    def _said(self, failure: Exception) -> str:
        """An error of ours names the address, and what to look at."""
        return str(failure) if isinstance(failure, NotSentError) else f"broker {self._name}: {failure!r}"

    def _renew_at(self, when: float) -> None:
        if when < math.inf:
            self._renewal = self._loop.call_at(when, self._link.open)

    def _lost(self, channel: Channel) -> None:
        self._channels.discard(channel)
        if channel is self._channel:
            self._channel = None
            self._loop.cancel(self._renewal)
