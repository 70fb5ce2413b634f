"""A connection of a fetcher's to a broker, for one request at a time.

Made and used on the thread that a consumer belongs to; a thread of its own connects, and ends with that.
"""

from __future__ import annotations

import math
import struct
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

from streamsapp.brokers.bounds import check_length
from streamsapp.brokers.opening import OpenConnection, open_connection
from streamsapp.brokers.transport import Transport
from streamsapp.errors import StreamsError
from streamsapp.kafka.fetching import requests
from streamsapp.kafka.fetching.request_times import RequestTimes
from streamsapp.kafka.fetching.session import FetchSession
from streamsapp.kafka.fetching.settings import FetchSettings

#: Seconds for the rest of an answer of which a part is there, and for a request to be written. No other thread of the
#: interpreter waits meanwhile.
_REST_OF_ANSWER, _WRITE = 0.02, 5.0
_SIZE = struct.Struct(">i")
_NO_ANSWER = "if it happens again, it may want a login: check security.protocol"


class TooOldError(StreamsError):
    """A broker, or records, that the fetcher does not know."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; upgrade to Kafka 3.1 or later, or set client: librdkafka, which knows older ones")


class BrokerConnection:
    """One attempt to have a connection; once it is lost it is made anew."""

    def __init__(self, address: tuple[str, int], settings: FetchSettings, notify: Callable[[], None]) -> None:
        """``notify`` is called when the connection is made, or cannot be."""
        self.address = address
        self._settings = settings
        self._notify = notify
        self._transport: Transport | None = None
        #: The reason why there is no connection, once that is known.
        self.failure: Exception | None = None
        self._closed = False
        #: When another connection is to be made, as this one's login will not be believed any more (KIP-368).
        self._renew_at = math.inf
        #: How often it was asked.
        self.requests = 0
        #: The answer is empty until its length is known.
        self._head, self._answer = bytearray(_SIZE.size), bytearray()
        self._read = 0
        #: True once it has answered.
        self._answers = False
        #: The caller's note of what was asked, until it is answered.
        self.asked: Any = None
        self.session = FetchSession()
        self.times = RequestTimes()
        Thread(target=self._connect, name=f"connect-{settings.client_id}", daemon=True).start()

    # ---- the thread that connects ------------------------------------------------------------------------------

    def _connect(self) -> None:
        settings = self._settings
        try:
            reaching = settings.reaching
            made = open_connection(
                self.address,
                settings.security,
                settings.client_id,
                reaching.longest_try,
                settings.most,
                reaching.socket_options(),
            )
            try:
                self._check(made)
            except BaseException:
                made.transport.close()
                raise
        except Exception as error:
            self.failure = error
        else:
            self._transport = made.transport
            if self._closed:
                made.transport.close()
        self._notify()

    def _check(self, made: OpenConnection) -> None:
        if requests.lacks(made.versions):
            version = requests.FETCH_VERSION
            raise TooOldError(f"broker {self} does not know Fetch requests of version {version} (KIP-516)")
        made.transport.wait_in_system(_REST_OF_ANSWER, _WRITE)
        if made.renew_at is not None:
            self._renew_at = made.renew_at

    # ---- the consumer's thread ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def connected(self) -> bool:
        return self._transport is not None

    @property
    def has_expired(self) -> bool:
        """True if its time is over, or it was idle for long; never while an answer is waited for."""
        if self.asked is not None:
            return False
        idle = self.connected and self.times.idle > self._settings.reaching.idle
        return idle or time.monotonic() >= self._renew_at

    @property
    def late(self) -> float:
        """The seconds for which an answer is due by now; negative while the broker may wait for records."""
        return 0.0 if self.asked is None else self.times.late

    def fileno(self) -> int:
        assert self._transport is not None
        return self._transport.fileno()

    def ask(self, request: requests.Encoded, asked: object, waits: float = 0.0) -> None:
        """Send a request, which the broker may keep for so many seconds. Raises ``OSError``, as all that follows."""
        assert self._transport is not None
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
            self._answer, self._read = bytearray(check_length(bytes(self._head), self._settings.most)), 0
        self._read_into(self._answer)
        if self._read < len(self._answer):
            return None
        answer, self._answer, self._read = self._answer, bytearray(), 0
        self._answers = True
        if _SIZE.unpack_from(answer)[0] != self.requests or self.asked is None:
            raise ConnectionError("it answers something else than it was asked")
        return answer

    def _read_into(self, buffer: bytearray) -> None:
        assert self._transport is not None
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
        self._closed = True
        if self._transport is not None:
            self._transport.close()
            self._transport = None
