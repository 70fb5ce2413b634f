"""Reports of progress from Spark's Python workers to the driver: a line of JSON now and then over a connection of their
own. What the driver does not hear changes nothing but what it shows. Who does not know the driver's word is not heard.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeAlias

from streamsapp.record import TaskId

#: Host, port, and the word by which the driver knows its workers.
Address: TypeAlias = tuple[str, int, str]

_EVERY = 0.5
_TIMEOUT = 5.0


class Reporter:
    """A worker's side: what one task does."""

    def __init__(self, to: Address, task_id: TaskId) -> None:
        host, port, self._word = to
        self._task = str(task_id)
        self._records = 0
        self._next = 0.0
        self._socket: socket.socket | None = None
        with suppress(OSError):
            self._socket = socket.create_connection((host, port), timeout=_TIMEOUT)
        self._tell(state="running")

    def processed(self, records: int) -> None:
        """So many more."""
        self._records += records
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY
            self._tell(state="running")

    def finished(self) -> None:
        self._tell(state="done")

    def failed(self, error: str, *, hopeless: bool) -> None:
        """``hopeless``: trying again would end the same."""
        self._tell(state="failed", error=error, hopeless=hopeless)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _tell(self, **what: Any) -> None:
        if self._socket is None:
            return
        line = json.dumps({"word": self._word, "task": self._task, "records": self._records, **what}) + "\n"
        try:
            self._socket.sendall(line.encode())
        except OSError:
            self._socket = None


class Listener:
    """The driver's side, on threads of its own."""

    def __init__(self, host: str, heard: Callable[[dict[str, Any]], None]) -> None:
        """``host`` is this machine's name among the workers."""
        self._heard = heard
        self._host = host
        self._word = secrets.token_hex(16)
        self._server = socket.create_server(("127.0.0.1" if host == "127.0.0.1" else "", 0))
        threading.Thread(target=self._accept, name="reports", daemon=True).start()

    @property
    def address(self) -> Address:
        """What workers need to know."""
        return self._host, self._server.getsockname()[1], self._word

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._server.accept()
                threading.Thread(target=self._listen, args=(connection,), name="report", daemon=True).start()

    def _listen(self, connection: socket.socket) -> None:
        with suppress(OSError, ValueError), connection, connection.makefile() as lines:
            for line in lines:
                report = json.loads(line)
                if report.pop("word", None) != self._word:
                    return
                self._heard(report)
