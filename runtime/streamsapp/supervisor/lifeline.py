"""The lines that an instance says to its supervisor over the lifeline: its port, its member of the group, its failure.

Written by the instance, on its main thread and its membership's; read by the supervisor on a thread for each instance.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from streamsapp.supervisor.last_failure import MOST_BYTES, LastFailure, read_failure

_MEMBER = b"member "


def member_line(member_id: str) -> bytes:
    """Returns what an instance says of the id that the group has given it; an empty one says that it has none."""
    return _MEMBER + member_id.encode("ascii", "replace") + b"\n"


class LifelineReader(Thread):
    """Hears an instance until its process has ended."""

    def __init__(self, name: str, lifeline: socket.socket, counts: Callable[[str], None]) -> None:
        """``counts`` hears the id under which the group counts the instance, and an empty one when it does not."""
        super().__init__(name=f"lifeline-{name}", daemon=True)
        self._lifeline = lifeline
        self._counts = counts
        #: The failure that it reported, if any.
        self.failure: LastFailure | None = None

    def run(self) -> None:
        rest = b""
        self._lifeline.settimeout(None)
        with suppress(OSError):
            while part := self._lifeline.recv(MOST_BYTES):
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    self._hear(line)
                rest = rest[:MOST_BYTES]
        self._hear(rest)

    def close(self) -> None:
        """Take the last words of a process that has ended; another that it left behind may hold the other end."""
        with suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_RDWR)
        self.join()

    def _hear(self, line: bytes) -> None:
        if line.startswith(_MEMBER):
            self._counts(line.removeprefix(_MEMBER).decode("ascii", "replace"))
        else:
            self.failure = read_failure(line) or self.failure
