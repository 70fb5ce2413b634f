"""The ways by which brokers are reached and asked: pauses between tries, time-outs, buffers of sockets. Pure.

Made with the settings of each client, from librdkafka's names of properties; used on the threads of connections.
"""

from __future__ import annotations

import math
import socket
from dataclasses import dataclass

from streamsapp.config.client_properties import ClientProperties
from streamsapp.errors import ConfigError

#: A broker closes a connection that was idle for ten minutes, maybe just when a request comes. So the connection is no
#: longer used some time before.
_IDLE_MS = 540_000


@dataclass(frozen=True)
class Reaching:
    """Times in seconds, sizes in bytes."""

    #: The pause after a failed try and after many (``reconnect.backoff.ms``, ``reconnect.backoff.max.ms``): a broker
    #: that restarts is back within seconds.
    first_pause: float = 0.05
    longest_pause: float = 0.5
    #: The longest that a try may take, at first and after failures (``socket.connection.setup.timeout.ms``).
    first_try: float = 5.0
    longest_try: float = 10.0
    #: How long an answer is waited for at most, beside the time for which the broker was asked to wait
    #: (``socket.timeout.ms``).
    answer: float = math.inf
    #: A connection that was not used for so long is not used any more (``connections.max.idle.ms``).
    idle: float = _IDLE_MS / 1000
    #: The system's unless given (``socket.send.buffer.bytes``, ``socket.receive.buffer.bytes``).
    send_buffer: int = 0
    receive_buffer: int = 0

    def pause(self, failures: int) -> float:
        """The seconds before the next try, after so many that failed."""
        return min(math.ldexp(self.first_pause, min(failures - 1, 20)), self.longest_pause)

    def try_timeout(self, failures: int) -> float:
        """The seconds that a try may take, after so many that failed."""
        return min(self.first_try * (1 + failures), self.longest_try)

    def socket_options(self) -> list[tuple[int, int, int]]:
        """The options of a socket, before it connects."""
        sizes = (socket.SO_SNDBUF, self.send_buffer), (socket.SO_RCVBUF, self.receive_buffer)
        return [(socket.SOL_SOCKET, option, size) for option, size in sizes if size]


def reaching(properties: ClientProperties) -> Reaching:
    """Raises ``ConfigError`` that names the property that is no number."""

    def number(key: str, default: float) -> float:
        try:
            return float(properties.get(key, default))
        except ValueError:
            raise ConfigError(f"{key}: expected a number, got {properties[key]!r}") from None

    default = Reaching()
    first = number("reconnect.backoff.ms", 1000 * default.first_pause) / 1000
    longest = number("reconnect.backoff.max.ms", 1000 * max(first, default.longest_pause)) / 1000
    given = "socket.connection.setup.timeout.ms" in properties
    tried = number("socket.connection.setup.timeout.ms", 0) / 1000
    return Reaching(
        first_pause=min(first, longest),
        longest_pause=longest,
        first_try=tried if given else default.first_try,
        longest_try=tried if given else default.longest_try,
        answer=number("socket.timeout.ms", math.inf) / 1000,
        idle=number("connections.max.idle.ms", _IDLE_MS) / 1000 or math.inf,
        send_buffer=int(number("socket.send.buffer.bytes", 0)),
        receive_buffer=int(number("socket.receive.buffer.bytes", 0)),
    )
