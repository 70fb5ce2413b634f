"""A connection of a fetcher's to a broker, for one request at a time.

Made and used on the thread that a consumer belongs to; a thread of its own connects, and ends with that.
"""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

from streamsapp.brokers.bounds import check_length
from streamsapp.brokers.opening import SOCKET_OPTIONS
from streamsapp.kafka.fetching import requests
from streamsapp.kafka.fetching.request_times import RequestTimes
from streamsapp.kafka.fetching.session import FetchSession

log = logging.getLogger(__name__)

#: Seconds: for connecting, and for the first answer as a whole.
_CONNECT, _FIRST_ANSWER = 5.0, 10.0
#: For the rest of an answer of which a part is there. No other thread of the interpreter waits meanwhile.
_REST_OF_ANSWER = struct.pack("@qq", 0, 20_000)
#: How long a request may take to be written.
_WRITE = struct.pack("@qq", 5, 0)
_SIZE = struct.Struct(">i")
#: The number of the first request, and bytes of its answer, which tells some numbers of each kind of request.
_FIRST, _FIRST_MOST = 0x7FFFFFFF, 1 << 20


class TooOldError(NotImplementedError):
    """The broker does not know the requests of a fetcher."""


class BrokerConnection:
    """One attempt to have a connection; once it is lost it is made anew."""

    def __init__(self, address: tuple[str, int], client_id: str, most: int, notify: Callable[[], None]) -> None:
        """Answers have ``most`` bytes; ``notify`` is called when the connection is made, or cannot be."""
        self.address = address
        self._client_id = client_id
        self._most = most
        self._notify = notify
        self._socket: socket.socket | None = None
        #: The reason why there is no connection, once that is known.
        self.failure: Exception | None = None
        self._closed = False
        #: How often it was asked.
        self.requests = 0
        #: The answer is empty until its length is known.
        self._head, self._answer = bytearray(_SIZE.size), bytearray()
        self._read = 0
        #: The caller's note of what was asked, until it is answered.
        self.asked: Any = None
        self.session = FetchSession()
        self.times = RequestTimes()
        Thread(target=self._connect, name=f"connect-{client_id}", daemon=True).start()

    # ---- the thread that connects ------------------------------------------------------------------------------

    def _connect(self) -> None:
        try:
            made = socket.create_connection(self.address, _CONNECT)
        except Exception as error:  # also of a name or a port that Python refuses
            self.failure = error
            self._notify()
            return
        try:
            for option in SOCKET_OPTIONS:
                made.setsockopt(*option)
            give_up = time.monotonic() + _FIRST_ANSWER
            made.settimeout(_FIRST_ANSWER)
            made.sendall(requests.versions(self._client_id)(_FIRST))
            size = check_length(_exactly(made, _SIZE.size, give_up), min(self._most, _FIRST_MOST))
            if requests.lacks(bytearray(_exactly(made, size, give_up)), _FIRST):
                raise TooOldError(f"broker {self} does not know Fetch requests of version {requests.FETCH_VERSION}")
            # From now on calls wait in the system, not in the interpreter, for as long as it is told here.
            made.settimeout(None)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _REST_OF_ANSWER)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _WRITE)
        except Exception as error:
            made.close()
            self.failure = error
        else:
            self._socket = made
            if self._closed:
                made.close()
        self._notify()

    # ---- the consumer's thread ---------------------------------------------------------------------------------

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def connected(self) -> bool:
        return self._socket is not None

    @property
    def late(self) -> float:
        """The seconds for which an answer is due by now; negative while the broker may wait for records."""
        return 0.0 if self.asked is None else self.times.late

    def fileno(self) -> int:
        assert self._socket is not None
        return self._socket.fileno()

    def ask(self, request: requests.Encoded, asked: object, waits: float = 0.0) -> None:
        """Send a request, which the broker may keep for so many seconds. Raises ``OSError``, as all that follows."""
        assert self._socket is not None
        self.requests = (self.requests + 1) & 0x7FFFFFFF
        self.asked = asked
        self.times.asked(waits)
        self._socket.sendall(request(self.requests))

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
        if _SIZE.unpack_from(answer)[0] != self.requests or self.asked is None:
            raise ConnectionError("it answers something else than it was asked")
        return answer

    def _read_into(self, buffer: bytearray) -> None:
        assert self._socket is not None
        try:
            with memoryview(buffer) as view:
                read = self._socket.recv_into(view[self._read :], 0, socket.MSG_WAITALL)
        except BlockingIOError:
            return
        if not read:
            raise ConnectionError("closed by the broker")
        self._read += read

    def close(self) -> None:
        self._closed = True
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _exactly(made: socket.socket, size: int, give_up: float) -> bytes:
    """So many bytes, all of which have to be there at a time (monotonic seconds)."""
    data = bytearray()
    while len(data) < size:
        if (left := give_up - time.monotonic()) <= 0:
            raise TimeoutError(f"its first answer was not whole after {_FIRST_ANSWER:g} s")
        made.settimeout(left)
        more = made.recv(size - len(data))
        if not more:
            raise ConnectionError("closed by the broker")
        data += more
    return bytes(data)
