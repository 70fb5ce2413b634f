"""The figures of a measured program have everything in them that descends from it."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import processes
from benchmarks.family import CpuTime, members
from benchmarks.measure import Mark, Program, measure, run_to_end

_CPU_SECONDS, _PATIENCE = 0.2, 120.0
#: Has a worker as Spark has them: in a session of its own, and of a daemon that ends first, without waiting. The worker
#: begins when the named file is there, and has ended when the program is done. It takes more than is asked for: Linux
#: counts in steps.
_PROGRAM = f"""
import os, sys, time

def work():
    while time.process_time() < {2 * _CPU_SECONDS}:
        pass

alive, end = os.pipe()
print("@@ FIRST 0", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        work()
    os._exit(0)
os.wait()
os.close(end)
os.read(alive, 1)
print("@@ CLOSED 1", flush=True)
sys.stdin.read()
"""


def test_a_worker_that_left_its_session_and_lost_its_parent_counts_with_its_program(tmp_path: Path) -> None:
    begin = tmp_path / "begin"

    class Marked(Program):
        def _mark(self, count: int) -> Mark:
            mark = super()._mark(count)
            begin.touch()  # the first mark has none of the worker's time, however late it is taken
            return mark

    program = Marked([sys.executable, "-c", _PROGRAM, str(begin)], {}, tmp_path / "log")

    figures = measure(run_to_end([program], _PATIENCE))

    assert figures.cpu_seconds >= _CPU_SECONDS


#: A daemon that ignores the ends of its children, as that of Spark's workers does. Its worker ends on request.
_DAEMON = f"""
import os, signal, sys, time

signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if (worker := os.fork()) == 0:
    while time.process_time() < {2 * _CPU_SECONDS}:
        pass
    print("worked", flush=True)
    sys.stdin.readline()
    os._exit(0)
try:
    os.waitpid(worker, 0)
except ChildProcessError:
    print("ended", flush=True)
time.sleep({_PATIENCE})
"""


@pytest.fixture
def daemon() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _DAEMON]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def said(daemon: subprocess.Popen[str]) -> str:
    assert daemon.stdout is not None
    return daemon.stdout.readline().rstrip()


def end_the_worker(daemon: subprocess.Popen[str]) -> None:
    print(file=daemon.stdin, flush=True)
    assert said(daemon) == "ended"


def test_a_worker_whose_parent_ignores_its_end_counts_with_what_was_seen_of_it(daemon: subprocess.Popen[str]) -> None:
    taken = CpuTime(daemon.pid)
    assert said(daemon) == "worked"
    before = taken.seconds()
    end_the_worker(daemon)

    assert taken.seconds() >= before >= _CPU_SECONDS


def test_processes_that_were_there_before_do_not_count(daemon: subprocess.Popen[str]) -> None:
    assert said(daemon) == "worked"

    assert CpuTime(daemon.pid, without=members(daemon.pid)).seconds() == 0


def test_what_many_processes_took_has_workers_whose_parent_ignores_their_ends(
    daemon: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = threading.Semaphore(0)

    class Watched(CpuTime):
        def seconds(self) -> float:
            found = super().seconds()
            looks.release()
            return found

    def ends_after_two_looks() -> None:
        assert said(daemon) == "worked"
        while looks.acquire(blocking=False):
            pass
        assert looks.acquire(timeout=_PATIENCE)
        assert looks.acquire(timeout=_PATIENCE)
        end_the_worker(daemon)

    monkeypatch.setattr(processes, "CpuTime", Watched)
    monkeypatch.setattr(processes, "adopt_orphans", lambda: None)  # the tests' process keeps no orphans
    monkeypatch.setattr(processes, "members", lambda process: [process])  # the daemon counts, though it was there

    assert processes.timed(ends_after_two_looks).cpu_seconds >= _CPU_SECONDS


def test_the_memory_of_processes_that_have_ended_by_the_last_mark_counts() -> None:
    marks = {
        "FIRST": Mark(0, 1.0, 1.0, 100.0, 1.0),
        "LAST": Mark(1, 2.0, 2.0, 900.0, 2.0),
        "CLOSED": Mark(1, 3.0, 3.0, 50.0, 3.0),
    }

    assert measure([marks]).peak_rss_mb == 900.0


def test_a_benchmark_that_is_told_to_end_ends_what_it_started() -> None:
    program = """
import time
from benchmarks.family import end_on_sigterm
end_on_sigterm()
try:
    print("begun", flush=True)
    time.sleep(60)
finally:
    print("ended", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "begun\n"
        started.terminate()
        assert started.communicate(timeout=_PATIENCE)[0] == "ended\n"
    assert started.returncode == 128 + signal.SIGTERM
