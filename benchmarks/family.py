"""CPU time and memory of a program and of all that descends from it, the living and the dead.

Called by everything here that measures, on the thread that does. Only parents show which processes are a program's:
sessions and process groups may be left, and an environment cannot be read once a process has ended. A process whose
parent ends first, as with Spark's Python workers, must not be lost. So programs are started by ``command``: Linux gives
them the orphans among their descendants, which stay there, ended but not forgotten, as long as the program lives. The
time of processes whose parent has waited for them is in that parent's figures. Linux drops the time of children whose
parent ignores their ends, as the daemon of Spark's workers does: ``CpuTime`` keeps what it last saw of them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from pathlib import Path

#: The unit of times in ``/proc``.
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
#: ``prctl(2)``.
_SET_CHILD_SUBREAPER = 36


def command(program: list[str]) -> list[str]:
    """The command that starts a program so that its descendants stay its own."""
    return [sys.executable, __file__, *program]


def adopt_orphans() -> None:
    """Descendants of this process stay its own from now on. Raises ``OSError`` where the system cannot do that."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "orphans cannot be adopted")


def end_on_sigterm() -> None:
    """Make SIGTERM end this process as an exception does, so that what it has started is ended first."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


class CpuTime:
    """User and system time of a program and its descendants, but for processes that do not count."""

    def __init__(self, program: int, without: Collection[int] = ()) -> None:
        self._program = program
        self._without = frozenset(without)
        self._dropped: dict[tuple[int, str], float] = {}

    def seconds(self) -> float:
        """The time so far. For a child whose parent ignores its end, it has the time that the child had taken at the
        last call."""
        living: dict[tuple[int, str], float] = {}
        for process in set(members(self._program)) - self._without:
            if stat := _stat(process):
                identity = process, stat[19]
                living[identity] = sum(map(int, stat[11:15])) / TICKS_PER_SECOND
                self._dropped.pop(identity, None)
                if _ignores_ends_of_children(int(stat[1])):
                    self._dropped[identity] = living[identity]
        return sum((self._dropped | living).values())


def peak_rss_mb(program: int) -> float:
    """The most memory that each of the living has had, added up."""
    return sum(map(_peak_rss_mb, members(program)))


def rss_mb(program: int) -> float:
    """Memory that the living have now."""
    return sum(map(process_rss_mb, members(program)))


def process_rss_mb(process: int) -> float:
    """Memory that one process has now. Zero if it has ended."""
    return sum(map(int, _stat(process)[21:22])) * _PAGE / 1e6


def members(program: int) -> list[int]:
    """The program and its descendants."""
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*"):
        if stat := _stat(int(path.name)):
            children[int(stat[1])].append(int(path.name))

    def descend(process: int) -> Iterator[int]:
        yield process
        for child in children[process]:
            yield from descend(child)

    return list(descend(program))


def _ignores_ends_of_children(process: int) -> bool:
    return any(int(mask, 16) >> (signal.SIGCHLD - 1) & 1 for mask in _status(process, "SigIgn:"))


def _peak_rss_mb(process: int) -> float:
    return sum(map(int, _status(process, "VmHWM:"))) / 1024


def _status(process: int, field: str) -> list[str]:
    """The value of a line of ``/proc/PID/status``; none if the process is gone."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [line.split()[1] for line in lines if line.startswith(field)]


def _stat(process: int) -> list[str]:
    """The fields of ``/proc/PID/stat`` after the command's name, which may itself hold spaces and brackets; none if it
    is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


if __name__ == "__main__":
    adopt_orphans()
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - it becomes the program
