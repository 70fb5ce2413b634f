"""One open connection to a broker: requests go out, and their answers come in, in the same order.

Used by ``Broker``, on the thread of the event loop. A request is sent as it is asked for, as far as the socket takes
it. Any fault of an answer closes the channel: nothing that follows on it can be believed.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

from streamsapp.brokers.bounds import WrongAnswerError, check_length, throttle, wrong
from streamsapp.brokers.errors import NotSentError, UnreachableError
from streamsapp.brokers.event_loop import Awaited, EventLoop, Timer
from streamsapp.brokers.opening import OpenConnection
from streamsapp.brokers.request_by_hand import RequestByHand, number_of
from streamsapp.brokers.transport import Transport

log = logging.getLogger(__name__)

#: Bytes of the longest answer: the leader gets all members at once.
MOST = 100 << 20
#: Bytes that are taken from a socket at a time.
_PIECE = 64 << 10
#: Correlation ids have 31 bits.
_NUMBERS = 0x7FFF_FFFF
#: Bytes before each answer that are its length.
_HEAD = 4


class Asked:
    """A request, and the answer that a coroutine waits for."""

    __slots__ = ("channel", "ends_at", "number", "outcome", "request", "timeout", "timer", "version")

    def __init__(self, request: RequestByHand[Any], timeout: float, outcome: Awaited[Any]) -> None:
        self.request = request
        self.timeout = timeout
        self.outcome = outcome
        #: Of the end of ``timeout`` seconds.
        self.timer: Timer | None = None
        #: The channel that it was sent on.
        self.channel: Channel | None = None
        self.number = self.version = -1
        #: The bytes that the channel has sent when all of this one are.
        self.ends_at = 0


class Answers:
    """The answers that come over a transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._piece = memoryview(bytearray(_PIECE))
        #: The beginning of an answer that is not whole.
        self._begun = bytearray()

    def __iter__(self) -> Iterator[bytes]:
        """The answers that are there whole by now; raises ``OSError`` at the end, and ``WrongAnswerError``."""
        while True:
            try:
                count = self._transport.recv_into(self._piece)
            except (BlockingIOError, InterruptedError):
                return
            if not count:
                raise ConnectionError("the broker has closed the connection")
            self._begun += self._piece[:count]
            yield from self._whole()
            if not self._transport.pending:
                return

    def _whole(self) -> Iterator[bytes]:
        begun, at = self._begun, 0
        while len(begun) - at >= _HEAD:
            end = at + _HEAD + check_length(bytes(begun[at : at + _HEAD]), MOST)
            if end > len(begun):
                break
            yield bytes(begun[at + _HEAD : end])
            at = end
        del begun[:at]


class Channel:
    """Requests to one broker, until the connection is lost."""

    def __init__(
        self,
        loop: EventLoop,
        opened: OpenConnection,
        name: str,
        on_lost: Callable[[Channel], None],
        on_throttle: Callable[[float], None],
    ) -> None:
        """``name``: the broker's, for messages. ``on_throttle`` gets the seconds for which the broker wants to be left
        alone (KIP-219)."""
        self._loop = loop
        self._transport = opened.transport
        self._descriptor = opened.transport.fileno()
        self._versions = opened.versions
        self._name = name
        self._on_lost = on_lost
        self._on_throttle = on_throttle
        #: Requests without an answer, the oldest first.
        self._asked: deque[Asked] = deque()
        self._number = 0
        self._unsent = bytearray()
        #: Bytes that were sent.
        self._sent = 0
        self._answers = Answers(opened.transport)
        self._retired = False
        self.open = True
        #: The time of the last request.
        self.used_at = loop.now()
        loop.watch(self._descriptor, self._ready)

    # ---- requests ------------------------------------------------------------------------------------------------

    def send(self, asked: Asked, client_id: str) -> None:
        """Send a request. A request that cannot be put into bytes that this broker knows fails alone."""
        self.used_at = self._loop.now()
        self._number = asked.number = (self._number + 1) & _NUMBERS
        try:
            asked.version = asked.request.newest(self._versions)
            data = asked.request.encoded(asked.version, asked.number, client_id)
        except Exception as error:
            self._loop.cancel(asked.timer)
            unknown = isinstance(error, WrongAnswerError)
            asked.outcome.fail(UnreachableError(f"broker {self._name}: {error}") if unknown else error)
            return
        asked.channel, asked.ends_at = self, self._sent + len(self._unsent) + len(data)
        self._asked.append(asked)
        if self._unsent:
            self._unsent += data
            return
        try:
            taken = self._taken(data)
        except OSError as error:
            self.close(str(error))
        else:
            if taken < len(data):
                self._unsent += memoryview(data)[taken:]
                self._loop.watch(self._descriptor, self._ready, EVENT_READ | EVENT_WRITE)

    def _taken(self, data: bytes | bytearray) -> int:
        """The number of these bytes that the socket takes at once."""
        try:
            taken = self._transport.send(data)
        except (BlockingIOError, InterruptedError):
            return 0
        self._sent += taken
        return taken

    def retire(self) -> None:
        """Close as soon as no answer is waited for: nothing will be asked any more."""
        self._retired = True
        self._end_if_done()

    def close(self, why: str) -> None:
        """Close the connection: requests without an answer fail, as ``NotSentError`` where the broker cannot have all
        of it."""
        if not self.open:
            return
        self.open = False
        log.debug("broker %s: the connection is closed: %s", self._name, why)
        self._loop.unwatch(self._descriptor)
        self._transport.close()
        for asked in self._asked:
            self._loop.cancel(asked.timer)
            kind = UnreachableError if asked.ends_at <= self._sent else NotSentError
            asked.outcome.fail(kind(f"broker {self._name}: {why}"))
        self._asked.clear()
        self._on_lost(self)

    # ---- what the socket is ready for ----------------------------------------------------------------------------

    def _ready(self, events: int) -> None:
        if not self.open:  # it was closed in this very turn
            return
        try:
            if events & EVENT_WRITE:
                self._send_rest()
            if events & EVENT_READ:
                for answer in self._answers:
                    self._answered(answer)
                self._end_if_done()
        except OSError as error:
            self.close(str(error))
        except Exception as error:  # of the decoder, whatever it is
            why = wrong(error)
            log.warning("broker %s: %s; the connection is closed", self._name, why)
            self.close(why)

    def _send_rest(self) -> None:
        del self._unsent[: self._taken(self._unsent)]
        if not self._unsent:
            self._loop.watch(self._descriptor, self._ready)

    def _answered(self, answer: bytes) -> None:
        number = number_of(answer)
        if not self._asked or self._asked[0].number != number:
            raise WrongAnswerError(f"it answers request {number}, which is not the one that is due")
        asked = self._asked[0]
        read = asked.request.decoded(answer, asked.version)
        self._asked.popleft()
        self._loop.cancel(asked.timer)
        if milliseconds := getattr(read, "throttle_time_ms", 0):
            self._on_throttle(throttle(milliseconds, self._name))
        asked.outcome.set(read)

    def _end_if_done(self) -> None:
        if self._retired and not self._asked:
            self.close("it is not needed any more")
