"""A connection of a fetcher's to a broker, for one request at a time. With the times of its next request and of the
answer that is due. Used on the thread that a consumer belongs to.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from streamsapp.brokers.bounds import check_length, throttle
from streamsapp.brokers.transport import Transport
from streamsapp.errors import StreamsError
from streamsapp.kafka.fetching.requests import Encoded
from streamsapp.kafka.fetching.session import FetchSession

#: So many answers in a row may have no news before they are due. From then on the pauses before the next request grow,
#: up to so many seconds.
_HOLLOW, _FIRST_PAUSE, _LONGEST_PAUSE = 3, 0.05, 1.0
_SIZE = struct.Struct(">i")
_NO_ANSWER = "if it happens again, it may want a login: check security.protocol"


class TooOldError(StreamsError):
    """A broker, or records, that the fetcher does not know."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; upgrade to Kafka 3.1 or later, or set client: librdkafka, which knows older ones")


class RequestTimes:
    """The times of one connection, in monotonic seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: Not to be asked before.
        self.not_before = 0.0
        #: When it was asked last, or the connection was begun.
        self.asked_at = now()
        #: When the broker answers at the latest, if it is well, and for how long it may wait until then.
        self._due_at = self._waits = 0.0
        #: How many answers, one after the other, had no news and came long before they were due.
        self._hollow = 0

    def asked(self, waits: float) -> None:
        """It may wait for so many seconds before it answers."""
        self.asked_at = self._now()
        self._due_at, self._waits = self.asked_at + waits, waits

    @property
    def late(self) -> float:
        """The seconds for which the answer is due by now; negative while the broker may wait for records."""
        return self._now() - self._due_at

    def leave_alone(self, milliseconds: int, broker: object) -> None:
        """Ask nothing for so long, as the broker wants it."""
        self.not_before = self._now() + throttle(milliseconds, broker)

    def told(self, *, anything: bool) -> None:
        """The answer says something, or not: a broker that has nothing waits for it, and is not asked again and again
        if it does not."""
        early = self._due_at - self._now() > self._waits / 2 > 0
        self._hollow = 0 if anything or not early else self._hollow + 1
        if (beyond := self._hollow - _HOLLOW) >= 0:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(beyond, 8))
            self.not_before = max(self.not_before, self._now() + pause)


class BrokerConnection:
    """An open connection."""

    def __init__(self, transport: Transport, place: str, most: int, now: Callable[[], float]) -> None:
        """To the broker at a ``place``; its answers have at most ``most`` bytes."""
        self._transport, self._place, self._most = transport, place, most
        #: How often it was asked.
        self.requests = 0
        #: The answer is empty until its length is known.
        self._head, self._answer = bytearray(_SIZE.size), bytearray()
        self._read = 0
        #: True once it has answered.
        self._answers = False
        #: The caller's note of its request, until that is answered.
        self.asked: Any = None
        self.session = FetchSession()
        self.times = RequestTimes(now)

    def __str__(self) -> str:
        return self._place

    @property
    def late(self) -> float:
        """The seconds for which an answer is due by now; negative while the broker may wait for records."""
        return 0.0 if self.asked is None else self.times.late

    def fileno(self) -> int:
        return self._transport.fileno()

    def ask(self, request: Encoded, asked: object, waits: float = 0.0) -> None:
        """Send a request, which the broker may keep for so many seconds. Raises ``OSError``, as all that follows."""
        self.requests = (self.requests + 1) & 0x7FFFFFFF
        self.asked = asked
        self.times.asked(waits)
        rest = memoryview(request(self.requests))
        while rest:
            rest = rest[self._transport.send(rest) :]

    def receive(self) -> bytearray | None:
        """The answer if it is all there, without its length; ``None`` before."""
        if not self._answer:
            self._read_into(self._head)
            if self._read < len(self._head):
                return None
            self._answer, self._read = bytearray(check_length(bytes(self._head), self._most)), 0
        self._read_into(self._answer)
        if self._read < len(self._answer):
            return None
        answer, self._answer, self._read = self._answer, bytearray(), 0
        self._answers = True
        if _SIZE.unpack_from(answer)[0] != self.requests or self.asked is None:
            raise ConnectionError("it answers another request than the one that was sent")
        return answer

    def _read_into(self, buffer: bytearray) -> None:
        try:
            with memoryview(buffer) as view:
                read = self._transport.recv_into(view[self._read :])
        except BlockingIOError:
            return
        if not read:
            raise ConnectionError(
                "closed by the broker" if self._answers else f"closed by the broker before it answered; {_NO_ANSWER}"
            )
        self._read += read

    def close(self) -> None:
        """No answer is waited for any more."""
        self.asked = None
        self._transport.close()
