"""Runs programs and measures them from outside: wall time, CPU time with children, peak memory.

Called by ``run.py``. A program under test prints a line ``@@ NAME COUNT`` on standard output at each point worth noting
(``FIRST``, ``HALF``, ``LAST``, ``RUNNING``, ``CLOSED``) and stays alive until its standard input ends. One thread per
program reads these lines and takes the figures from ``/proc`` at that moment. So the same code measures every system,
and none spends its own time on it.
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

from benchmarks import family

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
    """One program under test, in a session of its own so that its children are killed with it."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.marks: dict[str, Mark] = {}
        self._log = log
        self._closed = threading.Event()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                family.command(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=os.environ | environment,
                text=True,
                start_new_session=True,
            )
        self._cpu_time = family.CpuTime(self._process.pid)
        self._reader = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def wait_until_closed(self, deadline: float) -> None:
        """Return once the program printed ``CLOSED``; it is still alive then."""
        self._closed.wait(max(0.0, deadline - time.monotonic()))
        if "CLOSED" not in self.marks:
            raise ProgramFailedError(f"{self._process.args!r} did not get to its end, see {self._log}")

    def end(self) -> None:
        """Let the program go; kill its remaining processes."""
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
                self.marks[name] = self._mark(int(count))
                if name == "CLOSED":
                    break
        self._closed.set()

    def _mark(self, count: int) -> Mark:
        at, cpu_seconds = time.monotonic(), self._cpu_time.seconds()
        return Mark(count, at, cpu_seconds, family.peak_rss_mb(self._process.pid), machine_cpu_seconds())


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
        peak_rss_mb=sum(max(mark.peak_rss_mb for mark in each.values()) for each in marks),
        second_half_records=last.count - half.count if half and last else None,
        second_half_seconds=last.at - half.at if half and last else None,
        second_half_cpu_seconds=last.cpu_seconds - half.cpu_seconds if half and last else None,
        other_load=max(0.0, machine - cpu_seconds) / (seconds * _CORES),
        bytes_per_second=1000 * moved.count / took.count if moved and took else None,
    )


def machine_cpu_seconds() -> float:
    """Time the machine was busy since it started: everything but idle and waiting for the disk."""
    ticks = [int(field) for field in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) / family.TICKS_PER_SECOND
