"""Processes that go on after the command that started them has ended, found again by what they wrote down.

Called by the node and by the host's services, on the caller's thread. A process id may be given to another process
later; so the moment at which the kernel started it is written down too, and both must match before a signal is sent.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from streamsapp.errors import StreamsError

_POLL_SECONDS = 0.05

#: The processes that this one started itself. They are kept, because Python complains of children that are forgotten
#: while they run.
_children: list[subprocess.Popen[bytes]] = []


class Daemon:
    """One program that runs at most once per folder of a cluster."""

    def __init__(self, name: str, command: Sequence[str], *, run: Path, logs: Path) -> None:
        self.name = name
        self._command = list(command)
        self._pid_file = run / f"{name}.pid"
        self.log = logs / f"{name}.log"

    def start(self, environment: Mapping[str, str] | None = None) -> bool:
        """Starts the program, unless it runs; says whether it had to be started."""
        if self.pid() is not None:
            return False
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self._command,
                env=None if environment is None else {**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C reaches the command alone
                umask=0o022,
            )
        _children.append(process)
        note(self._pid_file, process.pid)
        return True

    def pid(self) -> int | None:
        """Its process while it runs."""
        return noted(self._pid_file)

    def stop(self, sign: int = signal.SIGTERM, timeout: float = 15.0) -> None:
        """Returns when it has ended; a process that has not ended after ``timeout`` seconds is killed."""
        end(self._pid_file, sign, timeout)

    def wait(self, ready: Callable[[], bool], seconds: float) -> None:
        """Returns when ``ready`` says so; raises with its last words when it ends or takes too long instead."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self.pid() is None:
                raise self.failed("ended instead of becoming ready")
            if time.monotonic() > deadline:
                raise self.failed(f"was not ready after {seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def failed(self, what: str) -> StreamsError:
        words = self.log.read_text("utf-8", errors="replace").splitlines()[-8:] if self.log.exists() else []
        return StreamsError("\n".join([f"{self.name} {what}; the end of {self.log}:", *words]))


def note(pid_file: Path, pid: int) -> None:
    """Write down a process so that :func:`noted` finds it."""
    pid_file.write_text(f"{pid} {_started_at(pid)}", encoding="utf-8")


def noted(pid_file: Path) -> int | None:
    """The process that was written down, if it still runs."""
    with suppress(FileNotFoundError, ValueError):
        pid, started_at = pid_file.read_text("utf-8").split()
        if started_at == _started_at(int(pid)):
            return int(pid)
    return None


def end(pid_file: Path, sign: int = signal.SIGTERM, timeout: float = 15.0) -> None:
    """End the process that was written down, if it still runs."""
    pid = noted(pid_file)
    if pid is not None:
        deadline = time.monotonic() + timeout
        with suppress(ProcessLookupError):
            os.kill(pid, sign)
        while noted(pid_file) is not None:
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
    pid_file.unlink(missing_ok=True)


def _started_at(pid: int) -> str:
    """In clock ticks since the machine started; empty for a process that does not run, or only waits to be reaped."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return "" if fields[0] in {"Z", "X"} else fields[19]
