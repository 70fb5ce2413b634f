"""A process that is killed while it fetches a snapshot leaves nothing that a later start takes for a database."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from checkpoints import chain_of, checkpoint, content_of, files_in, saved_files, writer_of
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.snapshot import Snapshot
from streamsapp.remote.snapshot_fetch import fetch

PLENTY = 1 << 30

#: Fetches; kills itself with the file-system call of that number. The interpreter announces each call beforehand.
FETCHER = """
import os, signal, sys
from pathlib import Path
from checkpoints import chain_of
from streamsapp.remote.directory_store import DirectoryStore
from streamsapp.remote.snapshot_fetch import fetch

CALLS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
store, task, fatal = DirectoryStore(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
calls = 0

def count(event, arguments):
    global calls
    if event in CALLS and str(arguments[0]).startswith((task, "rocksdb", "0000", "CURRENT")):
        calls += 1
        if calls == fatal:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(count)
fetch(chain_of(store), Path(task), lambda snapshot: None, 1 << 30, downloads=1)
print(calls)
"""


def run(store: Path, task: Path, fatal: int) -> subprocess.CompletedProcess[str]:
    """Fetches in a process of its own, which is killed with call number ``fatal``; 0 lets it live."""
    command = [sys.executable, "-c", FETCHER, str(store), str(task), str(fatal)]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def begin_with(task: Path) -> dict[str, bytes]:
    """A task's directory with the database of an earlier life."""
    return files_in(checkpoint(task / "rocksdb", {1: b"old", 2: b"older"}))


@pytest.mark.parametrize("moment", [0.05, 0.2, 0.4, 0.6, 0.75, 0.85, 0.95, 1.0])
def test_who_is_killed_while_fetching_leaves_no_database_of_halves(tmp_path: Path, moment: float) -> None:
    store, task = tmp_path / "store", tmp_path / "task"
    store.mkdir()
    writer = writer_of(DirectoryStore(store))
    writer.claim()
    source = checkpoint(tmp_path / "source", {8: b"eight" * 500_000, 9: b"nine"})
    published = writer.publish(source, content_of(10))
    begin_with(tmp_path / "rehearsal")
    rehearsal = run(store, tmp_path / "rehearsal", 0)
    assert rehearsal.returncode == 0, rehearsal.stderr
    old = begin_with(task)

    killed = run(store, task, max(1, round(int(rehearsal.stdout) * moment)))

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = files_in(task / "rocksdb") if (task / "rocksdb").exists() else {}
    # The database that was there goes file by file; the new one comes at once, so they are never mixed.
    assert left.items() <= old.items() or left == saved_files(source)
    assert fetched(store, task) == published
    assert [path.name for path in task.iterdir()] == ["rocksdb"]
    assert files_in(task / "rocksdb") == saved_files(source)


def fetched(store: Path, task: Path) -> Snapshot | None:
    return fetch(chain_of(DirectoryStore(store)), task, lambda _: None, PLENTY)
