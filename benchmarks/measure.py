"""Runs programs and measures them from outside: wall time, CPU time with children, peak memory.

Called by ``run.py``. A program under test prints a line ``@@ NAME COUNT`` on standard output at each point worth
noting (``FIRST``, ``HALF``, ``LAST``, ``RUNNING``, ``CLOSED``) and stays alive until its standard input ends. One
thread per program reads these lines and takes the figures from ``/proc`` at that moment, so that every system is
measured by the same code and none spends its own time on it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_CORES = os.cpu_count() or 1


class ProgramFailedError(Exception):
    """A program under test ended or ran out of time before it was done."""


@dataclass(frozen=True)
class Mark:
    """The state of a program and of the machine when it passed a point."""

    count: int
    at: float
    cpu_seconds: float
    peak_rss_mb: float
    machine_cpu_seconds: float


@dataclass(frozen=True)
class Measurement:
    """The cost of one run, from its first record until all was flushed, committed and closed.

    The second half has no JIT compilation and no final flush in it; ``None`` where several programs ran side by side.
    ``other_load`` is the share of the machine that everything else took meanwhile, the broker included.
    ``bytes_per_second`` is that of a download that was part of the run.
    """

    seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    second_half_records: int | None
    second_half_seconds: float | None
    second_half_cpu_seconds: float | None
    other_load: float
    bytes_per_second: float | None


class Program:
    """One program under test, in a session of its own so that its children are counted and killed with it."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.marks: dict[str, Mark] = {}
        self._log = log
        self._closed = threading.Event()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | environment,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def wait_until_closed(self, deadline: float) -> None:
        """Return once the program printed ``CLOSED``; it is still alive then."""
        self._closed.wait(max(0.0, deadline - time.monotonic()))
        if "CLOSED" not in self.marks:
            raise ProgramFailedError(f"{self._process.args!r} did not get to its end, see {self._log}")

    def end(self) -> None:
        """Let the program go; kill what is left of it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            if line.startswith("@@ "):
                _, name, count = line.split()
                self.marks[name] = _mark(self._process.pid, int(count))
                if name == "CLOSED":
                    break
        self._closed.set()


def run_to_end(programs: list[Program], timeout_seconds: float) -> list[dict[str, Mark]]:
    """The marks of programs that were started side by side, once all are done."""
    deadline = time.monotonic() + timeout_seconds
    try:
        for program in programs:
            program.wait_until_closed(deadline)
    finally:
        for program in programs:
            program.end()
    return [program.marks for program in programs]


def measure(marks: list[dict[str, Mark]], end_mark: str = "CLOSED") -> Measurement:
    """Sum over the programs of one run; the clock runs from the earliest first record to the latest end."""
    first = [each["FIRST"] for each in marks]
    closed = [each[end_mark] for each in marks]
    begin = min(first, key=lambda mark: mark.at)
    end = max(closed, key=lambda mark: mark.at)
    seconds = end.at - begin.at
    cpu_seconds = sum(mark.cpu_seconds for mark in closed) - sum(mark.cpu_seconds for mark in first)
    machine = end.machine_cpu_seconds - begin.machine_cpu_seconds
    half, last = (marks[0].get("HALF"), marks[0].get("LAST")) if len(marks) == 1 else (None, None)
    moved, took = marks[0].get("BYTES"), marks[0].get("MILLISECONDS")
    return Measurement(
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        peak_rss_mb=sum(mark.peak_rss_mb for mark in closed),
        second_half_records=last.count - half.count if half and last else None,
        second_half_seconds=last.at - half.at if half and last else None,
        second_half_cpu_seconds=last.cpu_seconds - half.cpu_seconds if half and last else None,
        other_load=max(0.0, machine - cpu_seconds) / (seconds * _CORES),
        bytes_per_second=1000 * moved.count / took.count if moved and took else None,
    )


def _mark(session: int, count: int) -> Mark:
    at = time.monotonic()
    cpu_seconds = peak_rss_mb = 0.0
    for process in _processes(session):
        try:
            cpu_seconds += _cpu_seconds(process)
            peak_rss_mb += _peak_rss_mb(process)
        except (FileNotFoundError, ProcessLookupError):
            continue  # A child that ended meanwhile: its parent has its CPU time from now on.
    return Mark(count, at, cpu_seconds, peak_rss_mb, _machine_cpu_seconds())


def session_cpu_seconds(session: int) -> float:
    """User and system time that the processes of a session have taken so far."""
    return _mark(session, 0).cpu_seconds


def _processes(session: int) -> list[Path]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if int(_stat_fields(process)[3]) == session:
                found.append(process)
        except (FileNotFoundError, ProcessLookupError):
            continue  # Ended between the listing and the look.
    return found


def _stat_fields(process: Path) -> list[str]:
    """The fields of ``/proc/PID/stat`` after the command's name, which may itself hold spaces and brackets."""
    return (process / "stat").read_text().rpartition(")")[2].split()


def _cpu_seconds(process: Path) -> float:
    """User and system time of a process and of its children that have ended."""
    return sum(int(ticks) for ticks in _stat_fields(process)[11:15]) / _TICKS_PER_SECOND


def _peak_rss_mb(process: Path) -> float:
    for line in (process / "status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0  # A process that is ending has no memory left to report.


def _machine_cpu_seconds() -> float:
    """Time the machine was busy since it started: everything but idle and waiting for the disk."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / _TICKS_PER_SECOND
