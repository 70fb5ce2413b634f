"""A plugin of pytest's for developers who want `make test` faster: the CPU seconds of each file of tests, the dearest
first.

``python -m pytest -p cpu_by_file tests/integration`` in one process. It counts this process and all processes that it
started and that did not leave its tree, brokers and Java among them. The work of a shared fixture counts for the file
during which it happens. Elapsed time says little on a machine that has other things to do; two cores have little CPU
time.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")
#: In /proc/PID/stat, behind the command: the parent, and the ticks of the process and of those it waited for.
_PARENT, _TIMES = 1, slice(11, 15)

_spent: Counter[str] = Counter()
#: The file whose tests run, and what had been used when they began.
_running: dict[str, int] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """Looks where one file ends and where the next begins: a look takes some milliseconds."""
    file = item.nodeid.partition("::")[0]
    if file not in _running:
        _running[file] = cpu_ticks()
    result = yield
    if nextitem is None or nextitem.nodeid.partition("::")[0] != file:
        _spent[file] += cpu_ticks() - _running.pop(file)
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("CPU seconds")
    for file, ticks in _spent.most_common():
        terminalreporter.write_line(f"{ticks / _TICKS:8.1f}  {file}")


def cpu_ticks() -> int:
    """Returns the CPU ticks that this process and those below it have used so far."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text("utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it has ended since
        pid = int(path.parent.name)
        parents[pid], ticks[pid] = int(fields[_PARENT]), sum(map(int, fields[_TIMES]))
    return sum(ticks[pid] for pid in parents if _is_below(pid, parents))


def _is_below(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents and pid != os.getpid():
        pid = parents[pid]
    return pid == os.getpid()
