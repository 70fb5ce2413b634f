"""Runs one instance of a pod: a process that is started again whenever it ends.

A thread for each, started and stopped by the pod. Between supervisor and instance there is a pair of sockets, the
lifeline: over it the instance tells its port, and when the supervisor is gone, however it went, the instance notices.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from streamsapp.supervisor.restart_policy import RestartBackoff

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"


class InstanceProcess(threading.Thread):
    """Looks after one instance."""

    def __init__(self, name: str, command: Sequence[str], refused: Callable[[int], None]) -> None:
        """``refused`` hears the exit code of an instance that is not started again."""
        super().__init__(name=f"member-{name}", daemon=True)
        self.instance = name
        self._command = command
        self._refused = refused
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._leaving = threading.Event()
        #: The place where the instance is to be asked; ``None`` while it is not there.
        self.endpoint: str | None = None
        #: The number of times that it was started.
        self.starts = 0
        #: Set when the instance has got as far as its port, or has ended and that was seen to.
        self.settled = threading.Event()
        #: The exit code of the last process that ended.
        self.code: int | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs."""
        process = self._process
        return None if process is None else process.pid

    def run(self) -> None:
        restarts = RestartBackoff()
        while (delay := self._live_once(restarts)) is not None:
            self.settled.set()
            self._leaving.wait(delay)
        self.settled.set()

    def _live_once(self, restarts: RestartBackoff) -> float | None:
        """Runs a process from start to end; returns how many seconds to wait before the next, ``None`` when there is
        none."""
        began = time.monotonic()
        code = self._live()
        if code is None or self._leaving.is_set():
            return None
        ran = time.monotonic() - began
        delay = restarts.after(code, ran)
        if delay is None:
            self._refused(code)
            return None
        log.warning("%s ended with %s after %.1f s; it starts again in %.1f s", self.instance, code, ran, delay)
        return delay

    def leave(self) -> None:
        """Ask the instance to end in good order, and don't start it again."""
        with self._lock:
            self._leaving.set()
            if self._process is not None:
                self._process.send_signal(signal.SIGTERM)

    def stay_down(self) -> None:
        """Let the instance go on, but don't start it again."""
        self._leaving.set()

    def kill(self) -> None:
        """End the process at once."""
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def _live(self) -> int | None:
        """Start the instance and wait for its end; ``None`` when it is no longer wanted."""
        lifeline, theirs = socket.socketpair()
        with lifeline:
            with theirs, self._lock:
                if self._leaving.is_set():
                    return None
                # A session of its own: Ctrl-C reaches the supervisor alone, which knows what it means.
                process = self._process = subprocess.Popen(
                    [*self._command, "--lifeline", str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            self.starts += 1
            log.info("%s runs as process %d", self.instance, process.pid)
            port = _read_port(lifeline)
            if port is not None:
                self.endpoint = f"{_LOOPBACK}:{port}"
                self.settled.set()
            self.code = process.wait()
        self.endpoint = None
        with self._lock:
            self._process = None
        return self.code


def _read_port(lifeline: socket.socket) -> int | None:
    """The port the instance tells; ``None`` when it ends before."""
    with lifeline.makefile("rb") as lines:
        told = lines.readline().strip()
    return int(told) if told.isdigit() else None
