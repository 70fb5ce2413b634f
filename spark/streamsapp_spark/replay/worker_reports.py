"""Sends reports of progress from Spark's Python workers to the driver: a line of JSON now and then over a connection of
their own. A report that the driver does not hear changes nothing but the progress it shows. A sender that does not know
the driver's password is not heard."""

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
from streamsapp_spark.session.driver_port import listen

#: Host, port, and the password by which the driver knows its workers.
Address: TypeAlias = tuple[str, int, str]

_EVERY = 0.5
_TIMEOUT = 5.0
#: Characters of a report; a sender of longer ones is no worker.
_LONGEST_LINE = 64 << 10


class Reporter:
    """The worker's side: it reports the work of one task."""

    def __init__(self, to: Address, task_id: TaskId) -> None:
        host, port, self._password = to
        self._task = str(task_id)
        self._records = 0
        self._next = 0.0
        self._socket: socket.socket | None = None
        with suppress(OSError):
            self._socket = socket.create_connection((host, port), timeout=_TIMEOUT)
        self._tell(state="running")

    def processed(self, records: int) -> None:
        """Counts records that were processed."""
        self._records += records
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY
            self._tell(state="running")

    def finished(self) -> None:
        self._tell(state="done")

    def failed(self, error: str, *, hopeless: bool) -> None:
        """Reports a failure; ``hopeless`` says that trying again would end the same."""
        self._tell(state="failed", error=error, hopeless=hopeless)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def _tell(self, **what: Any) -> None:
        if self._socket is None:
            return
        line = json.dumps({"password": self._password, "task": self._task, "records": self._records, **what}) + "\n"
        try:
            self._socket.sendall(line.encode())
        except OSError:
            self._socket.close()
            self._socket = None


class Listener:
    """The driver's side, on threads of its own."""

    def __init__(self, host: str, heard: Callable[[dict[str, Any]], None]) -> None:
        """Takes in ``host`` this machine's name among the workers."""
        self._heard = heard
        self._host = host
        self._password = secrets.token_hex(16)
        self._server = listen(host)
        threading.Thread(target=self._accept, name="reports", daemon=True).start()

    @property
    def address(self) -> Address:
        """Returns the address and the password that workers need."""
        return self._host, self._server.getsockname()[1], self._password

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
        with suppress(OSError, ValueError, RecursionError), connection, connection.makefile() as lines:
            while line := lines.readline(_LONGEST_LINE):
                report = json.loads(line)
                if not isinstance(report, dict) or report.pop("password", None) != self._password:
                    return
                self._heard(report)
