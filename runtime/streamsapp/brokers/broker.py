"""One broker: where it is, the channel to it, what waits for that, and when it was tried in vain.

Used by ``Connection``, on the thread of its event loop; a connection is opened on a thread of its own, which ends with
that: names are resolved, TLS and SASL are agreed on there, and hold up nobody's heartbeats.
"""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from threading import Thread
from typing import Any, TypeAlias

from streamsapp.brokers.channel import Asked, Channel
from streamsapp.brokers.errors import NotSentError, PausedError, RefusedError
from streamsapp.brokers.event_loop import Awaited, EventLoop, Timer
from streamsapp.brokers.opening import OpenConnection
from streamsapp.brokers.reaching import Reaching

log = logging.getLogger(__name__)

#: Sessions of SASL are not renewed more often than so many seconds.
_SHORTEST_SESSION = 1.0

#: A host and a port.
Address: TypeAlias = tuple[str, int]
#: Opens a connection within so many seconds; called on a thread of its own.
Opener: TypeAlias = Callable[[Address, float], OpenConnection]
#: Makes a call on another thread.
Background: TypeAlias = Callable[[Callable[[], None]], None]


def on_a_thread(call: Callable[[], None]) -> None:
    """Make a call on a thread of its own."""
    Thread(target=call, name="kafka-open", daemon=True).start()


class Tries:
    """The tries to open a connection, as far as they failed since the last one that did not."""

    def __init__(self, reaching: Reaching) -> None:
        self._reaching = reaching
        self.failures = 0
        #: The last failure, and until when there is no other try.
        self.failure: tuple[type[NotSentError], str] = NotSentError, ""
        self.paused_until = -math.inf

    @property
    def timeout(self) -> float:
        """The seconds that the next one may take."""
        return self._reaching.try_timeout(self.failures)

    def failed(self, error: NotSentError, now: float) -> None:
        self.failures += 1
        self.failure = type(error), str(error)
        self.paused_until = now + self._reaching.pause(self.failures) * random.uniform(0.8, 1.2)


class Broker:
    """Requests to one broker."""

    def __init__(
        self,
        loop: EventLoop,
        name: str,
        address: Address,
        client_id: str,
        reaching: Reaching,
        opener: Opener,
        background: Background,
    ) -> None:
        self._loop = loop
        self._name = name
        self._address = address
        self._client_id, self._reaching = client_id, reaching
        self._opener = opener
        self._background = background
        #: The one that is asked, and those on which an answer is waited for.
        self._channel: Channel | None = None
        self._channels: set[Channel] = set()
        #: The end of its SASL session, and the timer that opens another connection before.
        self._session_ends = math.inf
        self._renewal: Timer | None = None
        self._opening = False
        self._waiting: deque[Asked] = deque()
        self._tries = Tries(reaching)
        #: It wants to be left alone until then.
        self._not_before = 0.0

    def ask(self, request: Any, timeout: float, held: float = 0.0) -> Awaited[Any]:
        """The answer, within so many seconds beside those for which it may be ``held``; else ``UnreachableError``."""
        timeout = held + min(timeout, self._reaching.answer)
        asked = Asked(request, timeout, Awaited(self._loop))
        asked.timer = self._loop.call_at(self._loop.now() + timeout, partial(self._late, asked))
        self._waiting.append(asked)
        self._go_on()
        return asked.outcome

    @property
    def is_away(self) -> bool:
        """True if there is no connection, and the last try to open one has failed, or has not ended."""
        return self._channel is None and (self._opening or self._tries.failures > 0)

    def move(self, address: Address) -> None:
        """It is found at this address from now on."""
        if address != self._address:
            self._address = address
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
            now = self._loop.now()
            if self._not_before > now:
                return
            channel = self._usable(now)
            if channel is None:
                self._open(now)
                return
            channel.send(self._waiting.popleft(), self._client_id)

    def _usable(self, now: float) -> Channel | None:
        """The channel, unless it is too old."""
        if self._channel is not None and (
            now >= self._session_ends or now - self._channel.used_at > self._reaching.idle
        ):
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

    def _open(self, now: float) -> None:
        """Open a connection, unless that failed a moment ago."""
        if self._opening:
            return
        if now < self._tries.paused_until:
            kind, why = self._tries.failure
            # A client that was refused is so for this moment, too.
            self._fail(kind if issubclass(kind, RefusedError) else PausedError, why)
            return
        self._opening = True
        self._background(partial(self._try, self._address, self._tries.timeout))

    def _try(self, address: Address, timeout: float) -> None:
        """On a thread of its own."""
        opened: OpenConnection | Exception
        try:
            opened = self._opener(address, timeout)
        except Exception as error:
            opened = error
        if not self._loop.post(partial(self._tried, address, opened)) and not isinstance(opened, Exception):
            opened.transport.close()

    def _tried(self, address: Address, opened: OpenConnection | Exception) -> None:
        self._opening = False
        if isinstance(opened, Exception):
            if address == self._address:
                self._not_opened(opened)
        else:
            self._take(opened)
            if address != self._address:
                self.retire()
        self._go_on()

    def _take(self, opened: OpenConnection) -> None:
        """Use this connection from now on."""
        log.debug("broker %s: connected to %s:%d", self._name, *self._address)
        self.retire()
        self._tries = Tries(self._reaching)
        self._channel = Channel(self._loop, opened, self._name, self._lost, self._throttled)
        self._channels.add(self._channel)
        self._session_ends = math.inf if opened.expires_at is None else opened.expires_at
        if opened.renew_at is not None:
            self._renewal = self._loop.call_at(max(opened.renew_at, self._loop.now() + _SHORTEST_SESSION), self._renew)

    def _not_opened(self, error: Exception) -> None:
        if not isinstance(error, NotSentError):  # which names the address, and what to look at
            error = NotSentError(f"broker {self._name}: {error!r}")
        log.debug("broker %s: %s", self._name, error)
        self._tries.failed(error, self._loop.now())
        if self._channel is None:
            self._fail(*self._tries.failure)
        else:  # requests go on until the session ends
            self._renewal = self._loop.call_at(self._tries.paused_until, self._renew)

    def _renew(self) -> None:
        """Open another connection before the session of this one ends."""
        self._open(self._loop.now())

    def _lost(self, channel: Channel) -> None:
        self._channels.discard(channel)
        if channel is self._channel:
            self._channel = None
            self._loop.cancel(self._renewal)
