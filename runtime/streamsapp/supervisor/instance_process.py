"""Runs one instance of a pod: a process that is started again whenever it ends.

A thread for each, started and stopped by the pod. Between supervisor and instance there is a pair of sockets, the
lifeline: over it the instance reports its port and its member of the group, and when the supervisor is gone, however it
went, the instance notices.
"""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from streamsapp.supervisor.last_failure import LastFailure
from streamsapp.supervisor.lifeline import LifelineReader
from streamsapp.supervisor.restart_policy import RestartBackoff

log = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
#: An instance that has not reported its port after so many seconds hangs, in the user's own code perhaps.
START_SECONDS = 600.0
#: Bytes that a port has at most, with the end of its line.
_LONGEST_PORT = 8
#: The exit code of a process that could not be started.
_NOT_STARTED = 1


class Away(Protocol):
    """Takes an instance's place while it is away, as between an end and the next start. Called on its thread."""

    def begin(self, failure: LastFailure | None) -> None:
        """The instance has ended; this is the last failure that it reported."""

    def end(self) -> None:
        """The instance is about to start."""


class Members(Protocol):
    """Knows which member of the group an instance is."""

    def counts(self, instance: str, member_id: str) -> None:
        """The group counts it under this id; empty: not any more."""

    def ended(self, instance: str) -> None:
        """Its process has ended."""


class InstanceProcess(threading.Thread):
    """Looks after one instance."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        refused: Callable[[int], None],
        away: Away | None = None,
        members: Members | None = None,
    ) -> None:
        """``refused`` hears the exit code of an instance that is not started again, ``away`` when it is not there;
        ``members`` which member of the group it is."""
        super().__init__(name=f"member-{name}", daemon=True)
        self.instance = name
        self._command = command
        self._refused = refused
        self._away = away
        self._members = members
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._leaving = threading.Event()
        #: The place where the instance is to be asked; ``None`` while it is not there.
        self.endpoint: str | None = None
        #: The number of times that it was started.
        self.starts = 0
        #: The time of the last start, in monotonic seconds.
        self.began_at = 0.0
        #: Set when the instance has got as far as its port, or has ended and that was seen to.
        self.settled = threading.Event()
        #: The exit code of the last process that ended, and the failure that it reported, if any did.
        self.code: int | None = None
        self.failure: LastFailure | None = None

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
        try:
            code = self._live()
        except OSError as error:
            if self._leaving.is_set():
                return None
            # The host is short of something, as memory or descriptors, and may have it later.
            delay = restarts.after(_NOT_STARTED, 0.0)
            log.error("%s cannot be started: %s; it is tried again in %.1f s", self.instance, error, delay)
            return delay
        if code is None or self._leaving.is_set():
            return None
        if self._away is not None:
            self._away.begin(self.failure)
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
        if self._away is not None:
            self._away.end()
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
            self.began_at = time.monotonic()
            log.info("%s runs as process %d", self.instance, process.pid)
            port = self._port(lifeline)
            if port is not None:
                self.endpoint = f"{_LOOPBACK}:{port}"
                self.settled.set()
            reader = LifelineReader(self.instance, lifeline, self._counts)
            reader.start()
            self.code = process.wait()
            reader.close()
            self.failure = reader.failure or self.failure
            if self._members is not None:
                self._members.ended(self.instance)
        self.endpoint = None
        with self._lock:
            self._process = None
        return self.code

    def _counts(self, member_id: str) -> None:
        """Called on the thread that reads the lifeline."""
        if self._members is not None:
            self._members.counts(self.instance, member_id)

    def _port(self, lifeline: socket.socket) -> int | None:
        """Returns the port that the instance reports; ``None`` when it ends before, or takes too long and is killed."""
        lifeline.settimeout(START_SECONDS)
        try:
            told = _first_line(lifeline)
        except OSError as error:
            log.error("%s reports no port within %.0f s: %s; it is killed", self.instance, START_SECONDS, error)
            self.kill()
            return None
        return int(told) if told.isdigit() else None


def _first_line(lifeline: socket.socket) -> bytes:
    """The number of a port, and nothing of what comes after it; less if the instance ends before."""
    line = b""
    while not line.endswith(b"\n") and len(line) < _LONGEST_PORT and (byte := lifeline.recv(1)):
        line += byte
    return line.strip()
